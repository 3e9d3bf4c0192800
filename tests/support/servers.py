"""A real HTTP server on loopback that answers as it is told, and remembers what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {key: value[0] for key, value in parse_qs(urlsplit(self.target).query).items()}

    @property
    def form(self) -> dict[str, str]:
        return {key: value[0] for key, value in parse_qs(self.body.decode()).items()}

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """What to answer."""

    status: int = 200
    body: bytes | str | dict[str, Any] = b""
    headers: dict[str, str] = field(default_factory=dict)
    stall: threading.Event | None = None
    """Answer only once this is set."""
    trickles: bool = False
    """Send one byte each 50 ms, until nobody reads any more."""

    @property
    def content(self) -> bytes:
        if isinstance(self.body, dict):
            return json.dumps(self.body).encode()
        return self.body.encode() if isinstance(self.body, str) else self.body


@dataclass
class Server:
    """A running server; `replies` decides by request, `asked` has what came."""

    url: str
    asked: list[Asked]


@contextmanager
def serving(answer: Callable[[Asked], Reply]) -> Iterator[Server]:
    """Serve in a thread for the length of a `with` block."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        """HTTP/1.0: each connection is closed after its answer, so that none is left behind."""

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.title(): value for name, value in self.headers.items()}
            one = Asked(self.command, self.path, headers, self.rfile.read(length))
            asked.append(one)
            reply = answer(one)
            if reply.stall is not None:
                reply.stall.wait(20)
            try:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.content)))
                self.end_headers()
                if not reply.trickles:
                    self.wfile.write(reply.content)
                    return
                for at in range(len(reply.content)):
                    self.wfile.write(reply.content[at : at + 1])
                    threading.Event().wait(0.05)
            except OSError:
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.server_address[1]}", asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
