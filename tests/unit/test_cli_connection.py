"""Commands continue after the service restarts, even at a different address."""

from collections.abc import Callable

import pytest

from evo.cli.service import connection as module
from evo.cli.service.connection import Connection
from evo.client import Client, ServiceAway, ServiceUnreachable


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.0)


def failing(*errors: ServiceUnreachable) -> Callable[[Client], str]:
    """Return a request that raises these errors in turn, and then returns the address of the service."""
    left = list(errors)

    def question(client: Client) -> str:
        if left:
            raise left.pop(0)
        return client.url

    return question


def test_command_retries_a_request_until_the_service_is_back() -> None:
    connection = Connection(lambda: "http://127.0.0.1:1", lambda: None)
    answer = connection.ask(failing(ServiceUnreachable("refused"), ServiceAway("503"), ServiceUnreachable("late")))
    assert answer == "http://127.0.0.1:1"
    connection.close()


@pytest.mark.parametrize(("quiet_s", "told"), [(0.0, ["refused; trying again for 60 s"]), (5.0, [])])
def test_command_reports_a_longer_service_outage_once(
    monkeypatch: pytest.MonkeyPatch, quiet_s: float, told: list[str]
) -> None:
    monkeypatch.setattr(module, "QUIET_S", quiet_s)
    connection, notes = Connection(lambda: "http://127.0.0.1:1", lambda: None), list[str]()
    connection.ask(failing(ServiceUnreachable("refused"), ServiceUnreachable("late")), notes.append)
    assert notes == told
    connection.close()


def test_command_sends_its_request_to_the_new_address_of_a_restarted_service() -> None:
    addresses = iter(["http://127.0.0.1:1", "http://127.0.0.1:1", "http://127.0.0.1:2"])
    connection = Connection(lambda: next(addresses), lambda: None)
    first = connection.client
    assert connection.ask(failing(ServiceUnreachable("refused"))) == "http://127.0.0.1:2"
    assert first.url == "http://127.0.0.1:1"
    connection.close()


def test_service_outage_beyond_the_time_limit_raises_the_last_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", -1.0)
    connection = Connection(lambda: "http://127.0.0.1:1", lambda: None)
    with pytest.raises(ServiceAway, match="try again in 120 s"):
        connection.ask(failing(ServiceAway("the service is temporarily unavailable; try again in 120 s")))
    connection.close()


def test_command_resumed_after_a_suspension_retries_before_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr("evo.cli.service.connection.time.monotonic", lambda: now_s)
    connection = Connection(lambda: "http://127.0.0.1:1", lambda: None)
    left = [ServiceUnreachable("reset"), ServiceUnreachable("refused")]

    def question(client: Client) -> str:
        nonlocal now_s
        now_s += 3600.0 if len(left) == 2 else 1.0  # the process is suspended for an hour during the first request
        if left:
            raise left.pop(0)
        return client.url

    assert connection.ask(question) == "http://127.0.0.1:1"
    connection.close()
