"""Raw objects become values; whatever is absent or odd in them has a stated outcome."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parkade.rollout.drift import difference
from parkade.rollout.observed import DisruptionBudget, ForeignChild
from parkade.rollout.parsing import (
    deployment_from,
    disruption_budget_from,
    foreign_child_from,
    foreign_children,
    moment,
    pod_from,
    replica_set_from,
)
from rollout.support.states import deployment, pod, revision

GOOD = revision()


def raw_pod(state: dict, restarts: int = 0, last: dict | None = None, **status) -> dict:
    container = {"name": "vllm", "restartCount": restarts, "state": state}
    if last is not None:
        container["lastState"] = {"terminated": last}
    sidecar = {"name": "proxy", "restartCount": 40, "state": {"terminated": {"exitCode": 9}}}
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"nodeName": "n"},
        "status": {"containerStatuses": [sidecar, container], **status},
    }


END = {"exitCode": 0, "reason": "Completed", "startedAt": "2026-03-02T12:00:00Z"}


@pytest.mark.parametrize(
    ("raw", "terminations", "waiting"),
    [
        pytest.param(raw_pod({"running": {}}), 0, "", id="it runs for the first time"),
        pytest.param(raw_pod({"terminated": END}), 1, "", id="it has just ended, with exit code 0"),
        pytest.param(
            raw_pod({"waiting": {"reason": "CrashLoopBackOff"}}, 0, END),
            1,
            "CrashLoopBackOff",
            id="it waits to run again: the count has not gone up yet",
        ),
        pytest.param(raw_pod({"running": {}}, 1, END), 1, "", id="it runs again"),
        pytest.param(
            raw_pod({"waiting": {"reason": "ContainerCreating"}}, 1, END),
            1,
            "ContainerCreating",
            id="it is being made again: the count has gone up",
        ),
        pytest.param(
            raw_pod({"waiting": {"reason": "ImagePullBackOff"}}), 0, "ImagePullBackOff", id="no run"
        ),
    ],
)
def test_terminations_of_the_engine_alone(raw, terminations: int, waiting: str) -> None:
    found = pod_from(raw)
    assert (found.terminations, found.waiting_reason) == (terminations, waiting)


@pytest.mark.parametrize(
    ("status", "disrupted"),
    [
        pytest.param({"reason": "Evicted"}, "Evicted", id="evicted by the kubelet"),
        pytest.param(
            {
                "conditions": [
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "Preempted",
                    }
                ]
            },
            "Preempted",
            id="preempted",
        ),
        pytest.param({"reason": "NodeLost"}, "NodeLost", id="node lost"),
        pytest.param({"reason": "SomethingNew"}, "", id="a reason that is not known"),
    ],
)
def test_disruptions(status, disrupted: str) -> None:
    assert pod_from(raw_pod({"running": {}}, **status)).disrupted == disrupted


@pytest.mark.parametrize(
    ("unready", "was_ready"),
    [
        pytest.param("2026-03-02T12:00:00Z", False, id="false from the start on"),
        pytest.param("2026-03-02T12:00:02Z", False, id="within the tolerance of whole seconds"),
        pytest.param("2026-03-02T12:03:00Z", True, id="false since later, so true in between"),
    ],
)
def test_a_pod_tells_that_it_was_ready_once(unready: str, was_ready: bool) -> None:
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": unready}
    raw = raw_pod({"running": {}}, startTime="2026-03-02T12:00:00Z", conditions=[ready])
    assert pod_from(raw).was_ready is was_ready


@pytest.mark.parametrize(
    ("text", "read"),
    [
        pytest.param("2026-03-02T12:00:00Z", datetime(2026, 3, 2, 12, tzinfo=UTC), id="as written"),
        pytest.param("2026-03-02T12:00:00", datetime(2026, 3, 2, 12, tzinfo=UTC), id="no zone"),
        pytest.param("yesterday", None, id="no time"),
        pytest.param(None, None, id="absent"),
        pytest.param(5, None, id="a number"),
    ],
)
def test_moment(text, read) -> None:
    assert moment(text) == read


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "status", "template", "conditions", "state"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), ANY))
def test_no_object_raises(raw) -> None:
    pod_from(raw)
    deployment_from(raw)
    replica_set_from(raw)
    disruption_budget_from(raw)
    foreign_child_from(raw, "Service", "uid-1")


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        pytest.param({"matchLabels": {"a": "b"}}, {"a": "b"}, True, id="label"),
        pytest.param({"matchLabels": {"a": "b"}}, {"a": "c"}, False, id="another value"),
        pytest.param({}, {"a": "b"}, True, id="an empty selector selects all"),
        pytest.param(None, {"a": "b"}, False, id="no selector selects none"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
            {"a": "b"},
            True,
            id="In",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]},
            {"a": "b"},
            False,
            id="NotIn",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
            {"a": "b"},
            True,
            id="Exists",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]},
            {"a": "b"},
            False,
            id="DoesNotExist",
        ),
    ],
)
def test_budgets_match_as_kubernetes_does(selector, labels, selected: bool) -> None:
    raw = {"metadata": {"name": "pdb"}, "spec": {"selector": selector}, "status": {}}
    assert disruption_budget_from(raw).matches(labels) is selected


def test_a_budget_that_its_controller_has_not_seen_allows_nothing() -> None:
    raw = {
        "metadata": {"name": "pdb", "generation": 2},
        "spec": {},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 5},
    }
    assert disruption_budget_from(raw) == DisruptionBudget("pdb", 0, selects=False)


def test_foreign_children_count_until_our_own_deployment_is_there() -> None:
    ours, other = deployment(GOOD), deployment(GOOD, owner_uid="uid-0")
    one = pod(GOOD)
    assert foreign_children("uid-1", ours, (), (one,)) == ()
    assert foreign_children("uid-1", other, (), (one,)) == (
        ForeignChild("Deployment", "contracts", "uid-0"),
        ForeignChild("Pod", "pod-1", "rs-1"),
    )
    assert foreign_children("uid-1", None, (), (one,)) == (ForeignChild("Pod", "pod-1", "rs-1"),)
    assert foreign_children("uid-1", None, (), ()) == ()


@pytest.mark.parametrize(
    ("desired", "live", "found"),
    [
        pytest.param({"a": 1}, None, "absent", id="absent"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, None, id="others' fields do not count"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b", id="a changed field"),
        pytest.param({"a": ["x", "y"]}, {"a": ["x"]}, "a", id="arguments are compared whole"),
        pytest.param({"a": ["x", "y"]}, {"a": ["x", "z"]}, "a[1]", id="and in order"),
        pytest.param(
            {"c": [{"name": "x", "v": 1}]},
            {"c": [{"name": "other"}, {"name": "x", "v": 1, "d": 0}]},
            None,
            id="a sidecar of another manager",
        ),
        pytest.param(
            {"c": [{"name": "x", "v": 1}]}, {"c": [{"name": "x", "v": 2}]}, "c[x].v", id="by name"
        ),
        pytest.param({"c": [{"name": "x"}]}, {"c": []}, "c[x]", id="an item taken away"),
        pytest.param(
            {"spec": {"resources": {"limits": {"memory": "1024Mi", "cpu": "500m"}}}},
            {"spec": {"resources": {"limits": {"memory": "1Gi", "cpu": "0.5"}}}},
            None,
            id="quantities are compared by value",
        ),
        pytest.param({"e": {}}, {}, None, id="an empty object is as good as none"),
        pytest.param({"n": 0}, {}, None, id="a zero is left out by the API server"),
    ],
)
def test_drift(desired, live, found: str | None) -> None:
    assert difference(desired, live) == found
