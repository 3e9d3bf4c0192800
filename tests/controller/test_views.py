"""The in-memory views: order of events, our own writes, lost deletions."""

import pytest

from parkade.adapters import rbac
from parkade.api import names
from parkade.controller.views import Views

KEY = ("ns", "iep")


def thing(name="web", version="1", uid="u-1", endpoint="iep", namespace="ns", **more):
    labels = {names.ENDPOINT_LABEL: endpoint} if endpoint else {}
    meta = {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": version}
    return {"metadata": {**meta, "labels": labels}, **more}


@pytest.fixture
def views():
    return Views()


def test_children_are_found_by_the_endpoint_they_carry(views):
    views.put(rbac.PODS, thing("b"))
    views.put(rbac.PODS, thing("a"))
    views.put(rbac.PODS, thing("c", endpoint="other"))
    views.put(rbac.PODS, thing("a", namespace="elsewhere"))
    assert [pod["metadata"]["name"] for pod in views.children(rbac.PODS, KEY)] == ["a", "b"]


def test_an_event_older_than_what_is_held_is_dropped(views):
    assert views.put(rbac.DEPLOYMENTS, thing(version="9"))
    assert views.put(rbac.DEPLOYMENTS, thing(version="10"))
    assert not views.put(rbac.DEPLOYMENTS, thing(version="9"))
    assert views.named(rbac.DEPLOYMENTS, "ns", "web")["metadata"]["resourceVersion"] == "10"


def test_the_echo_of_our_own_write_changes_nothing(views):
    views.put(rbac.DEPLOYMENTS, thing(version="7"))
    assert views.put(rbac.DEPLOYMENTS, thing(version="7")) is False


def test_an_object_of_the_same_name_and_another_uid_replaces(views):
    views.put(rbac.DEPLOYMENTS, thing(version="90", uid="old"))
    assert views.put(rbac.DEPLOYMENTS, thing(version="5", uid="new"))


def test_a_deletion_forgets(views):
    views.put(rbac.PODS, thing())
    views.drop(rbac.PODS, thing(version="2"))
    assert views.children(rbac.PODS, KEY) == []
    assert views.named(rbac.PODS, "ns", "web") is None


@pytest.mark.parametrize("version", ["3", "5"])
def test_an_answer_that_a_deletion_overtook_does_not_bring_it_back(views, version):
    views.put(rbac.PODS, thing())
    views.drop(rbac.PODS, thing(version="5"))
    assert views.put(rbac.PODS, thing(version=version)) is False
    assert views.replace_all(rbac.PODS, [thing(version=version)], views.uids(rbac.PODS)) == set()
    assert views.children(rbac.PODS, KEY) == []


def put_back(views, body):
    views.put(rbac.CONFIGMAPS, body)


def listed(views, body):
    assert views.replace_all(rbac.CONFIGMAPS, [body], views.uids(rbac.CONFIGMAPS)) == {KEY}


@pytest.mark.parametrize(
    "seen_again",
    [
        pytest.param(put_back, id="our own write, or the watch"),
        pytest.param(listed, id="a listing"),
    ],
)
def test_an_object_that_lost_our_label_and_has_it_again_is_seen(views, seen_again):
    views.put(rbac.CONFIGMAPS, thing())
    views.drop(rbac.CONFIGMAPS, thing(version="2", endpoint=""))
    assert views.children(rbac.CONFIGMAPS, KEY) == []
    seen_again(views, thing(version="3"))
    assert views.children(rbac.CONFIGMAPS, KEY) == [thing(version="3")]
    views.drop(rbac.CONFIGMAPS, thing(version="4"))
    assert views.put(rbac.CONFIGMAPS, thing(version="3")) is False


def test_the_deletion_of_a_predecessor_leaves_its_successor(views):
    views.put(rbac.PODS, thing(uid="new"))
    views.drop(rbac.PODS, thing(uid="old"))
    assert views.named(rbac.PODS, "ns", "web")["metadata"]["uid"] == "new"


def test_a_child_that_changes_its_label_moves(views):
    views.put(rbac.PODS, thing())
    views.put(rbac.PODS, thing(version="2", endpoint="other"))
    assert views.children(rbac.PODS, KEY) == []
    assert len(views.children(rbac.PODS, ("ns", "other"))) == 1


def test_a_listing_brings_what_came_and_drops_what_went(views):
    views.put(rbac.PODS, thing("stays", uid="1"))
    views.put(rbac.PODS, thing("went", uid="2"))
    before = views.uids(rbac.PODS)
    views.put(rbac.PODS, thing("came-meanwhile", uid="3"))
    changed = views.replace_all(rbac.PODS, [thing("stays", uid="1"), thing("new", uid="4")], before)
    held = {pod["metadata"]["name"] for pod in views.children(rbac.PODS, KEY)}
    assert held == {"stays", "came-meanwhile", "new"}
    assert changed == {KEY}


def test_a_listing_that_brings_nothing_new_marks_nobody(views):
    views.put(rbac.PODS, thing())
    assert views.replace_all(rbac.PODS, [thing()], views.uids(rbac.PODS)) == set()


def test_a_budget_concerns_every_endpoint_of_its_namespace(views):
    for namespace, name in [("ns", "a"), ("ns", "b"), ("other", "c")]:
        views.put(rbac.ENDPOINTS, thing(name, namespace=namespace, endpoint="", uid=name))
    keys = views.keys_of(rbac.DISRUPTION_BUDGETS, thing("pdb", endpoint=""))
    assert sorted(keys) == [("ns", "a"), ("ns", "b")]


@pytest.mark.parametrize("body", [{}, {"metadata": None}, {"metadata": {"labels": None}}])
def test_a_body_without_metadata_harms_nothing(views, body):
    views.put(rbac.PODS, body)
    assert views.keys_of(rbac.PODS, body) == []
