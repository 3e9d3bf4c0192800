"""The polling helper: returns what was seen, and says what was missing."""

import pytest

from testbed.waiting import WaitedTooLongError, wait_until


def test_returns_the_first_true_value():
    values = iter([0, "", None, "ready"])
    assert wait_until(lambda: next(values), "readiness", interval_seconds=0) == "ready"


def test_an_assertion_in_the_probe_means_not_yet():
    counts = iter(range(5))

    def probe():
        count = next(counts)
        assert count == 3
        return True

    assert wait_until(probe, "three", interval_seconds=0)


@pytest.mark.parametrize(
    ("probe", "seen"),
    [
        pytest.param(lambda: 0, "0", id="a false value is shown"),
        pytest.param(list, r"\[\]", id="an empty list is shown"),
        pytest.param(
            lambda: pytest.fail("no pod"),
            "no pod",
            id="a failed assertion is shown",
        ),
    ],
)
def test_too_long_says_what_was_seen_last(probe, seen):
    with pytest.raises(WaitedTooLongError, match=f"Waited 0 s for a pod; last seen: .*{seen}"):
        wait_until(
            probe,
            "a pod",
            timeout_seconds=0,
            interval_seconds=0,
            not_yet=(AssertionError, pytest.fail.Exception),
        )


def test_a_bug_in_the_probe_passes_through():
    with pytest.raises(KeyError):
        wait_until(lambda: {}["missing"], "nothing")
