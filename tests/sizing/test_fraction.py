"""The memory fraction, its corrections and its hysteresis; the ladder of rungs."""

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parkade.api.quantity import GIB
from parkade.sizing.fraction import FractionBasis, settle
from parkade.sizing.ladder import RUNGS, TOP, snap

T, F = round(178.35 * GIB), round(175.81 * GIB)


def basis(headroom=6 * GIB, total=T, free=F, correction=0) -> FractionBasis:
    return FractionBasis(total, free, headroom, correction)


@pytest.mark.parametrize(
    ("given_basis", "wanted"),
    [
        pytest.param(basis(), "0.9521", id="(175.81 - 6) / 178.35, cut down"),
        pytest.param(basis(free=T), "0.9663", id="nothing taken before the start"),
        pytest.param(basis(headroom=0), "0.9857", id="no headroom: what the start check passes"),
        pytest.param(basis(correction=GIB), "0.9465", id="graphs a GiB above the estimate"),
        pytest.param(basis(correction=-GIB), "0.9577", id="graphs a GiB below the estimate"),
        pytest.param(basis(correction=-24 * GIB), "0.9857", id="never above the start check"),
        pytest.param(basis(headroom=F), None, id="headroom as large as what is free"),
        pytest.param(basis(headroom=2 * F), None, id="headroom beyond the card"),
    ],
)
def test_the_fraction(given_basis, wanted):
    found = given_basis.utilization
    assert found == (None if wanted is None else Decimal(wanted))


@pytest.mark.parametrize(
    ("in_force", "gain", "runs"),
    [
        pytest.param(None, 0.0, "0.9521", id="nothing in force"),
        pytest.param("0.9521", 0.0, "0.9521", id="the same"),
        pytest.param("0.9540", 0.0, "0.9540", id="0.34 GiB short of the headroom is tolerated"),
        pytest.param("0.9560", 0.0, "0.9521", id="0.7 GiB short is not"),
        pytest.param("0.9900", 0.0, "0.9521", id="a fraction that cannot start"),
        pytest.param("0.9000", 9.9, "0.9000", id="a gain below the hysteresis"),
        pytest.param("0.9000", 10.0, "0.9521", id="a gain that is enough"),
    ],
)
def test_the_fraction_in_force_moves_only_with_reason(in_force, gain, runs):
    now = None if in_force is None else Decimal(in_force)
    found = settle(basis(), Decimal("0.9521"), now, pool_gain_percent=gain, min_gain_percent=10.0)
    assert found == Decimal(runs)


@given(
    total=st.integers(GIB, 300 * GIB),
    taken=st.floats(0, 1),
    headroom=st.integers(0, 300 * GIB),
    correction=st.integers(-30 * GIB, 30 * GIB),
)
def test_the_fraction_starts_and_leaves_the_headroom(total, taken, headroom, correction):
    free = max(1, int(total * taken))
    one = FractionBasis(total, free, headroom, correction)
    found = one.utilization
    if found is None:
        return
    assert Decimal(0) < found <= 1
    assert one.starts(found)
    assert one.left_bytes(found) >= min(headroom, free) or one.budget_bytes > free


@given(st.floats(0.01, 5000), st.floats(1, 5000))
def test_a_rung_is_never_above_its_ceiling_and_near_its_value(value, ceiling):
    rung = snap(value, ceiling)
    assert rung in RUNGS
    assert rung <= max(1, ceiling)
    below = [one for one in RUNGS if one <= min(value, ceiling)]
    assert rung >= (below[-1] if below else 1)


def test_rungs_are_an_eighth_to_a_quarter_apart():
    assert RUNGS[:8] == tuple(range(1, 9))
    assert RUNGS[-1] == TOP
    assert {32, 40, 48, 56, 64, 80, 96, 112, 128} <= set(RUNGS)
    for low, high in pairwise(RUNGS[7:]):
        assert 0.12 < (high - low) / low <= 0.25
