"""vLLM's HTTP routes on the standard library's server, a thread for each connection."""

import json
import select
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

from testbed.engine.arguments import EngineArguments
from testbed.engine.completions import BadRequestError, Completion, parse
from testbed.engine.exposition import page
from testbed.engine.live import LiveEngine, Ticket
from testbed.engine.logs import VERSION, emit
from testbed.engine.startup import Started

_LARGEST_BODY_BYTES = 64 << 20
# How often a waiting thread looks whether its client is still there, and how often a stream gets
# what there is by then (seconds of the wall).
_LOOK_SECONDS = 0.5
_STREAM_SECONDS = 0.05


class Server(ThreadingHTTPServer):
    """Bound before the engine starts, but refusing connections until `server_activate`."""

    daemon_threads = True
    request_queue_size = 1024
    allow_reuse_address = True

    def __init__(self, arguments: EngineArguments) -> None:
        self.arguments = arguments
        super().__init__((arguments.host, arguments.port), Handler, bind_and_activate=False)
        self.engine: LiveEngine
        self.started: Started
        self.created = time.time()
        self.in_flight = 0
        self._count = threading.Lock()
        self.server_bind()

    def server_bind(self) -> None:
        """Bind without the reverse lookup of the name, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""

    def serve(self, engine: LiveEngine, started: Started) -> threading.Thread:
        """Begin to listen, for this engine."""
        self.engine, self.started, self.created = engine, started, time.time()
        self.server_activate()
        thread = threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        return thread

    def track(self, change: int) -> None:
        """Count the completions under way."""
        with self._count:
            self.in_flight += change


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "uvicorn"
    sys_version = ""
    disable_nagle_algorithm = True
    timeout = 600
    _GET: ClassVar[dict[str, str]] = {
        "/health": "_health",
        "/ping": "_health",
        "/version": "_version",
        "/v1/models": "_models",
        "/metrics": "_metrics",
    }

    def do_GET(self) -> None:
        route = self._GET.get(urlsplit(self.path).path)
        if route is None:
            self._json({"detail": "Not Found"}, 404)
        else:
            getattr(self, route)()

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        try:
            body = self._body()
            if path != "/v1/completions":
                self._json({"detail": "Not Found"}, 404)
                return
            names = self.server.arguments.served_model_names
            completion = parse(body, names, self.server.started.max_model_len)
        except BadRequestError as error:
            self._json(error.body(), error.status)
            return
        self.server.track(1)
        try:
            self._complete(completion)
        finally:
            self.server.track(-1)

    def _body(self) -> object:
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            length = -1
        if not 0 <= length <= _LARGEST_BODY_BYTES:
            self.close_connection = True
            raise BadRequestError("Content-Length is missing or too large.", 413)
        try:
            return json.loads(self.rfile.read(length))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise BadRequestError(f"The body is not JSON: {error}") from None

    # Routes.

    def _health(self) -> None:
        self._reply(200, b"", "text/plain")

    def _version(self) -> None:
        self._json({"version": VERSION})

    def _models(self) -> None:
        models = [
            {
                "id": name,
                "object": "model",
                "created": int(self.server.created),
                "owned_by": "vllm",
                "root": self.server.arguments.model,
                "parent": None,
                "max_model_len": self.server.started.max_model_len,
            }
            for name in self.server.arguments.served_model_names
        ]
        self._json({"object": "list", "data": models})

    def _metrics(self) -> None:
        server = self.server
        text = server.engine.read(
            lambda scheduler: page(scheduler, server.started, server.arguments, server.created)
        )
        self._reply(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")

    def _complete(self, completion: Completion) -> None:
        ticket = self.server.engine.submit(
            completion.prompt_tokens,
            completion.output_tokens,
            completion.max_tokens,
            completion.cached_tokens,
        )
        try:
            if completion.stream:
                self._stream(completion, ticket)
            elif self._await(ticket):
                answer = completion.answer(completion.output_tokens, ticket.request.finish_reason)
                self._json(answer)
        except OSError:
            self.close_connection = True
            self.server.engine.abort(ticket)

    def _await(self, ticket: Ticket) -> bool:
        """Wait for the end; False where the client has gone, and its request with it."""
        while not ticket.done.wait(_LOOK_SECONDS):
            if self._client_gone():
                self.close_connection = True
                self.server.engine.abort(ticket)
                return False
        return True

    def _client_gone(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def _stream(self, completion: Completion, ticket: Ticket) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent, finished = 0, False
        while not finished:
            finished = ticket.done.wait(_STREAM_SECONDS)
            tokens = completion.output_tokens if finished else self.server.engine.generated(ticket)
            if tokens > sent or finished:
                reason = ticket.request.finish_reason if finished else None
                self._event(json.dumps(completion.chunk(tokens - sent, reason)))
                sent = tokens
        if completion.include_usage:
            self._event(json.dumps(completion.usage_chunk(sent)))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: str) -> None:
        payload = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(payload), payload))

    # Answers.

    def _json(self, value: object, status: int = 200) -> None:
        self._reply(status, json.dumps(value).encode(), "application/json")

    def _reply(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:  # noqa: ARG002
        """The access log, without the endpoints that were named as too noisy."""
        if urlsplit(self.path).path not in self.server.arguments.quiet_endpoints:
            host, port = self.client_address[:2]
            status = HTTPStatus(int(code))
            line = f'INFO:     {host}:{port} - "{self.requestline}" {status.value} {status.phrase}'
            emit(line)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Errors of the protocol are the client's."""
