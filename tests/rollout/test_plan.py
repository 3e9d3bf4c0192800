"""What a plan notes beside its action."""

from dataclasses import replace

import pytest

from parkade.api.conditions import Reason
from parkade.rollout.actions import Desired, PlanInputs
from parkade.rollout.observed import ForeignChild
from parkade.rollout.plan import plan
from parkade.rollout.record import Recommended
from parkade.rollout.revision import tuning_hash
from rollout.support.objects import endpoint, settings
from rollout.support.states import at_rest, revision

GOOD = revision()
NOTED = Recommended(32, GOOD.fingerprint, tuning_hash(endpoint().spec))
UNKNOWN = Desired(None, Reason.INSUFFICIENT_EVIDENCE, "12 requests.")


def noted(inputs: PlanInputs) -> Recommended | None:
    return plan(inputs).record.recommended


def held(**changes) -> PlanInputs:
    """Sizing recommends 32, and nothing may be applied."""
    spec = {"rollout": {"strategy": "NoSurge"}, "tuning": {"interruption": "Never"}}
    return at_rest(spec, **changes)


@pytest.mark.parametrize(
    ("inputs", "seqs"),
    [
        pytest.param(held(), 32, id="what may not be applied now"),
        pytest.param(at_rest(), 32, id="what is being rolled out"),
        pytest.param(held(wanted=settings(256)), None, id="what runs"),
        pytest.param(
            held(wanted=settings(256), record={"recommended": NOTED}), None, id="it runs by now"
        ),
        pytest.param(held(wanted=settings(256, "0.95")), None, id="a fraction, which has no noise"),
        pytest.param(
            held(desired=UNKNOWN, record={"recommended": NOTED}), 32, id="cannot tell: it stays"
        ),
        pytest.param(
            held(wanted=settings(48), record={"recommended": NOTED}), 48, id="another one"
        ),
    ],
)
def test_what_is_recommended_is_noted(inputs: PlanInputs, seqs: int | None) -> None:
    found = noted(inputs)
    assert (found.max_num_seqs if found is not None else None) == seqs
    if found is not None:
        assert found.fingerprint == GOOD.fingerprint
        again = replace(inputs, record=plan(inputs).record)
        assert noted(again) == found


def test_it_holds_for_the_tuning_inputs_that_it_was_made_with() -> None:
    inputs = held()
    record = plan(inputs).record
    tuning = tuning_hash(inputs.endpoint.spec)
    assert record.recommended_max_num_seqs(GOOD.fingerprint, tuning) == 32
    assert record.recommended_max_num_seqs(GOOD.fingerprint, "other") is None
    assert record.recommended_max_num_seqs("other", tuning) is None


def test_of_another_configuration_nothing_is_noted() -> None:
    """The user changed the image: what sizing says is no longer for what runs."""
    other = endpoint({"engine": {"image": "vllm/vllm-openai:v0.33.0"}}, generation=2)
    assert noted(replace(held(), endpoint=other)) is None


def test_where_nothing_may_be_written_nothing_is_noted() -> None:
    foreign = (ForeignChild("Service", "contracts", None),)
    assert noted(replace(held(), foreign=foreign)) is None
