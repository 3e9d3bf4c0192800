"""The probes, which tell the truth about the queue, and /metrics beside them.

`/readyz`: the watches are up and the workers alive. `/healthz`: the workers alive, and no endpoint
stuck. A queue that can't reach the API server is not a reason to be killed: passes end with an
error and a wait, so they do not count as stuck.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

STUCK_SECONDS = 300.0
"""A pass has time-outs everywhere; a key that is due for this long means a dead worker."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the probes look at; each check returns what is wrong, or nothing."""

    watching: Callable[[], bool]
    workers_alive: Callable[[], bool]
    oldest_dirty_seconds: Callable[[], float]

    def ready(self) -> str | None:
        """Return why the operator is not ready, or None."""
        if not self.watching():
            return "the watches are not up"
        return self.live()

    def live(self) -> str | None:
        """Return why the operator should be restarted, or None."""
        if not self.workers_alive():
            return "a worker died"
        oldest = self.oldest_dirty_seconds()
        if oldest > STUCK_SECONDS:
            return f"an endpoint has been due for {oldest:.0f} s"
        return None


class _BothFamilies(ThreadingHTTPServer):
    """On IPv6, and on `::` on IPv4 as well: pods of a cluster may have one of them alone."""

    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


@dataclass(slots=True)
class HealthServer:
    """A small HTTP server in a thread of its own; port 0 takes a free one."""

    health: Health
    registry: CollectorRegistry
    address: tuple[str, int]
    _server: ThreadingHTTPServer = field(init=False)

    def start(self) -> int:
        """Start serving and return the port. Raises OSError where the address is taken."""
        host, port = self.address
        everywhere = not host and socket.has_dualstack_ipv6()
        serve = _BothFamilies if everywhere or ":" in host else ThreadingHTTPServer
        address = ("::" if everywhere else host, port)
        self._server = serve(address, _handler(self.health, self.registry))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()
        return int(self._server.server_address[1])

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


def _handler(health: Health, registry: CollectorRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
            elif self.path in {"/readyz", "/healthz"}:
                problem = health.ready() if self.path == "/readyz" else health.live()
                text = (problem or "ok") + "\n"
                self._answer(503 if problem else 200, text.encode(), "text/plain; charset=utf-8")
            else:
                self._answer(404, b"not found\n", "text/plain; charset=utf-8")

        def _answer(self, status: int, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base names it
            """Say nothing: probes come every few seconds."""

    return Handler
