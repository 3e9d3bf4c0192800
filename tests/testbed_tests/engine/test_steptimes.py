"""Step times: right at the points, sensible between them and beyond the edge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.engine.blocks import CacheSettings
from testbed.engine.models import load_model
from testbed.engine.steptimes import step_times

QWEN = load_model("nvidia/Qwen3.6-27B-NVFP4", None, None)


def _times(proposals, kv="fp8"):
    method = "mtp" if proposals else None
    cache = CacheSettings(kv_cache_dtype=kv, spec_method=method, num_speculative_tokens=proposals)
    return step_times(QWEN, cache)


def test_points_of_the_tables_are_met():
    assert _times(0).decode_seconds(8, 8192) == pytest.approx(6.5713e-3)
    assert _times(3).decode_seconds(16, 32768) == pytest.approx(20.3864e-3)
    assert _times(0).prefill_seconds(0, 131072) == pytest.approx(4.373225)
    assert _times(0).prefill_seconds(0, 0) == 0


@pytest.mark.parametrize(
    ("decoding", "milliseconds"), [(5.7, 12.9), (21, 28.3), (68, 81), (97, 113)]
)
def test_the_steps_of_the_measured_ladder_are_met(decoding, milliseconds):
    step = _times(8).decode_seconds(decoding, 10_000) * 1000
    assert step == pytest.approx(milliseconds, rel=0.07)


def test_16_bit_caches_are_slower_at_length():
    assert _times(8, "bfloat16").decode_seconds(16, 131072) > _times(8).decode_seconds(16, 131072)


@given(
    proposals=st.integers(0, 16),
    batch=st.integers(1, 2000),
    context=st.integers(1, 2_000_000),
    more=st.integers(0, 500_000),
)
def test_more_work_never_takes_less_time(proposals, batch, context, more):
    times = _times(proposals)
    one = times.decode_seconds(batch, context)
    assert 0.005 < one < 1e5
    assert times.decode_seconds(batch, context + more) >= one * 0.999
    assert times.decode_seconds(batch + more % 1000, context) >= one * 0.98


@given(start=st.integers(0, 2_000_000), tokens=st.integers(1, 100_000))
def test_prefill_grows_with_each_token(start, tokens):
    assert _times(0).prefill_seconds(start, start + tokens) >= 0


def test_cards_share_the_work():
    one = step_times(QWEN, CacheSettings())
    two = step_times(QWEN, CacheSettings(tensor_parallel_size=2))
    assert two.decode_seconds(8, 8192) == pytest.approx(one.decode_seconds(8, 8192) / 1.85)
