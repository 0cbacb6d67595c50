"""A lightweight HTTP client, so that a thousand simulated workers use little processor time."""

import asyncio
import json
import time
from collections.abc import Sequence
from itertools import cycle
from typing import Any

KEPT_S = 2.0
"""Seconds after which the service may have closed an idle connection."""


class Refused(Exception):
    """The service answered with an error status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:300]}")
        self.status = status


class Wire:
    """Connections to several service processes. Requests use them in turn, as with a round-robin proxy."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._ports = cycle([int(url.rpartition(":")[2]) for url in urls])
        self._idle: dict[int, list[tuple[asyncio.StreamReader, asyncio.StreamWriter, float]]] = {}

    async def ask(self, method: str, path: str, body: object) -> Any:
        """Send a request and return its JSON answer.

        Raises:
            Refused: the answer has an error status.
            OSError, asyncio.IncompleteReadError: the connection failed before the answer was complete.
        """
        port = next(self._ports)
        content = json.dumps(body).encode()
        head = (
            f"{method} /api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        now = time.monotonic()
        idle = self._idle.setdefault(port, [])
        while idle and now - idle[-1][2] > KEPT_S:
            idle.pop()[1].close()
        reader, writer, _ = idle.pop() if idle else (*await asyncio.open_connection("127.0.0.1", port), now)
        try:
            writer.write(head.encode() + content)
            status, answer = await _answer(reader)
        except BaseException:
            writer.close()
            raise
        idle.append((reader, writer, time.monotonic()))
        if status >= 300:
            raise Refused(status, answer.decode(errors="replace"))
        return json.loads(answer) if answer else None

    def close(self) -> None:
        for idle in self._idle.values():
            for _, writer, _ in idle:
                writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status = int(head.split(" ", 2)[1])
    fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    return status, await reader.readexactly(int(fields.get("content-length", 0)))
