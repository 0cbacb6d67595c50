"""Stored tokens and sessions expire and can be revoked, on every engine."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from db.repositories.tokens import Terms, Tokens
from evo.errors import Conflict, NotFound
from evo.messages.access import ROLES
from tests.integration.stage import Stage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def session(stage: Stage) -> Iterator[Session]:
    with stage.database.write() as session:
        yield session


def test_tokens_and_sessions_expire_and_can_be_revoked(session: Session) -> None:
    tokens = Tokens(session)
    assert not tokens.any()
    secret, row = tokens.issue(Terms(name="ключ", roles=ROLES, expires_at=NOW + HOUR), by="me", now=NOW)
    session.expire_all()
    held = tokens.holder(secret, NOW)
    assert held is not None
    assert (tokens.any(), held.id, held.roles, held.expires_at) == (True, row.id, list(ROLES), NOW + HOUR)
    for wrong in (secret[:-1], f"{secret}0", secret.replace("kev", "kej"), secret.upper(), ""):
        assert tokens.holder(wrong, NOW) is None
    assert tokens.holder(secret, NOW + HOUR) is None
    cookie = tokens.begin_session(row.id, until=NOW + 2 * HOUR, now=NOW)
    assert tokens.session_holder(cookie, NOW) is held
    assert tokens.session_holder(cookie, NOW + HOUR) is None, "a session must end with its token"
    renewed, after = tokens.rotate(row.id, by="me", grace=timedelta(minutes=1), now=NOW)
    assert (after.roles, after.expires_at) == (row.roles, NOW + HOUR)
    assert tokens.holder(secret, NOW) is not None
    assert tokens.holder(secret, NOW + 2 * timedelta(minutes=1)) is None
    tokens.revoke(row.id, NOW)
    assert tokens.holder(secret, NOW) is tokens.session_holder(cookie, NOW) is None
    assert tokens.holder(renewed, NOW) is after
    assert {each.id for each in tokens.all()} == {row.id, after.id}
    with pytest.raises(Conflict):
        tokens.rotate(row.id, by="me", grace=timedelta(), now=NOW)
    with pytest.raises(NotFound):
        tokens.revoke("nobody", NOW)


def test_join_token_is_valid_once_and_replaces_the_earlier_token_of_a_worker(session: Session) -> None:
    tokens = Tokens(session)
    joins = [tokens.issue(Terms(name=f"join {n}", join=True), by="me", now=NOW)[1] for n in range(3)]
    first, _ = tokens.admit(joins[0], worker_id="w1", name="w1", now=NOW)
    with pytest.raises(Conflict, match="already used"):
        tokens.admit(joins[0], worker_id="w1", name="w1", now=NOW)
    second, row = tokens.admit(joins[1], worker_id="w1", name="w1", now=NOW)
    session.expire_all()
    assert tokens.holder(first, NOW) is None
    assert tokens.holder(second, NOW) is row
    _, other = tokens.issue(Terms(name="other", roles=("worker",)), by="me", now=NOW)
    with pytest.raises(Conflict, match="has a different token"):
        tokens.bind(other.id, "w1", NOW)
    tokens.bind(other.id, "w2", NOW)
    assert tokens.token(other.id).worker_id == "w2"
