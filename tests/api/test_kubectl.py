"""What people type works: explain, get, wait, scale, diff, apply, and a second manager."""

import json
from datetime import UTC, datetime

import pytest
import yaml

from api.examples import FULL, MINIMAL, changed
from parkade.api import names
from parkade.api.conditions import (
    ConditionStatus,
    ConditionType,
    Reason,
    condition,
    read_conditions,
    set_condition,
    with_all_types,
)
from parkade.api.evidence import Footprint, Interval, Lengths, Workload
from parkade.api.status import (
    Bound,
    Bounds,
    EndpointStatus,
    HistoryEntry,
    LimitedBy,
    Memory,
    Recommendation,
    Rejected,
    Revision,
    TriState,
)
from testbed.cluster.errors import TestbedError

pytestmark = pytest.mark.controlplane

NOW = datetime(2026, 11, 29, 23, 15, tzinfo=UTC)


@pytest.fixture
def kubectl(crd, namespace):
    """Return kubectl in the test's namespace; a dict as `stdin` is sent as YAML."""

    def run(*arguments, stdin=None):
        text = yaml.safe_dump(stdin) if isinstance(stdin, dict) else stdin
        return crd.kubectl("--namespace", namespace, *arguments, stdin=text)

    return run


@pytest.fixture
def endpoint(kubectl):
    """An endpoint with every field; returns its name."""
    kubectl("apply", "-f", "-", stdin=FULL)
    return FULL["metadata"]["name"]


def status(generation=1, ready=ConditionStatus.TRUE, **fields):
    told = condition(ConditionType.READY, ready, Reason.SERVING, "1 of 1 ready", generation)
    conditions = with_all_types(set_condition((), told, NOW), generation, NOW)
    return EndpointStatus(observed_generation=generation, conditions=conditions, **fields)


def apply_status(crd, namespace, name, value, manager=names.FIELD_MANAGER, **identity):
    """Server-side apply to /status, as the operator does; returns the answer."""
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name, **identity},
        "status": value,
    }
    return crd.http.patch(
        f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}/{name}/status",
        params={"fieldManager": manager, "force": "true"},
        headers={"content-type": "application/apply-patch+yaml"},
        content=json.dumps(body),
    )


@pytest.fixture
def explain(kubectl, tmp_path):
    """Return `kubectl explain`, with a fresh cache: it never looks again for a new kind."""
    return lambda *what: kubectl("explain", *what, "--cache-dir", tmp_path)


def test_explain_tells_the_meaning_of_a_field(explain):
    assert "Memory that stays free on each GPU." in explain("iep.spec.tuning.headroom")
    assert "The smallest upper bound." in explain("iep.status.recommendation")


def test_explain_knows_every_part(explain):
    told = explain("inferenceendpoints", "--recursive")
    for word in ("maxModelLen", "num_speculative_tokens", "kvCache", "availableKV", "soakSeconds"):
        assert word in told


def test_get_shows_the_columns(crd, namespace, kubectl, endpoint):
    said = status(
        applied=Revision(max_num_seqs=12, gpu_memory_utilization="0.9521"),
        recommendation=Recommendation(limited_by=LimitedBy.KV_CACHE, saturated=TriState.TRUE),
        memory=Memory(pool_tokens=4_540_000),
    )
    assert apply_status(crd, namespace, endpoint, said.to_dict()).is_success
    head, row = kubectl("get", "iep").splitlines()
    assert head.split() == [
        "NAME",
        "READY",
        "SEQS",
        "UTIL",
        "LIMITED-BY",
        "KV-TOKENS",
        "MODE",
        "AGE",
    ]
    assert row.split()[:7] == ["contracts", "True", "12", "0.9521", "KVCache", "4540000", "Auto"]
    wide = kubectl("get", "iep", "-o", "wide")
    assert "nvidia/Qwen3.6-27B-NVFP4" in wide
    assert "STALLED" in wide


def test_wait_for_ready_is_met_only_for_this_generation(crd, namespace, kubectl, endpoint):
    with pytest.raises(TestbedError, match="timed out"):
        kubectl("wait", "--for=condition=Ready", f"iep/{endpoint}", "--timeout=1s")
    apply_status(crd, namespace, endpoint, status().to_dict())
    assert "condition met" in kubectl(
        "wait", "--for=condition=Ready", f"iep/{endpoint}", "--timeout=10s"
    )
    kubectl("apply", "-f", "-", stdin=changed(FULL, {"spec.replicas": 3}))
    with pytest.raises(TestbedError, match="timed out"):
        kubectl("wait", "--for=condition=Ready", f"iep/{endpoint}", "--timeout=1s")


def test_scale_changes_replicas_and_shows_the_selector(crd, namespace, kubectl, endpoint):
    selector = f"{names.ENDPOINT_LABEL}={endpoint}"
    said = status(replicas=2, ready_replicas=2, selector=selector).to_dict()
    assert apply_status(crd, namespace, endpoint, said).is_success
    kubectl("scale", "iep", endpoint, "--replicas=0")
    place = f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}/{endpoint}/scale"
    scale = crd.http.get(place).json()
    assert scale["spec"] == {}  # 0 is left out in JSON of autoscaling/v1
    assert scale["status"] == {"replicas": 2, "selector": selector}


