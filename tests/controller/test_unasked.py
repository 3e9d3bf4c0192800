"""Until Prometheus and the hub have answered once, status says of sizing what it said before."""

from dataclasses import replace
from decimal import Decimal

import pytest

from parkade.api.conditions import ConditionStatus, Reason
from parkade.api.endpoint import parse_endpoint
from parkade.api.settings import Settings
from parkade.controller.size import Sized
from parkade.controller.unasked import as_told_before
from parkade.rollout.actions import Action, Desired, Finding, Plan
from parkade.rollout.record import Record
from parkade.rollout.render import render_revision

TOLD = {
    "Stalled": ("False", "AsExpected"),
    "SettingsApplied": ("False", "CoolingDown"),
    "WorkloadObserved": ("True", "Observed"),
    "ObjectivesMet": ("True", "Met"),
}


def endpoint(told, generation=3):
    spec = {
        "model": {"name": "m", "maxModelLen": 1000},
        "engine": {"image": "vllm/vllm-openai:v0.32.0"},
        "accelerator": {"product": "NVIDIA-B200"},
    }
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": f"{kind} as told",
            "observedGeneration": 3,
            "lastTransitionTime": "2026-11-29T23:00:00Z",
        }
        for kind, (status, reason) in told.items()
    ]
    return parse_endpoint(
        {
            "metadata": {"namespace": "ns", "name": "iep", "uid": "u", "generation": generation},
            "spec": spec,
            "status": {"observedGeneration": 3, "conditions": conditions},
        }
    )


def decided(seen, **changes):
    good = render_revision(seen, Settings(8, Decimal("0.9")))
    said = Finding(ConditionStatus.UNKNOWN, Reason.INSUFFICIENT_EVIDENCE, "not asked yet")
    plan = Plan(
        Action.HOLD,
        Reason.INSUFFICIENT_EVIDENCE,
        "not asked yet",
        Record(uid="u", last_good=good),
        None,
        said,
    )
    return replace(plan, **changes)


def sized(reason=Reason.INITIALIZING, **changes):
    said = Finding(ConditionStatus.UNKNOWN, reason, "being asked")
    return Sized(Desired(None), said, said, {"recommendation": {"maxNumSeqs": 1}}, **changes)


def test_what_was_told_before_a_restart_stays_told():
    seen = endpoint(TOLD)
    plan, kept = as_told_before(seen, decided(seen), sized())
    assert plan.settings_applied.reason is Reason.COOLING_DOWN
    assert plan.settings_applied.message == "SettingsApplied as told"
    assert kept.workload_observed.reason is Reason.OBSERVED
    assert kept.objectives_met.reason is Reason.MET
    assert kept.status == {}
    assert plan.stalled is None


def test_what_sizing_asked_of_a_person_stays_asked():
    seen = endpoint({**TOLD, "Stalled": ("True", "DoesNotFit")})
    plan, _ = as_told_before(seen, decided(seen), sized())
    assert plan.stalled is not None
    assert plan.stalled.reason is Reason.DOES_NOT_FIT


@pytest.mark.parametrize(
    ("told", "generation", "plan", "sizing"),
    [
        pytest.param(TOLD, 3, {}, sized(Reason.NO_SERIES), id="Prometheus has answered"),
        pytest.param(TOLD, 4, {}, sized(), id="the user changed the spec"),
        pytest.param({}, 3, {}, sized(), id="nothing was told before"),
        pytest.param(
            {**TOLD, "SettingsApplied": ("Unknown", "Initializing")}, 3, {}, sized(), id="only that"
        ),
        pytest.param(TOLD, 3, {"action": Action.REVERT}, sized(), id="something is done"),
        pytest.param(TOLD, 3, {"record": Record(uid="u")}, sized(), id="nothing ran well yet"),
    ],
)
def test_everything_else_is_told_at_once(told, generation, plan, sizing):
    seen = endpoint(told, generation)
    before = decided(seen, **plan)
    assert as_told_before(seen, before, sizing) == (before, sizing)


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param({"reason": Reason.SUSPENDED}, id="it is suspended"),
        pytest.param({"reason": Reason.COOLING_DOWN}, id="it cools down"),
        pytest.param(
            {"stalled": Finding(ConditionStatus.TRUE, Reason.LAST_GOOD_FAILING, "it fails")},
            id="a person must act for another reason",
        ),
    ],
)
def test_what_does_not_come_from_sizing_is_told_at_once_beside_the_old_traffic(plan):
    seen = endpoint(TOLD)
    before = decided(seen, **plan)
    after, kept = as_told_before(seen, before, sized())
    assert after == before
    assert kept.workload_observed.reason is Reason.OBSERVED


def test_a_hub_that_has_not_answered_yet_counts_as_well():
    seen = endpoint(TOLD)
    waits = sized(Reason.OBSERVED, waits=True)
    plan, _ = as_told_before(seen, decided(seen), waits)
    assert plan.settings_applied.reason is Reason.COOLING_DOWN
