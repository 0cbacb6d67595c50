"""The service limits the duration and the number of connections."""

from contextlib import ExitStack
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.exceptions import HTTPException
from uvicorn import Config
from uvicorn.server import ServerState

from api.events.stream import MOST_STREAMS, Listeners
from api.server import HEADERS_S, TimedProtocol

HEADERS = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    pass


def begun(task: Any, **_: Any) -> Mock:
    task.close()
    return Mock()


def connection() -> tuple[TimedProtocol, Mock, Mock]:
    loop, transport = Mock(), Mock()
    loop.create_task.side_effect = begun
    transport.get_extra_info.return_value = None
    made = TimedProtocol(Config(nothing, log_config=None), ServerState(), {}, _loop=loop)
    made.connection_made(transport)
    return made, loop, transport


def test_connection_without_a_complete_request_has_a_time_limit() -> None:
    made, loop, transport = connection()
    made.data_received(HEADERS)
    loop.call_later.assert_called_once_with(HEADERS_S, transport.close)
    assert not loop.call_later.return_value.cancel.called, "incomplete headers are not a request"
    made.data_received(b"\r\n")
    loop.call_later.return_value.cancel.assert_called_once_with()
    assert loop.call_later.call_count == 1, "the response has no time limit"
    made.cycle.response_complete = True
    made.data_received(HEADERS[:5])
    assert loop.call_later.call_count == 2, "the next request on the connection has a time limit as well"
    made.connection_lost(None)


def test_event_streams_per_token_are_limited() -> None:
    listeners, held = Listeners(), ExitStack()
    with held:
        for key in ["a"] * MOST_STREAMS + ["b"] + [None] * 2 * MOST_STREAMS:
            held.enter_context(listeners.one_more(key))
        with pytest.raises(HTTPException, match=r"429.*close some"), listeners.one_more("a"):
            pass
    with listeners.one_more("a"):
        pass
