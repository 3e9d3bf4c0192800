"""The engine as a process: routes, signals, exit codes."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

SOURCES = Path(__file__).parents[2]
QWEN = "nvidia/Qwen3.6-27B-NVFP4"
FLAGS = ("--max-model-len", "262144", "--max-num-seqs", "32", "--served-model-name", "qwen")


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Engine:
    """One process and its log."""

    def __init__(self, folder, *flags, **variables):
        self.port = _free_port()
        self.log = folder / "engine.log"
        command = [
            sys.executable, "-m", "testbed.engine", "serve", QWEN, *FLAGS,
            "--host", "127.0.0.1", "--port", str(self.port), *flags,
        ]  # fmt: skip
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(SOURCES),
            "PARKADE_SIM_START_SECONDS": "0",
            "PARKADE_SIM_CLOCK_SPEED": "100",
            "PARKADE_SIM_STATE_FILE": str(folder / "state.json"),
            **{name: str(value) for name, value in variables.items()},
        }
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT
            )

    def wait_for(self, text, seconds=15):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if text in self.log.read_text():
                return
            if self.process.poll() is not None and text not in self.log.read_text():
                break
            time.sleep(0.02)
        pytest.fail(f"{text!r} never came: {self.log.read_text()[-2000:]}")

    def ask(self, path, body=None):
        url = f"http://127.0.0.1:{self.port}{path}"
        answer = httpx.get(url) if body is None else httpx.post(url, json=body, timeout=20)
        return answer.status_code, answer.text

    def complete(self, **body):
        status, text = self.ask("/v1/completions", {"model": "qwen", **body})
        return status, json.loads(text)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(10)


@pytest.fixture
def start(tmp_path):
    with contextlib.ExitStack() as stack:

        def started(*flags, **variables):
            engine = Engine(tmp_path, *flags, **variables)
            stack.callback(engine.process.wait)
            stack.callback(engine.process.kill)
            return engine

        yield started


def test_the_routes_answer_and_sigterm_ends_it_with_code_zero(start):
    engine = start("--disable-access-log-for-endpoints", "/health,/metrics")
    engine.wait_for("Application startup complete.")
    assert engine.ask("/health") == (200, "")
    assert json.loads(engine.ask("/version")[1]) == {"version": "0.32.0"}
    model = json.loads(engine.ask("/v1/models")[1])["data"][0]
    assert (model["id"], model["max_model_len"]) == ("qwen", 262144)
    assert engine.ask("/nowhere")[0] == 404
    answers = [
        engine.complete(prompt="one two three", max_tokens=5),
        engine.complete(prompt=[1, 2, 3, 4], max_tokens=7, ignore_eos=True),
        engine.complete(prompt_token_count=200_000, max_tokens=50, output_token_count=9),
    ]
    usage = [(status, answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])
             for status, answer in answers]  # fmt: skip
    assert usage == [(200, 3, 5), (200, 4, 7), (200, 200_000, 9)]
    reasons = [answer["choices"][0]["finish_reason"] for _, answer in answers]
    assert reasons == ["length", "length", "stop"]
    page = engine.ask("/metrics")[1]
    assert 'vllm:generation_tokens_total{engine="0",model_name="qwen"} 21.0' in page
    assert engine.end() == 0
    log = engine.log.read_text()
    assert '"POST /v1/completions HTTP/1.1" 200 OK' in log
    assert '"GET /health' not in log


def test_bad_requests_are_refused_as_vllm_refuses_them(start):
    engine = start()
    engine.wait_for("Application startup complete.")
    refused = [
        engine.complete(prompt_token_count=262_144),
        engine.complete(prompt_token_count=262_000, max_tokens=1000),
        engine.complete(prompt={"a": 1}),
        engine.complete(prompt="x", max_tokens="many"),
        engine.complete(model="other", prompt="x"),
    ]
    assert [status for status, _ in refused] == [400, 400, 400, 400, 404]
    assert "maximum context length is 262144 tokens" in refused[0][1]["error"]["message"]
    status, _ = engine.ask("/v1/completions", [1])
    assert status == 400


def test_a_stream_brings_all_tokens_and_usage(start):
    engine = start(PARKADE_SIM_CLOCK_SPEED=2)
    engine.wait_for("Application startup complete.")
    body = {"prompt": "hello", "max_tokens": 300, "stream": True,
            "stream_options": {"include_usage": True}}  # fmt: skip
    _, text = engine.ask("/v1/completions", body)
    events = [line[6:] for line in text.split("\n\n") if line.startswith("data: ")]
    assert events.pop() == "[DONE]"
    chunks = [json.loads(event) for event in events]
    assert chunks.pop()["usage"]["completion_tokens"] == 300
    assert len(chunks) > 2
    words = "".join(chunk["choices"][0]["text"] for chunk in chunks).split()
    assert len(words) == 300
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


def test_a_client_that_hangs_up_is_forgotten(start):
    engine = start(PARKADE_SIM_CLOCK_SPEED=1)
    engine.wait_for("Application startup complete.")
    body = json.dumps({"prompt_token_count": 200_000, "max_tokens": 1000})
    with socket.create_connection(("127.0.0.1", engine.port)) as client:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall((head + body).encode())
        running = 'vllm:num_requests_running{engine="0",model_name="qwen"} '
        _until(lambda: f"{running}1.0" in engine.ask("/metrics")[1])
    _until(lambda: f"{running}0.0" in engine.ask("/metrics")[1])
    assert "vllm:request_success_total" in engine.ask("/metrics")[1]


def _until(holds, seconds=10):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_sigterm_is_ignored_while_it_starts(start):
    engine = start(PARKADE_SIM_START_SECONDS=1)
    engine.wait_for("version 0.32.0")
    engine.process.send_signal(signal.SIGTERM)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", engine.port))
    engine.wait_for("Application startup complete.")
    assert engine.end() == 0


def test_a_shutdown_timeout_lets_requests_finish(start):
    engine = start("--shutdown-timeout", "8", PARKADE_SIM_CLOCK_SPEED=4)
    engine.wait_for("Application startup complete.")
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(engine.complete(prompt_token_count=32768, max_tokens=100))
    )
    asking.start()
    running = 'vllm:num_requests_running{engine="0",model_name="qwen"} 1.0'
    _until(lambda: running in engine.ask("/metrics")[1])
    assert engine.end() == 0
    asking.join()
    assert answers[0][0] == 200


@pytest.mark.parametrize(
    ("state", "code", "text"),
    [
        pytest.param(
            {"extra_outside_budget_gib": 20},
            1,
            "torch.OutOfMemoryError: CUDA out of memory.",
            id="this start takes more than is left",
        ),
        pytest.param(
            {"start_failure_text": "segfault", "start_failure_exit_code": 139},
            139,
            "segfault",
            id="a start that fails with any text and code",
        ),
        pytest.param(
            {"die_after_serving_seconds": 0.1, "die_text": "oh no"},
            0,
            "oh no",
            id="a death with code zero while it serves",
        ),
        pytest.param({"nonsense": 1}, 2, "unknown keys ['nonsense']", id="a key nobody knows"),
        pytest.param([], 2, "must hold one JSON object", id="not an object"),
    ],
)
def test_the_state_file_decides_about_the_next_start(start, tmp_path, state, code, text):
    (tmp_path / "state.json").write_text(json.dumps(state))
    engine = start()
    assert engine.process.wait(15) == code
    assert text in engine.log.read_text()


def test_an_unknown_flag_is_an_error_of_the_command_line(start):
    engine = start("--max-num-sequences", "3")
    assert engine.process.wait(15) == 2
    assert "error: unrecognized arguments: --max-num-sequences 3" in engine.log.read_text()


def test_a_bad_variable_is_named(start):
    engine = start(PARKADE_SIM_CLOCK_SPEED="fast")
    assert engine.process.wait(15) == 2
    assert "PARKADE_SIM_CLOCK_SPEED must be a number" in engine.log.read_text()


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["image/bin/vllm"], id="the command of the image"),
        pytest.param(["-m", "vllm.entrypoints.openai.api_server"], id="the older module"),
    ],
)
def test_the_image_has_the_names_of_the_real_one(words):
    engine = SOURCES / "testbed" / "engine"
    search = os.pathsep.join([str(SOURCES), str(engine / "image")])
    done = subprocess.run(
        [sys.executable, *words, "--version"],
        cwd=engine,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout == "0.32.0\n"
