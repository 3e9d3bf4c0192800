"""What watches bring, what a resync mends, and when passes may begin."""

import pytest

from parkade.adapters import rbac
from parkade.api import names
from parkade.controller.process import Process, label_selector
from support.clusters import cluster_at
from support.operators import quick_settings
from support.servers import Reply, serving

KEY = ("ns", "iep")


def thing(name, uid, version="1", generation=1, endpoint="iep"):
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": uid,
            "resourceVersion": version,
            "generation": generation,
            "labels": {names.ENDPOINT_LABEL: endpoint},
        }
    }


class Api:
    """Lists of objects by plural."""

    def __init__(self):
        self.items = {}
        self.asked = []

    def __call__(self, asked):
        self.asked.append(asked)
        plural = asked.path.rsplit("/", 1)[-1]
        return Reply(body={"items": self.items.get(plural, [])})


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def process(api):
    with serving(api) as served:
        one = Process(cluster_at(served.url), quick_settings("ns"))
        yield one
        one.stop()


def due(process):
    """The keys that a worker would get now."""
    found = []
    while (key := process.queue.take(0)) is not None:
        process.queue.done(key)
        found.append(key)
    return found


def test_a_new_endpoint_and_each_child_mark_it(process):
    process.saw(rbac.ENDPOINTS, thing("iep", "e"))
    assert due(process) == [KEY]
    process.saw(rbac.PODS, thing("pod", "p"))
    assert due(process) == [KEY]


def test_an_event_that_says_nothing_new_marks_nobody(process):
    process.saw(rbac.PODS, thing("pod", "p"))
    due(process)
    process.saw(rbac.PODS, thing("pod", "p"))
    assert due(process) == []


def test_a_deleted_child_marks_and_a_deleted_endpoint_is_forgotten(process):
    process.saw(rbac.ENDPOINTS, thing("iep", "e"))
    process.saw(rbac.PODS, thing("pod", "p"))
    due(process)
    process.deleted(rbac.PODS, thing("pod", "p", "2"))
    assert due(process) == [KEY]
    process.queue.mark(KEY)
    process.deleted(rbac.ENDPOINTS, thing("iep", "e", "2"))
    assert due(process) == []


def test_a_deletion_that_comes_late_does_not_forget_the_next_of_that_name(process):
    process.saw(rbac.ENDPOINTS, thing("iep", "old"))
    process.saw(rbac.ENDPOINTS, thing("iep", "new", "5"))
    due(process)
    process.queue.mark(KEY)
    process.deleted(rbac.ENDPOINTS, thing("iep", "old", "4"))
    assert due(process) == [KEY]


def advising(name, target):
    found = thing(name, name)
    return found | {"spec": {"targetRef": {"name": target}}}


@pytest.mark.parametrize(
    ("target", "marked"),
    [
        pytest.param(None, {"a", "b", "iep"}, id="of all endpoints"),
        pytest.param(("ns", "one"), {"a"}, id="of one target"),
        pytest.param(("elsewhere", "one"), set(), id="of its namesake"),
    ],
)
def test_a_reading_marks_those_that_it_is_of(process, target, marked):
    for one in (thing("iep", "e"), advising("a", "one"), advising("b", "other")):
        process.saw(rbac.ENDPOINTS, one)
    due(process)
    process.mark_readers(target)
    assert {name for _, name in due(process)} == marked


def test_an_edited_endpoint_does_not_wait_for_its_backoff(process):
    process.saw(rbac.ENDPOINTS, thing("iep", "e"))
    process.queue.failed(process.queue.take(0))
    process.saw(rbac.ENDPOINTS, thing("iep", "e", "2"))
    assert due(process) == []
    process.saw(rbac.ENDPOINTS, thing("iep", "e", "3", generation=2))
    assert due(process) == [KEY]


def test_a_resync_finds_what_a_watch_missed(process, api):
    process.saw(rbac.ENDPOINTS, thing("iep", "e"))
    process.saw(rbac.PODS, thing("went", "p1"))
    due(process)
    api.items = {
        "inferenceendpoints": [thing("iep", "e")],
        "pods": [thing("came", "p2")],
    }
    process.resync()
    assert [pod["metadata"]["name"] for pod in process.views.children(rbac.PODS, KEY)] == ["came"]
    assert due(process) == [KEY]


def test_a_resync_asks_for_what_is_labelled_in_the_namespaces_of_the_configuration(process, api):
    process.resync()
    paths = {asked.path: asked.query.get("labelSelector", "") for asked in api.asked}
    assert paths["/api/v1/namespaces/ns/pods"] == names.ENDPOINT_LABEL
    assert paths["/apis/policy/v1/namespaces/ns/poddisruptionbudgets"] == ""
    assert len(paths) == len(rbac.WATCHED)


def test_no_pass_begins_before_the_views_are_complete(process):
    assert process.workers._threads == []
    process.views_complete()
    process.views_complete()
    assert len(process.workers._threads) == process.settings.workers


def test_only_the_resource_itself_and_budgets_are_watched_without_our_label():
    unlabelled = {used.plural for used in rbac.WATCHED if not label_selector(used)}
    assert unlabelled == {"inferenceendpoints", "poddisruptionbudgets"}


def test_every_watched_kind_may_be_listed_and_watched():
    for used in rbac.WATCHED:
        assert {"list", "watch"} <= set(used.verbs)
