"""Each sentence of the explanation that states a result is redone from its printed numbers."""

import math
import re

import pytest
import sizing_cases as cases

from parkade.api.settings import Settings, fraction
from parkade.sizing.histograms import read_histogram

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def redo(sentence: str) -> tuple[float, float, float] | None:
    """Return what is stated, what the printed numbers give, and the rounding of the print."""
    if " = " not in sentence or ": " not in sentence:
        return None
    left, right = sentence.split(": ", 1)[1].split(" = ", 1)
    stated_text = re.match(r"-?[\d,]+(?:\.\d+)?", right)
    if stated_text is None:
        return None
    stated = float(stated_text.group().replace(",", ""))
    if left.startswith("the smallest of "):
        return stated, min(float(one.replace(",", "")) for one in NUMBER.findall(left)), 0.0
    if left.startswith("nearest to "):
        return None
    value = evaluate(left)
    if "cut to whole" in left:
        value = math.floor(value + 1e-9)
    if "cut to four digits" in left:
        return stated, float(fraction(f"{value:.12f}")), 1.01e-4
    digits = len(stated_text.group().partition(".")[2])
    return stated, value, 10.0**-digits


def evaluate(words: str) -> float:
    """Evaluate an expression of numbers among words; units and names are left out."""
    tokens = re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?|(?<= )[-+/×](?= )|[()√]", words)
    signs = {"×": "*", "√": "math.sqrt "}
    text = " ".join(signs.get(token, token.replace(",", "")) for token in tokens)
    text = re.sub(r"math\.sqrt +([\d.]+)", r"math.sqrt(\1)", text)
    return float(eval(text, {"math": math}))  # noqa: S307 - our own sentences


TIMES = read_histogram({"0.01": 500, "0.025": 590, "0.05": 600}, 600, 5.0)

SIZINGS = [
    pytest.param(cases.sized, id="a new endpoint"),
    pytest.param(
        lambda: cases.sized(
            cases.endpoint(),
            work=cases.workload(speed=cases.ladder(), peak_requests_per_second=2.0),
            in_force=Settings(256, fraction("0.90")),
        ),
        id="the ladder as measured points",
    ),
    pytest.param(
        lambda: cases.sized(
            cases.endpoint(objectives={"minOutputTokensPerSecond": 300}),
            work=cases.workload(speed=cases.ladder(), queued_percent=0.5),
            in_force=Settings(4, fraction("0.95")),
        ),
        id="an objective that every point misses",
    ),
    pytest.param(
        lambda: cases.sized(
            work=cases.workload(
                prefix_cached_tokens=400_000.0,
                in_flight=cases.in_flight(scrapes=400, preemptions=100.0),
                time_per_output_token=TIMES,
            ),
            in_force=Settings(8, fraction("0.95")),
            measured=cases.measured(graph_bytes_actual=2 * cases.GIB),
        ),
        id="a running endpoint with a measured footprint and graphs above the estimate",
    ),
    pytest.param(
        lambda: cases.sized(
            work=cases.workload(in_flight=cases.in_flight(scrapes=12)), arch="dense"
        ),
        id="too few scrapes to use the measured footprint",
    ),
]


@pytest.mark.parametrize("make", SIZINGS)
def test_every_result_follows_from_the_numbers_in_its_sentence(make):
    redone = 0
    for sentence in make().explanation:
        result = redo(sentence)
        if result is None:
            continue
        stated, value, rounding = result
        operands = len(NUMBER.findall(sentence))
        slack = rounding * operands + 0.002 * abs(stated)
        assert value == pytest.approx(stated, abs=slack), sentence
        redone += 1
    assert redone >= 10


@pytest.mark.parametrize("make", SIZINGS)
def test_sentences_are_plain_lines_without_impossible_numbers(make):
    for sentence in make().explanation:
        assert "nan" not in sentence.lower().split()
        assert "inf" not in sentence.lower().split()
        assert "\n" not in sentence
        assert sentence.endswith(".")
        assert len(sentence) <= 1024
