"""Whole runs on the simulated clock, against what was measured on a real card."""

import random
import time

import pytest

from testbed.engine.simulate import Arrival, Settings, StartError, simulate, simulate_closed

DRAFTER = '{"method": "mtp", "num_speculative_tokens": 8}'


def _settings(seqs, *flags):
    return Settings(
        "nvidia/Qwen3.6-27B-NVFP4",
        (
            "--max-model-len", "1048576", "--max-num-seqs", str(seqs), "--kv-cache-dtype", "fp8",
            "--gpu-memory-utilization", "0.952", "--speculative-config", DRAFTER, *flags,
        ),
        {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("concurrency", "first_token_seconds", "total"),
    [(8, 0.8, 1500), (32, 5.1, 2500), (128, 20.0, 2870), (256, 30.1, 2900)],
)
def test_the_ladder_of_the_real_card_within_ten_percent(concurrency, first_token_seconds, total):
    """Client concurrency against total output tokens a second, at the fitted context.

    What a client waited for its first token is held outside the engine, as a pause: how many were
    decoding at a time follows from the measurement (5.7, 21, 68 and 97), why the others were not
    was not reported. The context of 9,100 tokens is the one that fits the step times; the prompts
    are cached but for the last token, and an answer has 800 tokens.
    """
    result = simulate_closed(
        _settings(256),
        concurrency,
        lambda _: Arrival(0.0, 8700, 800, cached_tokens=8699),
        1200.0,
        pause_seconds=first_token_seconds,
    )
    assert result.output_tokens_per_second == pytest.approx(total, rel=0.10)


def _long_traffic(seconds, rate, seed=1):
    """Seven of ten requests up to 200,000 tokens, three from there to 500,000."""
    generator = random.Random(seed)
    now = 0.0
    while now < seconds:
        now += generator.expovariate(rate)
        low, high = (20_000, 200_000) if generator.random() < 0.7 else (200_000, 500_000)
        yield Arrival(now, generator.randint(low, high), generator.randint(200, 1000))


def test_long_requests_fill_the_pool_before_the_limit():
    result = simulate(_settings(256), _long_traffic(3600, 0.2), 3600.0)
    busy = [sample for sample in result.samples if sample.running]
    assert max(sample.running for sample in busy) < 64
    assert max(sample.kv_cache_usage for sample in busy) > 0.9


def test_short_requests_meet_the_limit_before_the_pool():
    generator = random.Random(2)
    arrivals = [Arrival(number / 40, generator.randint(50, 500), 400) for number in range(8000)]
    result = simulate(_settings(8), arrivals, 200.0)
    late = [sample for sample in result.samples if sample.seconds > 60]
    assert all(sample.running == 8 for sample in late)
    assert max(sample.kv_cache_usage for sample in late) < 0.2
    assert late[-1].waiting > 1000


def test_an_hour_takes_seconds():
    began = time.monotonic()
    result = simulate(_settings(32), _long_traffic(3600, 0.05), 3600.0)
    assert len(result.finished) > 100
    assert 3600 / (time.monotonic() - began) > 1000


def test_the_same_seed_gives_the_same_run():
    pages = {simulate(_settings(16), _long_traffic(900, 0.1), 900.0).metrics_text for _ in "ab"}
    assert len(pages) == 1


def test_settings_that_do_not_start_are_an_error_with_the_engines_text():
    with pytest.raises(StartError, match="Engine core initialization failed"):
        simulate(_settings(8, "--gpu-memory-utilization", "0.99"), [], 1.0)


def test_pages_at_other_times_show_how_far_it_was():
    arrivals = [Arrival(float(number), 1000, 10) for number in range(100)]
    result = simulate(_settings(8), arrivals, 200.0, pages_at=(10.5, 50.5))
    counted = 'vllm:request_prompt_tokens_count{engine="0",model_name="nvidia/Qwen3.6-27B-NVFP4"} '
    assert f"{counted}11.0" in result.pages[10.5]
    assert f"{counted}51.0" in result.pages[50.5]
    assert f"{counted}100.0" in result.metrics_text
