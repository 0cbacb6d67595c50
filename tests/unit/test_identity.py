"""A worker keeps its id after a restart, and two running workers never share an id."""

import os
from pathlib import Path

import pytest

from workers.daemon.identity import IdentityError, claim_identity


def test_worker_keeps_its_id_after_a_restart_and_running_workers_have_different_ids(tmp_path: Path) -> None:
    first, second = claim_identity(tmp_path / "data"), claim_identity(tmp_path / "data")
    assert first.worker_id != second.worker_id
    os.close(first.descriptor)
    reborn = claim_identity(tmp_path / "data")
    assert reborn.worker_id == first.worker_id
    os.close(second.descriptor)
    os.close(reborn.descriptor)


def test_error_names_the_unusable_worker_data_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IdentityError, match=r"file/data cannot be used .*--data"):
        claim_identity(tmp_path / "file" / "data")
