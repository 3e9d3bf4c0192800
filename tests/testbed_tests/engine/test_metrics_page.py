"""The page of /metrics against the real one: names, types, labels and buckets."""

import re
from pathlib import Path

import pytest

from testbed.engine.simulate import Arrival, Settings, simulate

REAL = (Path(__file__).parents[2] / "data" / "engine" / "metrics-0.32.0.txt").read_text()
MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def _families(text):
    return dict(re.findall(r"^# TYPE (vllm:\S+) (\S+)$", text, re.MULTILINE))


def _series(text):
    """Each series' name with its labels; values only of those whose set is fixed."""
    fixed = {"le", "reason", "finished_reason", "source", "sleep_state"}
    series = {}
    for name, labels in re.findall(r"^(vllm:\w+)\{(.*)\} \S+$", text, re.MULTILINE):
        pairs = re.findall(r'(\w+)="([^"]*)"', labels)
        key = tuple((key, value if key in fixed else "") for key, value in pairs)
        series.setdefault(name, set()).add(key)
    return series


@pytest.fixture(scope="module")
def page():
    arrivals = [Arrival(float(second), 16, 70) for second in range(6)]
    settings = Settings(MODEL, ("--max-model-len", "2048", "--served-model-name", "tiny-llama"))
    return simulate(settings, arrivals, 60.0).metrics_text


def test_every_family_of_the_real_page_is_there_with_its_type(page):
    assert _families(page) == _families(REAL)


def test_every_series_has_the_labels_and_buckets_of_the_real_page(page):
    assert _series(page) == _series(REAL)


def test_the_counts_are_those_of_the_same_six_requests(page):
    for name in ("request_prompt_tokens", "request_generation_tokens"):
        pattern = rf"^vllm:{name}_(?:count|sum)\S+ (\S+)$"
        assert re.findall(pattern, page, re.MULTILINE) == re.findall(pattern, REAL, re.MULTILINE)
    assert 'finished_reason="length",model_name="tiny-llama"} 6.0' in page


def test_token_buckets_end_at_the_length_and_can_be_replaced():
    flags = ("--max-model-len", "131072")
    text = simulate(Settings(MODEL, flags), [], 1.0).metrics_text
    edges = re.findall(r'vllm:request_prompt_tokens_bucket\{engine="0",le="([^"]+)"', text)
    assert edges[-3:] == ["50000.0", "100000.0", "+Inf"]
    buckets = '{"request_tokens": [100, 3000], "inter_token_latency": [0.004]}'
    custom = Settings(MODEL, (*flags, "--custom-histogram-buckets", buckets))
    text = simulate(custom, [], 1.0).metrics_text
    edges = re.findall(r'vllm:request_prompt_tokens_bucket\{engine="0",le="([^"]+)"', text)
    assert edges == ["100.0", "3000.0", "+Inf"]
    assert 'vllm:request_time_per_output_token_seconds_bucket{engine="0",le="0.004"' in text


def test_a_drafter_has_its_families():
    flags = ("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 8}')
    settings = Settings("nvidia/Qwen3.6-27B-NVFP4", flags)
    text = simulate(settings, [Arrival(0.0, 1000, 341)], 60.0).metrics_text
    pattern = r'^vllm:spec_decode_(\w+)_total\{engine="0",model_name="[^"]*"\} (\S+)$'
    assert dict(re.findall(pattern, text, re.MULTILINE)) == {
        "num_drafts": "100.0",
        "num_draft_tokens": "800.0",
        "num_accepted_tokens": "240.0",
    }
    assert text.count("\nvllm:spec_decode_num_accepted_tokens_per_pos_total{") == 8
