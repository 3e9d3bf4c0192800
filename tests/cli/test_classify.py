"""``parkade classify``: the documented keys, and one line for bad input."""

import argparse
import io
import json
from pathlib import Path

import pytest

from parkade.cli import classify
from parkade.cli.errors import UsageError

LOGS = Path(__file__).parents[1] / "data" / "logs"


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    classify.add_arguments(parser)
    return classify.run(parser.parse_args(arguments))


class Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_json_has_the_documented_keys(capsys):
    assert run(str(LOGS / "oom-graphs-v2-0.29.log"), "-o", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert {"class", "blame", "message", "shortfall_bytes", "remedy"} <= set(answer)
    assert answer["class"] == "oom_cudagraph_capture"
    assert answer["blame"] == "settings"
    assert answer["shortfall_bytes"] == 300 * 2**20


def test_text_is_for_people(capsys):
    assert run(str(LOGS / "kv-below-one-request-0.32.log")) == 0
    out = capsys.readouterr().out
    assert "kv_below_one_request (blames settings)" in out
    assert "16.45 GiB" in out


def test_unknown_is_an_answer(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", Stdin(b""))
    assert run("-", "-o", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["class"], answer["blame"]) == ("unknown", "unknown")
    assert answer["shortfall_bytes"] is None


def test_broken_utf8_and_utf16_are_read(capsys, tmp_path):
    text = "ValueError: No available memory for the cache blocks. é"
    for number, data in enumerate([text.encode("latin-1"), text.encode("utf-16")]):
        path = tmp_path / f"{number}.log"
        path.write_bytes(data)
        assert run(str(path), "-o", "json") == 0
        assert json.loads(capsys.readouterr().out)["class"] == "no_cache_blocks"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda _: None, "No such file", id="missing"),
        pytest.param(lambda path: path.mkdir(), "directory", id="a directory"),
        pytest.param(
            lambda path: path.write_bytes(bytes(range(256)) * 99), "not a text", id="binary"
        ),
        pytest.param(lambda path: path.write_bytes(b"x" * 100_000_000), "larger than", id="100 MB"),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do(tmp_path, make, words):
    path = tmp_path / "engine.log"
    make(path)
    with pytest.raises(UsageError, match=words) as error:
        run(str(path))
    assert "\n" not in str(error.value)
    assert "give" in str(error.value)


def test_a_name_that_is_no_path_is_bad_input():
    with pytest.raises(UsageError, match="cannot read"):
        run("a\0b")