def test_two_applies_in_a_row_change_nothing(kubectl, endpoint):
    before = kubectl("get", "iep", endpoint, "-o", "jsonpath={.metadata.resourceVersion}")
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=FULL)
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=FULL)
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=FULL)
    after = kubectl("get", "iep", endpoint, "-o", "json")
    assert json.loads(after)["metadata"]["generation"] == 1
    assert before


def test_the_smallest_resource_applied_twice_is_unchanged(kubectl):
    kubectl("apply", "-f", "-", stdin=MINIMAL)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=MINIMAL)
    assert kubectl("diff", "-f", "-", stdin=MINIMAL) == ""


def test_diff_shows_a_change_and_nothing_else(kubectl, endpoint):
    assert kubectl("diff", "-f", "-", stdin=FULL) == ""
    # kubectl diff ends with status 1 where there is a difference.
    with pytest.raises(TestbedError, match="failed with status 1"):
        kubectl("diff", "-f", "-", stdin=changed(FULL, {"spec.tuning.headroom": "7Gi"}))


def test_a_dry_run_on_the_server_says_what_is_wrong(kubectl):
    wrong = changed(MINIMAL, {"spec.engine.extraArgs": ["--max-num-seqs=8"]})
    with pytest.raises(TestbedError, match="use the resource's own field instead"):
        kubectl("apply", "--dry-run=server", "-f", "-", stdin=wrong)
    kubectl("apply", "--dry-run=server", "-f", "-", stdin=MINIMAL)
    with pytest.raises(TestbedError, match="not found"):
        kubectl("get", "iep", "contracts")


def test_a_second_manager_owns_its_own_fields(kubectl):
    ours = changed(MINIMAL, {"spec.engine.env": [{"name": "A", "value": "1"}]})
    theirs = {
        **{key: MINIMAL[key] for key in ("apiVersion", "kind", "metadata")},
        "spec": {
            "replicas": 3,
            "engine": {"env": [{"name": "B", "value": "2"}]},
        },
    }
    apply = ("apply", "--server-side", "-f", "-")
    kubectl(*apply, "--field-manager=git", stdin=ours)
    kubectl(*apply, "--field-manager=team", stdin=theirs)
    kubectl(*apply, "--field-manager=git", stdin=ours)
    spec = json.loads(kubectl("get", "iep", "contracts", "-o", "json"))["spec"]
    assert spec["replicas"] == 3
    assert [one["name"] for one in spec["engine"]["env"]] == ["A", "B"]
    with pytest.raises(TestbedError, match="conflict"):
        kubectl(*apply, "--field-manager=git", stdin=changed(ours, {"spec.replicas": 2}))


def test_conditions_of_another_manager_survive(crd, namespace, endpoint):
    foreign = {
        "type": "example.org/Audited",
        "status": "True",
        "reason": "Done",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    said = status().to_dict()
    assert apply_status(crd, namespace, endpoint, said).is_success
    answer = apply_status(crd, namespace, endpoint, {"conditions": [foreign]}, manager="audit")
    assert answer.is_success, answer.json()["message"]
    stored = apply_status(crd, namespace, endpoint, said).json()["status"]
    assert len(stored["conditions"]) == 7
    assert read_conditions(stored) == status().conditions


def test_the_same_status_applied_again_writes_nothing(crd, namespace, endpoint):
    said = status().to_dict()
    first = apply_status(crd, namespace, endpoint, said).json()["metadata"]["resourceVersion"]
    second = apply_status(crd, namespace, endpoint, said).json()["metadata"]["resourceVersion"]
    assert first == second


def test_only_the_resource_version_guards_a_status_against_a_namesake(crd, namespace, endpoint):
    """The uid does so for the resource itself, but /status of a custom resource ignores it."""
    place = f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}/{endpoint}"
    stale = crd.http.get(place).json()["metadata"]["resourceVersion"]
    said = status().to_dict()
    assert apply_status(crd, namespace, endpoint, said, uid="0-1-2-3").is_success
    assert apply_status(crd, namespace, endpoint, said, resourceVersion=stale).status_code == 409


def test_the_largest_status_is_stored_whole(crd, namespace, endpoint):
    long = "ü" * 2000
    lengths = Lengths(mean="1.5", median=Interval(above=1, up_to=2), p90=Interval(above=1))
    settings = {"max_num_seqs": 1024, "gpu_memory_utilization": "0.9521"}
    sizes = dict.fromkeys(set(Memory.model_fields) - {"pool_tokens", "basis"}, "-182630Mi")
    said = status(
        recommendation=Recommendation(
            **settings,
            bounds=Bounds(**dict.fromkeys(Bounds.model_fields, Bound(value="1.5", why=long))),
            explanation=(long,) * 100,
        ),
        applied=Revision(revision="abc", since=NOW, fingerprint=long, **settings),
        rejected=tuple(
            Rejected(hash=str(n), message=long, shortfall="1024Mi", time=NOW) for n in range(20)
        ),
        workload=Workload(
            prompt_tokens=lengths, output_tokens=lengths, footprint=Footprint(tokens="366129.25")
        ),
        memory=Memory(pool_tokens=1, **sizes),
        history=tuple(
            HistoryEntry(message=long, measured_kv_tokens=5, until=NOW) for _ in range(20)
        ),
    ).to_dict()
    answer = apply_status(crd, namespace, endpoint, said)
    assert answer.is_success, answer.json()["message"]
    assert answer.json()["status"] == said
