"""Each sentence of the explanation that states a result is redone from its printed numbers."""

import math
import re

import pytest
import sizing_cases as cases

from parkade.api.conditions import Reason
from parkade.api.settings import Settings, fraction
from parkade.sizing.histograms import read_histogram
from parkade.sizing.ledger import PointSource
from parkade.sizing.workload import CannotTell

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def redo(sentence: str) -> tuple[float, float, float] | None:
    """Return what is stated, what the printed numbers give, and the rounding of the print."""
    told = sentence.startswith(("Replicas", "Overhead"))
    if told or " = " not in sentence or ": " not in sentence:
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
            cases.endpoint(objectives={"maxTimeToFirstTokenSeconds": 10}),
            work=cases.workload(in_flight=cases.in_flight(scrapes=400), queued_percent=50.0),
            ledger=(
                cases.point(
                    32, 100, source=PointSource.LEDGER, kv_share=0.95, preemptions_per_request=0.3
                ),
            ),
            in_force=Settings(8, fraction("0.95")),
        ),
        id="preemptions that are remembered",
    ),
    pytest.param(
        lambda: cases.sized(
            work=cases.workload(in_flight=cases.in_flight(scrapes=12)), arch="dense"
        ),
        id="too few scrapes to use the measured footprint",
    ),
    pytest.param(
        lambda: cases.sized(
            cases.endpoint(objectives={"maxTimeToFirstTokenSeconds": 10}),
            work=cases.workload(
                speed=cases.ladder(), peak_requests_per_second=200.0, queued_percent=60.0, pods=3
            ),
            in_force=Settings(32, fraction("0.93")),
        ),
        id="no number keeps up with the peak",
    ),
    pytest.param(
        lambda: cases.sized(
            cases.endpoint(objectives={"minOutputTokensPerSecond": 200}),
            work=cases.workload(speed=(cases.point(64, 70),), peak_requests_per_second=0.5),
        ),
        id="one point alone, which misses",
    ),
    pytest.param(
        lambda: cases.sized(
            cases.endpoint(objectives={"minOutputTokensPerSecond": 100}),
            work=cases.workload(
                prefix_cached_tokens=1_199_999.0,
                queued_percent=0.1,
                in_flight=cases.in_flight(running=20.0),
                time_per_output_token=TIMES,
                time_to_first_token=read_histogram({"1": 500, "10": 600}, 600, 700.0),
                peak_requests_per_second=1.5,
            ),
            in_force=Settings(64, fraction("0.9555")),
        ),
        id="a window alone, nearly all of the prompts cached, headroom a little short",
    ),
    pytest.param(
        lambda: cases.sized(
            cases.endpoint(objectives={"minOutputTokensPerSecond": 100}),
            ledger=tuple(
                cases.point(
                    seqs,
                    speed,
                    source=PointSource.LEDGER,
                    time_per_output_token=read_histogram(
                        {"0.01": share, "0.025": 590, "0.05": 600}, 600, 600 / speed
                    ),
                )
                for seqs, speed, share in ((8, 150, 590), (30, 105, 560))
            ),
            work=cases.workload(peak_requests_per_second=3.0),
            in_force=Settings(32, fraction("0.95")),
        ),
        id="points of production with shares",
    ),
    pytest.param(
        lambda: cases.sized(
            cases.endpoint(
                workload={"assumed": {"promptTokens": 3000, "outputTokens": 200}},
                tuning={"initial": None},
            ),
            work=CannotTell(Reason.NO_TRAFFIC, "No traffic."),
        ),
        id="assumed lengths",
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
    assert redone >= 8


@pytest.mark.parametrize("make", SIZINGS)
def test_sentences_are_plain_lines_without_impossible_numbers(make):
    for sentence in make().explanation:
        assert "nan" not in sentence.lower().split()
        assert "inf" not in sentence.lower().split()
        assert "\n" not in sentence
        assert sentence.endswith(".")
        assert len(sentence) <= 1024


def made(name):
    return next(one.values[0]() for one in SIZINGS if one.id == name)


def said(sizing, name):
    return [one for one in sizing.explanation if one.startswith(name)]


def test_assumed_lengths_have_no_bracket_and_no_standard_error():
    """One assumed request says nothing of how requests differ."""
    sizing = made("assumed lengths")
    assert not said(sizing, "Bracket")
    assert not said(sizing, "Standard error")
    assert "computed from workload.assumed." in sizing.bounds["kvCache"].why


def test_a_fraction_that_stays_says_what_it_leaves_and_why():
    low = cases.sized(cases.endpoint(), in_force=Settings(32, fraction("0.95")))
    assert "= 6.38 GiB left" in said(low, "Fraction in force")[0]
    assert "less than minGainPercent 5 %: 0.95 stays" in said(low, "Fraction in force")[0]
    high = cases.sized(cases.endpoint(), in_force=Settings(32, fraction("0.953")))
    assert "less than 0.50 GiB of the headroom 6.00 GiB lacks" in said(high, "Fraction in force")[0]


def test_a_benchmark_says_that_its_concurrency_is_a_clients():
    sizing = cases.sized(cases.endpoint(), work=cases.workload(speed=cases.ladder()))
    assert "what a client held open" in said(sizing, "Speed objective")[0]


def test_replicas_are_derived():
    sizing = made("no number keeps up with the peak")
    found = re.search(r"([\d.]+) / ([\d.]+) s = ([\d.]+) requests/s", said(sizing, "Replicas")[0])
    running, stay, rate = (float(one) for one in found.groups())
    assert running / stay == pytest.approx(rate, rel=1e-3)
    assert sizing.needs_replicas == math.ceil(200 / rate)


def test_what_stands_still_says_what_stays():
    flat = tuple(cases.point(seqs, 70) for seqs in (16, 32, 64))
    sizing = cases.sized(
        cases.endpoint(objectives={"minOutputTokensPerSecond": 20}),
        work=cases.workload(speed=flat, queued_percent=50.0),
        in_force=Settings(16, fraction("0.95")),
    )
    assert sizing.explanation[-1].endswith("nothing is raised. So 16 stays.")
    assert len(said(sizing, "Overhead")) == 1


def test_preemptions_go_no_lower_than_the_least():
    """With 1 in force there is no rung below: the speed bound stays what limits."""
    sizing = cases.sized(
        cases.endpoint(objectives={"minOutputTokensPerSecond": 3000}),
        work=cases.workload(
            speed=cases.ladder(), in_flight=cases.in_flight(preemptions=900.0), queued_percent=50.0
        ),
        in_force=Settings(1, fraction("0.95")),
    )
    assert sizing.settings.max_num_seqs == 1
    assert not said(sizing, "Preemptions")
