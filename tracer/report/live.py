"""The page of a recording that goes on, over HTTP: `python -m tracer report DIR --live`.

The page asks every two seconds whether anything was recorded since, and then takes the new contents; what is unfolded stays so.
"""

from __future__ import annotations

import contextlib
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tracer.errors import UserError
from tracer.report.findings import gather
from tracer.report.page import page, waiting_page
from tracer.report.records import Reader

PORT = 8765
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class LiveServer(ThreadingHTTPServer):
    """Serves the page of a directory; `serve_forever()` does it, `shutdown()` ends it, and `url` says where it is."""

    daemon_threads = True

    def __init__(self, directory: str, host: str = "127.0.0.1", port: int = PORT) -> None:
        """Listens from now on; port 0 is one that is free. Raises UserError where it cannot."""
        self.directory, self.host = Path(directory), host
        self._reader = Reader(directory)
        self._lock = threading.Lock()
        self._made: tuple[str | None, bytes] = None, b""  # version, page
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UserError(f"the page cannot be served at {host}:{port}: {reason}", hint="give another --port.") from None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.server_address[1]}/"

    def version(self) -> str:
        """Other text whenever more was recorded."""
        return self._reader.version()

    def page(self) -> bytes:
        with self._lock:
            version = self.version()
            if self._made[0] != version:
                recording = self._reader.read()
                if recording.processes:
                    made = page(gather(recording), version=version)
                else:
                    made = waiting_page(str(self.directory), version)
                self._made = version, made.encode()
            return self._made[1]

    def is_asked_for(self, host: str) -> bool:
        """Whether a request names this server as its host. If not, a page of another site may have sent it, by a name that
        was made to lead here."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return self.host not in _LOOPBACK or name.strip("[]") in _LOOPBACK


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer

    def do_GET(self) -> None:
        if not self.server.is_asked_for(self.headers.get("Host", "")):
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path == "/":
            self._answer(self.server.page(), "text/html; charset=utf-8")
        elif self.path == "/version":
            self._answer(self.server.version().encode(), "text/plain; charset=utf-8")
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer(self, body: bytes, kind: str) -> None:
        with contextlib.suppress(ConnectionError):  # the browser has gone
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: each page asks every two seconds."""


def serve(directory: str, host: str, port: int) -> None:
    """Serves the page until it is interrupted. Raises UserError where it cannot listen."""
    with LiveServer(directory, host, port) as server:
        print(f"{server.url} follows {directory}; Ctrl-C ends it", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
