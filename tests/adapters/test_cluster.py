"""The Kubernetes adapter against a real HTTP server: paths, bodies, and each refusal's error."""

import threading

import pytest

from parkade.adapters import rbac
from parkade.adapters.cluster import UndeclaredAccessError
from parkade.adapters.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
    UnusableAnswerError,
)
from support.clusters import call, cluster_at, status
from support.servers import Reply, serving

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"namespace": "ns", "name": "web"},
    "spec": {"replicas": 1},
}


def test_an_apply_is_a_forced_server_side_apply_of_the_whole_object():
    stored = {**DEPLOYMENT, "metadata": {"generation": 2}}
    result, asked = call(
        lambda cluster: cluster.apply(rbac.DEPLOYMENTS, DEPLOYMENT, resource_version="7"),
        Reply(body=stored),
    )
    one = asked[0]
    assert (one.method, one.path) == ("PATCH", "/apis/apps/v1/namespaces/ns/deployments/web")
    assert one.query == {"fieldManager": "parkade", "force": "true"}
    assert one.headers["Content-Type"] == "application/apply-patch+yaml"
    assert one.headers["Authorization"] == "Bearer secret"
    assert one.json["metadata"] == {"namespace": "ns", "name": "web", "resourceVersion": "7"}
    assert result == stored


def test_an_apply_leaves_what_it_was_given_as_it_was():
    call(
        lambda cluster: cluster.apply(rbac.DEPLOYMENTS, DEPLOYMENT, resource_version="7"),
        Reply(body={}),
    )
    assert "resourceVersion" not in DEPLOYMENT["metadata"]


def test_a_status_goes_to_its_subresource_with_the_version_that_was_seen():
    _, asked = call(
        lambda cluster: cluster.apply_status("ns", "iep", "u-1", {"a": 1}, "7"), Reply(body={})
    )
    assert asked[0].path.endswith("/namespaces/ns/inferenceendpoints/iep/status")
    assert asked[0].json["metadata"]["resourceVersion"] == "7"
    assert asked[0].json["status"] == {"a": 1}


def test_a_status_follows_its_resource_that_changed_meanwhile():
    standing = {"metadata": {"uid": "u-1", "resourceVersion": "9"}}
    _, asked = call(
        lambda cluster: cluster.apply_status("ns", "iep", "u-1", {"a": 1}, "7"),
        status(409, "changed"),
        Reply(body=standing),
        Reply(body={}),
    )
    assert [one.method for one in asked] == ["PATCH", "GET", "PATCH"]
    assert asked[2].json["metadata"]["resourceVersion"] == "9"


def test_a_status_never_goes_to_another_resource_of_the_name():
    with pytest.raises(ConflictError, match="another resource of this name"):
        call(
            lambda cluster: cluster.apply_status("ns", "iep", "u-1", {"a": 1}, "7"),
            status(409, "changed"),
            Reply(body={"metadata": {"uid": "u-2", "resourceVersion": "9"}}),
        )


def test_a_list_follows_its_pages():
    pages = [
        Reply(body={"metadata": {"continue": "next page"}, "items": [{"n": 1}]}),
        Reply(body={"metadata": {}, "items": [{"n": 2}]}),
    ]
    found, asked = call(lambda cluster: cluster.list(rbac.PODS, label_selector="a=b"), *pages)
    assert found == [{"n": 1}, {"n": 2}]
    assert [one.query.get("continue") for one in asked] == [None, "next page"]
    assert asked[1].query["labelSelector"] == "a=b"


def test_a_list_of_no_items_is_empty():
    found, _ = call(lambda cluster: cluster.list(rbac.NODES), Reply(body={"items": None}))
    assert found == []


def test_what_is_not_there_is_none():
    found, _ = call(
        lambda cluster: cluster.get(rbac.DEPLOYMENTS, "ns", "x"), status(404, "not found")
    )
    assert found is None


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param(status(401, "who?"), ForbiddenError, id="not logged in"),
        pytest.param(status(403, "may not"), ForbiddenError, id="a role is missing"),
        pytest.param(status(404, "no namespace"), NotFoundError, id="the namespace is gone"),
        pytest.param(status(409, "changed"), ConflictError, id="somebody was faster"),
        pytest.param(status(410, "too old"), ConflictError, id="a page of a list is too old"),
        pytest.param(status(422, "bad field"), InvalidError, id="the object is refused"),
        pytest.param(status(429, "slow down"), TooManyRequestsError, id="priority and fairness"),
        pytest.param(status(500, "etcd"), UnavailableError, id="the server is broken"),
        pytest.param(status(503, "later"), UnavailableError, id="the server starts"),
        pytest.param(Reply(502, "<html>"), UnavailableError, id="a gateway's page"),
        pytest.param(Reply(200, "<html>"), UnusableAnswerError, id="a login page"),
        pytest.param(Reply(200, "[1]"), UnusableAnswerError, id="JSON of no kind"),
    ],
)
def test_each_refusal_has_its_error(reply, error):
    with pytest.raises(error, match=r"patch deployments ns/web"):
        call(lambda cluster: cluster.apply(rbac.DEPLOYMENTS, DEPLOYMENT), reply)


