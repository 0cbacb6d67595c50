"""The event stream of the service."""

import time
from collections.abc import Iterable, Iterator, Mapping

from evo.client.calls import Calls
from evo.client.transport import ServiceUnreachable, from_json
from evo.messages.event import EVENTS, Event

STREAM = "text/event-stream"

QUIET_S = 45.0
"""Seconds without data after which a stream is considered interrupted. The service sends a comment every 15 seconds."""


class Events(Calls):
    """Client method that follows the event stream."""

    def events(self, search_id: int | None = None, *, patience_s: float = 60.0) -> Iterator[Event]:
        """Yield the events of one search, or of all searches if `search_id` is None, without end.

        The first events describe the current state of the search, or of each unfinished search. An interrupted stream
        is resumed where it ended. Any process of the service can resume it.

        Raises:
            ServiceUnreachable: no service responded for `patience_s` seconds after the first failed attempt.
            ServiceError: the response is not an event stream, or an event cannot be parsed.
        """
        path = "/events" if search_id is None else f"/searches/{search_id}/events"
        last_id, failing_since = "", None
        while True:
            try:
                with self._transport.stream(
                    path, headers={"Last-Event-ID": last_id}, quiet_s=QUIET_S, media_type=STREAM
                ) as answer:
                    for fields in _blocks(_lines(answer)):
                        failing_since, last_id = None, fields.get("id", last_id)
                        name = fields.get("event", "")
                        if (kind := EVENTS.get(name)) is not None and "data" in fields:
                            yield from_json(fields["data"], kind, what=f"an event {name!r}")
            except ServiceUnreachable:
                failing_since = time.monotonic() if failing_since is None else failing_since
                if time.monotonic() - failing_since > patience_s:
                    raise
            self._transport.pause(2)


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a stream. Only a line feed ends a line, because data may contain other Unicode line breaks."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)


def _blocks(lines: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """Yield the fields of each event, without comments (https://html.spec.whatwg.org, event stream interpretation)."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        if line and name:
            fields[name] = value.removeprefix(" ")
        elif not line:
            if fields:
                yield fields
            fields = {}
