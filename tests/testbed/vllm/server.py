"""Start the real engine on a CPU, offline, and talk to it."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from testbed.cluster.errors import TestbedError
from testbed.cluster.ports import free_ports
from testbed.vllm.environment import OFFLINE, python_of

START_SECONDS = 600
"""35 to 50 s on two cores of its own; much more where others work too."""
END_SECONDS = 30
MODULE = "vllm.entrypoints.openai.api_server"
QUICK = ("--load-format", "dummy", "--enforce-eager", "--host", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Server:
    """A running engine."""

    model: str
    url: str
    log: Path

    def metrics(self) -> str:
        """The engine's own page."""
        return self._ask("GET", "/metrics").raise_for_status().text

    def complete(self, prompt: str, max_tokens: int) -> dict[str, Any]:
        """One completion of random words; they go on to the last token."""
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "ignore_eos": True,
        }
        answer = self._ask("POST", "/v1/completions", json=body).raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def is_healthy(self) -> bool:
        """Whether it serves; it does not listen at all while it starts."""
        with suppress(httpx.TransportError):
            return self._ask("GET", "/health", timeout=5).status_code == httpx.codes.OK
        return False

    def _ask(self, method: str, path: str, *, timeout: float = 120, **body: Any) -> httpx.Response:
        return httpx.request(method, self.url + path, timeout=timeout, trust_env=False, **body)


@contextmanager
def served(environment: Path, model: Path, *arguments: str, folder: Path) -> Iterator[Server]:
    """An engine for the length of a `with` block; its log stays in `folder`.

    Raises TestbedError with the end of the log when it dies or does not come up.
    """
    (port,) = free_ports(1)
    log = folder / "engine.log"
    server = Server(str(model), f"http://127.0.0.1:{port}", log)
    process = _launch(environment, model, log, "--port", str(port), *arguments)
    try:
        _wait(process, server)
        yield server
    finally:
        _end(process)


def failed_start(environment: Path, model: Path, *arguments: str, folder: Path) -> tuple[int, Path]:
    """Start an engine that is bound to fail; returns its exit code and its log."""
    (port,) = free_ports(1)
    log = folder / "engine.log"
    process = _launch(environment, model, log, "--port", str(port), *arguments)
    try:
        return process.wait(START_SECONDS), log
    finally:
        _end(process)


def _launch(
    environment: Path, model: Path, log: Path, *arguments: str
) -> "subprocess.Popen[bytes]":
    python = str(python_of(environment))
    command = ["nice", "-n", "5", python, "-m", MODULE, "--model", str(model), *QUICK, *arguments]
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **OFFLINE, "VLLM_LOGGING_COLOR": "0"},
            cwd=log.parent,
            start_new_session=True,
        )


def _wait(process: "subprocess.Popen[bytes]", server: Server) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not server.is_healthy():
        if process.poll() is not None or time.monotonic() > deadline:
            end = " | ".join(server.log.read_text(errors="replace").splitlines()[-5:])
            raise TestbedError(f"vLLM did not come up ({server.log}): {end}")
        time.sleep(0.5)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask for an orderly end; what stays of its group is killed, workers of it included."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