def test_too_many_requests_say_how_long_to_wait():
    with pytest.raises(TooManyRequestsError) as caught:
        call(
            lambda cluster: cluster.list(rbac.PODS),
            Reply(429, {"message": "slow down"}, {"Retry-After": "3"}),
        )
    assert caught.value.retry_after_seconds == 3


def test_each_call_is_sent_once():
    with serving(lambda _asked: status(503, "later")) as served:
        with pytest.raises(UnavailableError):
            cluster_at(served.url).list(rbac.PODS)
        assert len(served.asked) == 1


def test_a_server_that_does_not_answer_in_time_is_unavailable():
    stall = threading.Event()
    with serving(lambda _asked: Reply(body={}, stall=stall)) as served:
        with pytest.raises(UnavailableError, match="list pods"):
            cluster_at(served.url, read_timeout_seconds=0.2).list(rbac.PODS)
        stall.set()


def test_nobody_listening_is_unavailable():
    with serving(lambda _asked: Reply()) as served:
        url = served.url
    with pytest.raises(UnavailableError):
        cluster_at(url).list(rbac.PODS)


def test_a_call_that_the_table_does_not_list_is_a_bug():
    with pytest.raises(UndeclaredAccessError, match=r"create pods is not in rbac\.USED"):
        call(lambda cluster: cluster.create(rbac.PODS, {}), Reply(body={}))


def test_the_operator_reads_no_secrets():
    assert not [used for used in rbac.USED if used.plural == "secrets"]


def test_nothing_is_ever_deleted():
    assert not [used for used in rbac.USED if "delete" in used.verbs]


@pytest.mark.parametrize(
    ("reply", "log"),
    [
        pytest.param(Reply(body="one\ntwo"), "one\ntwo", id="the log as it is"),
        pytest.param(Reply(body=b"\xff caf\xc3\xa9"), "� café", id="bytes that are no text"),
        pytest.param(status(400, "previous terminated container not found"), None, id="none kept"),
        pytest.param(status(404, "pod not found"), None, id="the pod is gone"),
        pytest.param(
            Reply(body="unable to retrieve container logs for containerd://abc"),
            None,
            id="the runtime lost it and the answer is a success",
        ),
    ],
)
def test_a_log_is_read_or_gone(reply, log):
    found, asked = call(
        lambda cluster: cluster.pod_log(
            "ns", "p", "vllm", previous=True, tail_lines=10, limit_bytes=99
        ),
        reply,
    )
    assert found == log
    assert asked[0].path == "/api/v1/namespaces/ns/pods/p/log"
    assert asked[0].query == {
        "container": "vllm",
        "previous": "true",
        "limitBytes": "99",
        "tailLines": "10",
    }


def test_an_end_that_the_limit_cut_off_is_asked_for_with_fewer_lines():
    """The kubelet goes to the start of the tail, and stops after limitBytes."""
    long = [f"line {at:3} of a dump" for at in range(99)]
    lines = [*long, "CUDA out of memory"]

    def kubelet(asked):
        tail = lines[-int(asked.query["tailLines"]) :]
        return Reply(body="\n".join(tail)[: int(asked.query["limitBytes"])])

    with serving(kubelet) as served:
        log = cluster_at(served.url).pod_log(
            "ns", "p", "vllm", previous=True, tail_lines=100, limit_bytes=400
        )
    assert log.endswith("CUDA out of memory")
    assert len(log.splitlines()) == 10


def test_names_are_escaped_in_paths():
    _, asked = call(lambda cluster: cluster.get(rbac.CONFIGMAPS, "ns", "a/../b"), Reply(body={}))
    assert asked[0].target == "/api/v1/namespaces/ns/configmaps/a%2F..%2Fb"


def test_a_key_of_a_config_map_that_lacks_it_is_none():
    found, _ = call(
        lambda cluster: cluster.config_map_key("ns", "m", "config.json"), Reply(body={"data": None})
    )
    assert found is None
