"""What can be ordered: lengths, arrivals, addresses; and what is refused."""

import gzip
import ipaddress
import itertools
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.load import addresses, arrivals, lengths
from testbed.load.errors import LoadError


def _drawn(text, count=4000):
    generator = random.Random(7)
    return [lengths.parse(text).sample(generator) for _ in range(count)]


def test_lengths_follow_their_distribution():
    assert set(_drawn("300")) == set(_drawn("constant:300")) == {300}
    drawn = _drawn("lognormal:median=2000,sigma=1.0,min=100,max=50000")
    assert statistics.median(drawn) == pytest.approx(2000, rel=0.1)
    assert min(drawn) >= 100
    assert max(drawn) <= 50_000
    drawn = _drawn("bucketed:100000=210,200000=485,500000=693")
    assert sum(length <= 200_000 for length in drawn) / 4000 == pytest.approx(0.7, abs=0.03)
    assert max(drawn) <= 500_000


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8, unique=True), st.randoms())
def test_a_bucketed_length_never_passes_its_last_edge(edges, generator):
    edges = sorted(edges)
    text = ",".join(f"{edge}={number + 1}" for number, edge in enumerate(edges))
    assert 1 <= lengths.parse(f"bucketed:{text}").sample(generator) <= edges[-1]


@pytest.mark.parametrize(
    "text",
    [
        "", "0", "-5", "many", "1e9", "99999999", "lognormal:", "lognormal:median=0,sigma=1",
        "lognormal:median=nan,sigma=1", "lognormal:median=5", "lognormal:median=5,sigma=1,mean=3",
        "lognormal:median=5,sigma=1,min=9,max=3", "bucketed:100=5,200=3", "bucketed:100=0",
        "bucketed:100", "pareto:3",
    ],
)  # fmt: skip
def test_a_wrong_distribution_is_refused_with_the_right_form(text):
    with pytest.raises(LoadError, match="is not a distribution of lengths: write 300"):
        lengths.parse(text)


def test_arrivals_are_poisson_and_bounded():
    bounds = arrivals.Bounds(requests=5000, seconds=100)
    drawn = list(arrivals.poisson(20, lengths.Constant(5), lengths.Constant(6), bounds, seed=3))
    assert len(drawn) == pytest.approx(2000, rel=0.1)
    assert drawn[-1].seconds <= 100
    gaps = [b.seconds - a.seconds for a, b in itertools.pairwise(drawn)]
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.1)
    few = arrivals.Bounds(requests=3, seconds=100)
    assert len(list(arrivals.poisson(20, lengths.Constant(5), lengths.Constant(6), few))) == 3


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 1e9])
def test_an_absurd_rate_is_refused(rate):
    one = lengths.Constant(1)
    with pytest.raises(LoadError, match="the rate must be above 0"):
        next(arrivals.poisson(rate, one, one, arrivals.Bounds()))


@pytest.mark.parametrize("bounds", [{"requests": 0}, {"seconds": 0}, {"seconds": float("nan")}])
def test_absurd_bounds_are_refused(bounds):
    with pytest.raises(LoadError, match="must be"):
        arrivals.Bounds(**bounds)


def test_a_trace_is_played_faster(tmp_path):
    rows = "seconds,prompt_tokens,output_tokens,prefix_seen_tokens\n"
    rows += "0.0,100,4,0\n8,200,0,500\n90,1,1,0\n"
    plain, packed = tmp_path / "trace.csv", tmp_path / "trace.csv.gz"
    plain.write_text(rows)
    packed.write_bytes(gzip.compress(rows.encode()))
    expected = [arrivals.Arrival(0.0, 100, 4, 0), arrivals.Arrival(2.0, 200, 1, 200)]
    for path in (plain, packed):
        assert list(arrivals.trace(path, arrivals.Bounds(seconds=20), speed=4)) == expected


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "seconds,prompt_tokens,output_tokens\nx,1,2\n"])
def test_what_is_no_trace_is_refused_or_empty(tmp_path, text):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    if not text:
        assert list(arrivals.trace(path, arrivals.Bounds())) == []
        return
    with pytest.raises(LoadError, match="is not a trace of requests"):
        list(arrivals.trace(path, arrivals.Bounds()))


@pytest.mark.parametrize(
    "url",
    ["http://192.0.2.7:8000", "http://8.8.8.8", "http://[2001:db8::1]:8000", "http://0.0.0.0:1"],
)
def test_an_address_elsewhere_is_refused(url):
    with pytest.raises(LoadError, match="which is not on this machine"):
        addresses.checked(url)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "https://127.0.0.1", "http://:80", "file:///x"]
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(LoadError, match="is not an address of an engine"):
        addresses.checked(url)


def test_loopback_is_local():
    assert addresses.checked("http://127.0.0.1:8000/prefix/") == ("127.0.0.1", 8000, "/prefix")
    assert addresses.is_local(ipaddress.ip_address("::1"))
