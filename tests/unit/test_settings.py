"""The settings of the service are read from the environment."""

from pathlib import Path

import pytest

from api.settings import Settings


def test_database_setting_is_a_path_or_a_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNEL_EVO_DB", str(tmp_path / "my.db"))
    assert Settings().db.file == tmp_path / "my.db"
    monkeypatch.setenv("KERNEL_EVO_DB", "postgresql://evo:secret@host:5432/evo")
    assert Settings().db.shared
    assert "secret" not in f"{Settings().db} {Settings()!r}"
