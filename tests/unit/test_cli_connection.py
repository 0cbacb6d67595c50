"""A command's connection outlives a service that goes away and comes back, also at another address."""

from collections.abc import Callable

import pytest

from evo.cli.service import connection as module
from evo.cli.service.connection import Connection
from evo.client import Client, ServiceAway, ServiceUnreachable


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.0)


def failing(*errors: ServiceUnreachable) -> Callable[[Client], str]:
    """A question that fails with each of these errors in turn, and is then answered with the address that it asked."""
    left = list(errors)

    def question(client: Client) -> str:
        if left:
            raise left.pop(0)
        return client.url

    return question


def test_a_question_is_repeated_until_the_service_is_back() -> None:
    connection = Connection(lambda: "http://127.0.0.1:1", lambda: None)
    answer = connection.ask(failing(ServiceUnreachable("refused"), ServiceAway("503"), ServiceUnreachable("late")))
    assert answer == "http://127.0.0.1:1"
    connection.close()


def test_a_service_that_comes_back_elsewhere_is_found() -> None:
    addresses = iter(["http://127.0.0.1:1", "http://127.0.0.1:1", "http://127.0.0.1:2"])
    connection = Connection(lambda: next(addresses), lambda: None)
    first = connection.client
    assert connection.ask(failing(ServiceUnreachable("refused"))) == "http://127.0.0.1:2"
    assert first.url == "http://127.0.0.1:1"
    connection.close()


def test_a_service_that_stays_away_ends_the_command_with_what_it_said_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", -1.0)
    connection = Connection(lambda: "http://127.0.0.1:1", lambda: None)
    with pytest.raises(ServiceAway, match="try again in 120 s"):
        connection.ask(failing(ServiceAway("the service cannot be asked now: try again in 120 s")))
    connection.close()
