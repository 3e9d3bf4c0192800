"""What the condition WorkloadObserved says where no workload can be told."""

from datetime import UTC, datetime

import pytest

from parkade.api.conditions import ConditionStatus, Reason
from parkade.api.endpoint import parse_endpoint
from parkade.controller.observe import Observation
from parkade.controller.size import unsized
from parkade.rollout.record import Record
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
