"""A proxy in front of the API server: tests count requests, refuse them, and close watches.

Plain HTTP/1.0 on loopback towards the operator, TLS with the given credentials' CA towards the API
server; bearer tokens pass through. An answer ends with its connection, so a watch streams until
either side closes.
"""

import base64
import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import yaml

HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive", "host"})
CHUNK_BYTES = 65_536
TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Call:
    """A request that wants to pass."""

    method: str
    target: str
    agent: str

    @property
    def is_write(self) -> bool:
        return self.method not in {"GET", "HEAD"}

    @property
    def is_watch(self) -> bool:
        return "watch=" in self.target

    @property
    def path(self) -> str:
        return urlsplit(self.target).path


@dataclass(frozen=True)
class Refusal:
    """What the client gets instead of the API server's answer."""

    code: int
    message: str = "injected by the test"
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        return json.dumps(status).encode()


CLOSE = Refusal(0)
"""The connection is closed without an answer, as when a load balancer goes away."""

Gate = Callable[[Call], Refusal | None]


class Proxy:
    """A running proxy; `gate` says what passes, `after` is told of each write's answer."""

    def __init__(self, server: str, authority_pem: str) -> None:
        self.gate: Gate = lambda _call: None
        self.after: Callable[[Call, int], None] = lambda _call, _status: None
        self.calls: list[Call] = []
        self.refused: list[Call] = []
        self.url = ""
        self._upstream = urlsplit(server)
        self._tls = ssl.create_default_context(cadata=authority_pem)
        self._watches: set[http.client.HTTPSConnection] = set()
        self._lock = threading.Lock()

    def close_watches(self) -> int:
        """End every watch that streams now, as a restarted load balancer does."""
        with self._lock:
            open_now = list(self._watches)
        for connection in open_now:
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(2)
        return len(open_now)

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            str(self._upstream.hostname),
            self._upstream.port,
            context=self._tls,
            timeout=TIMEOUT_SECONDS,
        )

    @contextmanager
    def streaming(self, call: Call, connection: http.client.HTTPSConnection) -> Iterator[None]:
        if not call.is_watch:
            yield
            return
        with self._lock:
            self._watches.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._watches.discard(connection)


@contextmanager
def in_front_of(kubeconfig: Path, folder: Path) -> Iterator[tuple[Proxy, Path]]:
    """Serve; yields the proxy and a kubeconfig that goes through it with the same credentials."""
    config = yaml.safe_load(kubeconfig.read_text("utf-8"))
    cluster = config["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster.pop("certificate-authority-data")).decode()
    proxy = Proxy(cluster["server"], authority)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy))
    server.daemon_threads = True
    proxy.url = cluster["server"] = f"http://127.0.0.1:{server.server_address[1]}"
    path = folder / f"proxied-{server.server_address[1]}.kubeconfig"
    path.write_text(yaml.safe_dump(config), "utf-8")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield proxy, path
    finally:
        server.shutdown()
        server.server_close()
        proxy.close_watches()
        thread.join()


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Bound(_Handler):
        pass

    Bound.proxy = proxy
    return Bound


class _Handler(BaseHTTPRequestHandler):
    proxy: Proxy

    def handle_any(self) -> None:
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        call = Call(self.command, self.path, self.headers.get("User-Agent") or "")
        self.proxy.calls.append(call)
        refusal = self.proxy.gate(call)
        # The client may be dead by now: that is what some tests are about.
        with contextlib.suppress(OSError, http.client.HTTPException):
            if refusal is None:
                self.pass_on(call, body)
            else:
                self.proxy.refused.append(call)
                self.refuse(refusal)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

    def refuse(self, refusal: Refusal) -> None:
        if refusal is CLOSE:
            return
        self.send_response(refusal.code)
        for name, value in refusal.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(refusal.content)))
        self.end_headers()
        self.wfile.write(refusal.content)

    def pass_on(self, call: Call, body: bytes) -> None:
        skipped = {*HOP_BY_HOP, "accept-encoding"}
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in skipped
        }
        connection = self.proxy.connect()
        try:
            connection.request(call.method, call.target, body or None, headers)
            answer = connection.getresponse()
            if call.is_write:
                self.proxy.after(call, answer.status)
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.end_headers()
            with self.proxy.streaming(call, connection):
                self.stream(answer)
        finally:
            connection.close()

    def stream(self, answer: http.client.HTTPResponse) -> None:
        while chunk := answer.read1(CHUNK_BYTES):
            self.wfile.write(chunk)
            self.wfile.flush()

    def log_message(self, *args: object) -> None:
        pass
