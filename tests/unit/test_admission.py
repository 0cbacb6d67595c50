"""A worker exchanges its join token for a worker token, and stores the worker token."""

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evo.errors import Conflict
from evo.messages.access import IssuedToken, TokenView
from workers.daemon.identity import NotKept, own_token

GIVEN = "kej_0123456789ab_" + "j" * 43
SECRET = "kev_ba9876543210_" + "s" * 43


def issued() -> IssuedToken:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    token = TokenView(id="x", name="w", roles=("worker",), worker_id="w1", created_at=now, created_by="somebody")
    return IssuedToken(secret=SECRET, token=token)


def used_up() -> IssuedToken:
    raise Conflict("this join token was used before")


@pytest.mark.parametrize("given", [None, SECRET])
def test_worker_without_a_join_token_requests_no_worker_token(tmp_path: Path, given: str | None) -> None:
    assert own_token(given, tmp_path / "w1.token", used_up) == given
    assert list(tmp_path.iterdir()) == []


def test_join_token_is_exchanged_once_and_the_worker_token_is_stored(tmp_path: Path) -> None:
    kept = tmp_path / "data" / "w1.token"
    assert own_token(GIVEN, kept, issued) == SECRET
    assert own_token(GIVEN, kept, used_up) == SECRET, "the same command reuses the stored token"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert GIVEN not in kept.read_text()


def test_new_join_token_replaces_the_stored_token(tmp_path: Path) -> None:
    kept = tmp_path / "w1.token"
    own_token(GIVEN, kept, issued)
    another = GIVEN.replace("0", "1")
    with pytest.raises(Conflict):
        own_token(another, kept, used_up)
    assert own_token(GIVEN, kept, used_up) == SECRET, "a refused join token does not replace the stored token"
    own_token(another, kept, issued)
    with pytest.raises(Conflict):
        own_token(GIVEN, kept, used_up)


def test_join_token_is_not_exchanged_if_the_worker_token_cannot_be_stored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotKept, match="--data"):
        own_token(GIVEN, tmp_path / "file" / "w1.token", lambda: pytest.fail("the join token was exchanged"))
