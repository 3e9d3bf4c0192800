"""``vllm serve`` as a program: play the start, serve, and end as the real one ends."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime

from testbed.engine import startup
from testbed.engine.arguments import EngineArguments, parse
from testbed.engine.environment import Environment, EnvironmentValueError, read_faults
from testbed.engine.live import LiveEngine
from testbed.engine.logs import VERSION, LogLine, emit, rendered
from testbed.engine.server import Server
from testbed.engine.simulate import build

_STATS_SECONDS = 10.0
_DIED = (
    LogLine(0, "APIServer", "Engine core proc EngineCore died unexpectedly, shutting down client.",
            "ERROR", "core_client.py:645"),
    LogLine(0, "", "INFO:     Shutting down"),
    LogLine(0, "", "INFO:     Waiting for application shutdown."),
    LogLine(0, "", "INFO:     Application shutdown complete."),
)  # fmt: skip
_SHUT_DOWN = (
    LogLine(0, "APIServer", "[shutdown] API server: shutdown triggered", source="launcher.py:254"),
    LogLine(0, "EngineCore", "[shutdown] EngineCore: trigger received signal=SIGTERM",
            source="core.py:1454"),
    LogLine(0, "", "INFO:     Shutting down"),
    LogLine(0, "", "INFO:     Waiting for application shutdown."),
    LogLine(0, "", "INFO:     Application shutdown complete."),
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, or until the start fails; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["--version"]:
        emit(VERSION)
        return 0
    try:
        faults = read_faults(os.environ, socket.gethostname())
        environment = Environment.read(os.environ, faults)
    except EnvironmentValueError as error:
        print(f"vllm (simulated): {error}", file=sys.stderr)
        return 2
    arguments = parse(words[1:] if words[:1] == ["serve"] else words, environment.gpu_total_bytes)
    # The real engine ignores SIGTERM until it serves.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server = Server(arguments)
    script = startup.start(arguments, environment)
    _play(script.lines, environment.start_seconds)
    if script.started is None:
        return script.exit_code
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    engine = LiveEngine(build(arguments, script.started), environment.clock_speed)
    threading.Thread(target=engine.run, daemon=True).start()
    server.serve(engine, script.started)
    emit("INFO:     Application startup complete.")
    return _serve(server, engine, environment, stop)


def _play(lines: Sequence[LogLine], seconds: float) -> None:
    """Print each line when its share of the start time has passed."""
    began = time.monotonic()
    for line in lines:
        time.sleep(max(began + line.at * seconds - time.monotonic(), 0))
        _print(line)


def _print(line: LogLine) -> None:
    pid = os.getpid()
    pids = {"APIServer": pid, "EngineCore": pid + 25, "Worker_TP0": pid + 38}
    emit(rendered(line, pids, datetime.now()))  # noqa: DTZ005 (the container's own zone, as vLLM)


def _serve(
    server: Server, engine: LiveEngine, environment: Environment, stop: threading.Event
) -> int:
    """Wait for the end: a signal, or the death that the state file asks for."""
    faults = environment.faults
    began = time.monotonic()
    life = faults.die_after_serving_seconds
    reporter = _Reporter(engine)
    while True:
        left = None if life is None else began + life - time.monotonic()
        if left is not None and left <= 0:
            break
        if stop.wait(_STATS_SECONDS if left is None else min(left, _STATS_SECONDS)):
            _drain(server, server.arguments)
            for line in _SHUT_DOWN:
                _print(line)
            return 0
        reporter.report()
    if faults.die_text:
        emit(faults.die_text)
    for line in _DIED:
        _print(line)
    return faults.die_exit_code


def _drain(server: Server, arguments: EngineArguments) -> None:
    """Let what is under way finish for `--shutdown-timeout` seconds; new ones are refused."""
    if arguments.shutdown_timeout_seconds <= 0:
        return
    server.shutdown()
    server.socket.close()
    deadline = time.monotonic() + arguments.shutdown_timeout_seconds
    while server.in_flight and time.monotonic() < deadline:
        time.sleep(0.05)


class _Reporter:
    """The line of averages that vLLM logs every ten seconds while there is something to say."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine
        self._last = (0, 0, 0.0)

    def report(self) -> None:
        """Print the averages since the last time; rates are by the engine's clock."""
        numbers = self._engine.read(
            lambda s: (
                s.metrics.prompt_tokens,
                s.generation_tokens(),
                s.now,
                len(s.running),
                len(s.waiting),
                s.kv_cache_usage(),
            )
        )
        prompt, generated, now, running, waiting, usage = numbers
        seconds = max(now - self._last[2], 1e-9)
        rates = ((prompt - self._last[0]) / seconds, (generated - self._last[1]) / seconds)
        self._last = (prompt, generated, now)
        if running or waiting or any(rates):
            text = (
                f"Engine 000: Avg prompt throughput: {rates[0]:.1f} tokens/s, Avg generation "
                f"throughput: {rates[1]:.1f} tokens/s, Running: {running} reqs, Waiting: {waiting} "
                f"reqs, GPU KV cache usage: {usage * 100:.1f}%, Prefix cache hit rate: 0.0%"
            )
            _print(LogLine(0, "APIServer", text, source="loggers.py:335"))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Threads of open connections must not hold the process.
    os._exit(code)
