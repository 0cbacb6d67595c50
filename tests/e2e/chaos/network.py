"""Network between real workers and services, which distributes connections and can cut or delay them."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class Network:
    """A TCP relay in its own thread, at the address that workers use for the service."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._turn = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network")
        self._thread.start()
        self._server = self._run(self._listen())
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Close every connection and discard all data in flight."""
        self._run(self._cut())

    def hold(self, seconds: float) -> None:
        """Forward no data for `seconds`, then return."""
        self._run(self._hold(seconds))

    def close(self) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _listen(self) -> asyncio.Server:
        self._open.set()
        return await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def _end(self) -> None:
        self._server.close()
        self._open.set()
        while connected := asyncio.all_tasks() - {asyncio.current_task()}:
            await self._cut()
            await asyncio.wait(connected, timeout=0.1)

    async def _cut(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _hold(self, seconds: float) -> None:
        self._open.clear()
        await asyncio.sleep(seconds)
        self._open.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._turn += 1
        try:
            with suppress(OSError):
                there = await asyncio.open_connection("127.0.0.1", self._ports[self._turn % len(self._ports)])
                self._writers |= {writer, there[1]}
                try:
                    await asyncio.gather(self._relay(reader, there[1]), self._relay(there[0], writer))
                finally:
                    self._writers -= {writer, there[1]}
                    there[1].transport.abort()
        finally:
            writer.transport.abort()

    async def _relay(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await source.read(65536):
                await self._open.wait()
                target.write(piece)
                await target.drain()
        target.close()
