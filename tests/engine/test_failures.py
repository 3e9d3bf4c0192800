"""Real starts that fail, and what `parkade classify` says of their real logs."""

import pytest

LONG = ("--max-model-len", "4096", "--kv-cache-memory-bytes", "1M")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        pytest.param(
            LONG, ("kv_below_one_request", "settings", "4096"), id="a request that never fits"
        ),
        pytest.param(
            ("--max-model-len", "1000000"),
            ("bad_arguments", "user", "1000000"),
            id="longer than the model",
        ),
        pytest.param(
            ("--no-such-flag", "1"), ("bad_arguments", "user", "no-such-flag"), id="an unknown flag"
        ),
    ],
)
def test_the_cause_of_a_failed_start(wanted, arguments, fail_to_start, model, parkade):
    cause, blame, words = wanted
    found = parkade("classify", fail_to_start(model("dense"), *arguments))
    assert (found["class"], found["blame"]) == (cause, blame)
    assert words in found["message"]


def test_a_model_that_is_not_there(fail_to_start, tmp_path, parkade):
    found = parkade("classify", fail_to_start(tmp_path / "nowhere"))
    assert found["class"] == "missing_model"
    assert found["blame"] != "settings"
