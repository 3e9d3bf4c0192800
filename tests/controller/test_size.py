"""What is said, and what a new configuration starts with, where sizing can't be asked."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from parkade.api.conditions import ConditionStatus, Reason
from parkade.api.endpoint import parse_endpoint
from parkade.api.settings import Settings
from parkade.controller.observe import Observation
from parkade.controller.size import unsized
from parkade.rollout.record import Record
from parkade.sizing.result import NotSizable
from parkade.sizing.workload import CannotTell

ASSUMED = {"workload": {"assumed": {"promptTokens": 2000, "outputTokens": 500}}}


def seen(**spec) -> Observation:
    raw = {
        "model": {"name": "m", "maxModelLen": 10_000},
        "engine": {"image": "vllm/vllm-openai:v0.32.0"},
        "accelerator": {"product": "NVIDIA-B200"},
        **spec,
    }
    meta = {"namespace": "ns", "name": "iep", "uid": "u", "generation": 1}
    return Observation(
        endpoint=parse_endpoint({"metadata": meta, "spec": raw}),
        now=datetime(2026, 11, 29, tzinfo=UTC),
        record=Record(uid="u"),
        record_object=None,
        deployment=None,
        service=None,
        replica_sets=(),
        pods=(),
        foreign=(),
        budgets=(),
    )


@pytest.mark.parametrize(
    ("spec", "told", "status", "reason"),
    [
        pytest.param(
            ASSUMED, Reason.NO_TRAFFIC, "False", Reason.ASSUMED_LENGTHS, id="lengths are assumed"
        ),
        pytest.param({}, Reason.NO_TRAFFIC, "False", Reason.NO_TRAFFIC, id="nothing is assumed"),
        pytest.param(
            ASSUMED,
            Reason.PROMETHEUS_UNAVAILABLE,
            "Unknown",
            Reason.PROMETHEUS_UNAVAILABLE,
            id="what can't be read is not replaced by what is assumed",
        ),
        pytest.param(
            {"replicas": 0}, Reason.NO_SERIES, "Unknown", Reason.SCALED_TO_ZERO, id="no pod runs"
        ),
    ],
)
def test_workload_observed(spec, told, status, reason):
    why = CannotTell(told, "said so")
    found = unsized(seen(**spec), why, why).workload_observed
    assert (found.status, found.reason) == (ConditionStatus(status), reason)


INITIAL = {"tuning": {"initial": {"maxNumSeqs": 256, "gpuMemoryUtilization": "0.90"}}}
WAITS = CannotTell(Reason.INITIALIZING, "The hub is being asked.")
DOWN = CannotTell(Reason.MODEL_UNAVAILABLE, "The hub does not answer.")
NO_HUB = NotSizable(Reason.MODEL_UNAVAILABLE, "No hub is configured.")


@pytest.mark.parametrize(
    ("spec", "in_force", "why", "first"),
    [
        pytest.param(INITIAL, None, WAITS, (256, "0.9"), id="nothing ran: as it was told"),
        pytest.param(INITIAL, 32, WAITS, None, id="the answer comes in seconds"),
        pytest.param(INITIAL, 32, DOWN, (32, "0.9"), id="no answer: the N in force"),
        pytest.param(INITIAL, 512, DOWN, (256, "0.9"), id="no more than the user said"),
        pytest.param(INITIAL, 32, NO_HUB, (32, "0.9"), id="there will be no answer"),
        pytest.param({}, 32, DOWN, None, id="nobody says what to start with"),
    ],
)
def test_what_a_new_configuration_starts_with_where_sizing_has_no_answer(
    spec, in_force, why, first, make_revision
):
    observed = seen(**spec)
    if in_force is not None:
        good = make_revision(settings=Settings(in_force, Decimal("0.95")))
        observed = replace(observed, record=Record(uid="u", last_good=good))
    found = unsized(observed, why, WAITS).desired.first
    assert found == (None if first is None else Settings(first[0], Decimal(first[1])))
