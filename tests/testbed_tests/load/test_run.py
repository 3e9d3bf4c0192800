"""Load against a server: what is sent, what is counted, and how it ends."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from testbed.load.__main__ import main
from testbed.load.arrivals import Arrival
from testbed.load.client import Load, Options
from testbed.load.errors import LoadError


class _Recorder(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append((self.path, body))
        self.server.gate.wait(10)
        self.send_response(self.server.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@pytest.fixture
def engine():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Recorder)
    server.bodies, server.status, server.gate = [], 200, threading.Event()
    server.gate.set()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield server
    server.gate.set()
    server.shutdown()
    thread.join()
    server.server_close()


def _arrivals(count, gap=0.0):
    return [Arrival(number * gap, 200_000, 30, 100) for number in range(count)]


def test_a_long_prompt_is_a_number_not_a_list(engine):
    summary = Load(_arrivals(3), lambda: [engine.url], Options(model="qwen")).run()
    assert (summary.sent, summary.answered, summary.failed, summary.not_sent) == (3, 3, {}, 0)
    assert engine.bodies[0] == (
        "/v1/completions",
        {
            "model": "qwen",
            "max_tokens": 30,
            "ignore_eos": True,
            "prompt_token_count": 200_000,
            "cached_prompt_token_count": 100,
            "omit_text": True,
        },
    )


def test_a_real_engine_gets_token_ids(engine):
    Load([Arrival(0, 5, 2)], lambda: [engine.url], Options(real_prompts=True)).run()
    assert engine.bodies[0][1] == {"max_tokens": 2, "ignore_eos": True, "prompt": [1, 2, 3, 4, 5]}


def test_the_loop_is_open_slow_answers_delay_nothing(engine):
    engine.gate.clear()
    load = Load(_arrivals(6, gap=0.02), lambda: [engine.url], Options(most_in_flight=4))
    running = threading.Thread(target=load.run)
    running.start()
    until = time.monotonic() + 5
    while load.summary().sent + load.summary().not_sent < 6 and time.monotonic() < until:
        time.sleep(0.01)
    assert (load.summary().sent, load.summary().not_sent, load.in_flight) == (4, 2, 4)
    engine.gate.set()
    running.join(5)
    assert load.summary().answered == 4


def test_it_can_be_stopped(engine):
    load = Load(_arrivals(2, gap=60), lambda: [engine.url])
    running = threading.Thread(target=load.run)
    running.start()
    load.stop()
    running.join(5)
    assert not running.is_alive()


def test_failures_are_counted_by_kind(engine):
    engine.status = 503
    targets = [engine.url, "http://127.0.0.1:1"]
    summary = Load(_arrivals(4), lambda: targets).run()
    assert summary.failed == {"503": 2, "ConnectionRefusedError": 2}
    assert Load(_arrivals(2), list).run().not_sent == 2


def test_an_address_elsewhere_stops_it_before_anything_is_sent():
    with pytest.raises(LoadError, match="not on this machine"):
        Load(_arrivals(1), lambda: ["http://192.0.2.7:8000"]).run()


def test_the_command_line_runs_and_reports(engine, tmp_path, capsys):
    lengths = ["--prompt-tokens", "lognormal:median=100,sigma=1", "--output-tokens", "5"]
    order = ["--rate", "500", "--count", "20", *lengths]
    assert main(["--url", engine.url, *order]) == 0
    assert json.loads(capsys.readouterr().out)["answered"] == 20
    targets = tmp_path / "targets"
    targets.write_text(f"{engine.url}\n")
    assert main(["--targets-file", str(targets), *order]) == 0
    engine.status = 400
    assert main(["--url", engine.url, *order]) == 1


ELSEWHERE = "http://192.0.2.7"
HERE = "http://127.0.0.1"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param(f"--url {HERE} --count 1 --rate 1", "--prompt-tokens", id="no lengths"),
        pytest.param(f"--url {HERE} --rate 1", "say where it ends", id="no end"),
        pytest.param(
            f"--url {ELSEWHERE} --rate 1 --count 1 --prompt-tokens 5 --output-tokens 5",
            "not on this machine",
            id="elsewhere",
        ),
        pytest.param(f"--url {HERE} --trace /nowhere --count 1", "is not a trace", id="no trace"),
    ],
)
def test_a_wrong_order_is_one_line(words, text, capsys):
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
