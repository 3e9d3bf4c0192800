"""What holds of any text: no exception, no length, no noise and no cut makes a false blame."""

import itertools
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parkade.rollout.causes import (
    Blame,
    CauseClass,
    ContainerEvidence,
    classify,
    excerpt,
    read_startup,
)

LOGS = {
    path.stem: path.read_text()
    for path in sorted((Path(__file__).parents[2] / "data" / "logs").glob("*.log"))
}
FRAGMENTS = [line for text in LOGS.values() for line in text.splitlines()]
CUT_TELLS_LESS = {
    "several-tries-last-decides": "a part of it is an earlier try, which had its own cause",
    "several-tries-last-serves": "likewise",
    "free-memory-one-rank-held-tp2": "the first rank alone has 94 % free",
    "oom-runtime-neighbour-holds-the-card": "the neighbour is named after a whole sentence",
}
texts = st.one_of(
    st.text(max_size=400),
    st.binary(max_size=400).map(lambda data: data.decode("latin-1")),
    st.binary(max_size=400).map(lambda data: data.decode("utf-8", "surrogateescape")),
    st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("\n".join),
    st.lists(st.text(max_size=8) | st.sampled_from(FRAGMENTS), max_size=12).map("".join),
)
evidences = st.none() | st.builds(
    ContainerEvidence,
    exit_code=st.none() | st.integers(-1, 300),
    reason=st.sampled_from(["", "Error", "Completed", "OOMKilled", "Evicted"])
    | st.text(max_size=9),
    message=texts,
    waiting_reason=st.sampled_from(["", "CrashLoopBackOff", "ErrImagePull"]) | st.text(max_size=9),
    events=st.lists(
        st.tuples(st.sampled_from(["Killing", "Unhealthy", "X"]), texts), max_size=3
    ).map(tuple),
    ready_before=st.booleans(),
    deletion_requested=st.booleans(),
    predecessor_on_gpu=st.none() | st.booleans(),
)


@given(text=texts, evidence=evidences)
@settings(max_examples=300, deadline=None)
def test_any_text_has_a_bounded_answer(text, evidence):
    cause = classify(text, evidence)
    assert len(cause.message) <= 500
    assert len(cause.remedy) <= 500
    assert len(cause.key_lines) <= 6
    assert all(len(line) <= 300 for line in cause.key_lines)
    shown = "".join([cause.message, cause.remedy, *cause.key_lines])
    assert not any(unicodedata.category(char) in {"Cc", "Cs"} for char in shown)
    shown.encode()
    assert cause.shortfall_bytes is None or 0 < cause.shortfall_bytes <= 10 * 2**40
    assert cause.knob is None or cause.blame is Blame.SETTINGS
    assert (cause.cause_class is not CauseClass.UNKNOWN) or cause.blame is Blame.UNKNOWN


@given(text=texts, size=st.integers(-10, 5000))
@settings(max_examples=200, deadline=None)
def test_any_text_has_a_bounded_excerpt(text, size):
    kept = excerpt(text, size)
    assert len(kept.encode()) <= max(size, 0)
    assert not any(ord(char) < 32 and char not in "\n\t" for char in kept)


@given(text=texts)
@settings(max_examples=200, deadline=None)
def test_any_text_has_a_report_of_believable_figures(text):
    report = read_startup(text)
    for name in (
        "total_bytes",
        "free_bytes",
        "available_kv_bytes",
        "weights_bytes",
        "non_kv_bytes",
    ):
        value = getattr(report, name)
        assert value is None or 0 <= value <= 10 * 2**40
    assert report.utilization is None or 0 < report.utilization <= 1


@pytest.mark.parametrize(
    "name", [pytest.param(name, id=name) for name in LOGS if name not in CUT_TELLS_LESS]
)
def test_a_log_cut_anywhere_never_blames_settings_for_something_else(name):
    text = LOGS[name]
    whole = classify(text)
    ends = itertools.accumulate(len(line) + 1 for line in text.split("\n"))
    steps = range(0, len(text), max(1, len(text) // 25))
    for at in {*itertools.islice(ends, 0, None, max(2, text.count("\n") // 20)), *steps}:
        for part in (text[:at], text[at:]):
            cut = classify(part)
            if cut.blame is Blame.SETTINGS:
                assert (cut.cause_class, whole.blame) == (whole.cause_class, Blame.SETTINGS)
            elif whole.blame is Blame.SETTINGS:
                assert cut.cause_class in {
                    whole.cause_class, CauseClass.UNKNOWN, CauseClass.MISSING_MODEL,
                }  # fmt: skip


NOISE = st.lists(
    st.sampled_from(
        [
            "INFO 11-29 10:00:00 [utils.py:1] CUDA out of memory is what we fear",
            "WARNING 11-29 10:00:00 [a.py:1] torch.OutOfMemoryError: retried and went on",
            "W1129 17:48:01.822000 23671 torch/_library/triton.py:53] Triton not available",
            '{"levelname": "INFO", "message": "No available memory for the cache blocks?"}',
            "  warnings.warn('resource_tracker: leaked shared_memory objects')",
            "(APIServer pid=1) DEBUG 11-29 10:00:00 [a.py:1] Waiting for 1 local process",
            "\x1b[32mgreen\x1b[0m",
            "",
        ]
    ),
    max_size=6,
)


@given(name=st.sampled_from(sorted(LOGS)), before=NOISE, after=NOISE)
@settings(max_examples=150, deadline=None)
def test_noise_around_a_log_changes_neither_class_nor_blame(name, before, after):
    whole = classify(LOGS[name])
    noisy = classify("\n".join([*before, LOGS[name], *after]))
    assert (noisy.cause_class, noisy.blame) == (whole.cause_class, whole.blame)


@given(name=st.sampled_from(sorted(LOGS)), gap=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_noise_between_the_lines_changes_no_settings_class(name, gap):
    lines = LOGS[name].splitlines()
    at = gap % (len(lines) + 1)
    whole = classify(LOGS[name])
    noisy = classify(
        "\n".join([*lines[:at], "(Worker_TP9 pid=9) INFO 11-29 [a.py:1] hi", *lines[at:]])
    )
    if whole.blame is Blame.SETTINGS:
        assert (noisy.cause_class, noisy.blame) == (whole.cause_class, whole.blame)


def test_ten_megabytes_are_read_in_bounded_time():
    text = LOGS["oom-runtime"]
    at = text.index("(EngineCore pid=88) ERROR")
    long = (
        text[:at]
        + "INFO 11-29 [a.py:1] Avg prompt throughput: 1.0 tokens/s\n" * 180_000
        + text[at:]
    )
    assert classify(long).cause_class is CauseClass.STARTED_THEN_OOM_AT_RUNTIME
    errors = text[:at] + "ERROR 11-29 [a.py:1] RuntimeError: failed memory\n" * 100_000
    assert classify(errors).cause_class is CauseClass.UNKNOWN
