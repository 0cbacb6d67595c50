"""A connection between browser and service that a test can cut."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit


class Wire:
    """Forwards TCP connections to a service. Once cut, it drops open connections and refuses new connections."""

    def __init__(self, url: str) -> None:
        self._target = _address(url)
        self._whole = True
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            self._whole = False
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def mend(self, url: str | None = None) -> None:
        """Forward connections again; if `url` is given, to that service."""
        self._target = self._target if url is None else _address(url)
        self._whole = True

    def close(self) -> None:
        self.cut()
        self._server.close()

    def _connect(self) -> socket.socket | None:
        """Connect to the service; return None while the wire is cut or the service is down."""
        with contextlib.suppress(OSError):
            return socket.create_connection(self._target) if self._whole else None
        return None

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                with self._lock:  # `cut` also drops a connection that is being opened
                    far = self._connect()
                    self._open += [] if far is None else [near, far]
                if far is None:
                    near.close()
                    continue
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            sink.sendall(chunk)
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.close()


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 80)


@contextmanager
def wire_to(url: str) -> Iterator[Wire]:
    made = Wire(url)
    try:
        yield made
    finally:
        made.close()
