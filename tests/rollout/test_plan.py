"""What a plan notes beside its action."""

from dataclasses import replace

import pytest

from parkade.api.conditions import Reason
from parkade.rollout.actions import Action, Desired, PlanInputs
from parkade.rollout.observed import ForeignChild
from parkade.rollout.plan import plan
from parkade.rollout.record import Recommended, Retry
from parkade.rollout.revision import sizing_hash
from rollout.support.objects import endpoint, settings
from rollout.support.states import at_rest, revision

GOOD = revision()
NOTED = Recommended(32, GOOD.fingerprint, sizing_hash(endpoint().spec))
UNKNOWN = Desired(None, Reason.MODEL_UNAVAILABLE, "The hub does not answer.")
SILENT = Desired(settings(256), Reason.INSUFFICIENT_EVIDENCE, "12 requests.")


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
            held(desired=SILENT, record={"recommended": NOTED}), 32, id="no traffic: it stays too"
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


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"objectives": {"minOutputTokensPerSecond": 40}}, id="objectives"),
        pytest.param({"tuning": {"minGainPercent": 20}}, id="the hysteresis"),
        pytest.param({"workload": {"windowSeconds": 600}}, id="the window"),
    ],
)
def test_it_holds_for_what_sizing_was_told(spec) -> None:
    assert sizing_hash(endpoint(spec).spec) != sizing_hash(endpoint().spec)
    assert sizing_hash(endpoint({"replicas": 7}).spec) == sizing_hash(endpoint().spec)
    record = plan(at_rest()).record
    told = sizing_hash(endpoint().spec)
    assert record.recommended_max_num_seqs(GOOD.fingerprint, told) == 32
    assert record.recommended_max_num_seqs(GOOD.fingerprint, "other") is None
    assert record.recommended_max_num_seqs("other", told) is None


WANED = Desired(settings(32), Reason.APPLIED, "Half of it is left.", firm=False)


def test_what_noise_speaks_against_stays_recommended_while_a_gate_is_closed() -> None:
    found = plan(held(desired=WANED))
    assert (found.action, found.reason) == (Action.HOLD, Reason.WOULD_INTERRUPT_SERVING)
    assert found.record.recommended.max_num_seqs == 32


def test_where_no_gate_is_closed_it_starts_nothing_and_is_given_up() -> None:
    found = plan(at_rest(desired=WANED, record={"recommended": NOTED}))
    assert (found.action, found.reason) == (Action.HOLD, Reason.WITHIN_HYSTERESIS)
    assert found.record.recommended is None
    assert found.requeue_after_seconds == 1.0


def test_the_fraction_does_not_wait_for_that() -> None:
    both = replace(WANED, settings=settings(32, "0.95"))
    found = plan(at_rest(desired=both)).record.candidate.revision.settings
    assert found == settings(256, "0.95")


def test_a_person_s_wish_does_not_wait_for_that_either() -> None:
    retry = Retry("k", GOOD.fingerprint, settings(32))
    found = plan(at_rest(desired=WANED, record={"retry": retry}))
    assert found.record.candidate.revision.settings == settings(32)


def test_of_another_configuration_nothing_is_noted() -> None:
    """The user changed the image: what sizing says is no longer for what runs."""
    other = endpoint({"engine": {"image": "vllm/vllm-openai:v0.33.0"}}, generation=2)
    assert noted(replace(held(), endpoint=other)) is None


def test_where_nothing_may_be_written_nothing_is_noted() -> None:
    foreign = (ForeignChild("Service", "contracts", None),)
    assert noted(replace(held(), foreign=foreign)) is None
