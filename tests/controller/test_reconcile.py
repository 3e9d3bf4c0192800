"""Whole passes against an API server that is played: what stands where something goes wrong."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from parkade.adapters import rbac
from parkade.adapters.errors import ConflictError, ForbiddenError
from parkade.api.conditions import Reason
from parkade.controller import record_store
from parkade.controller.apply import Writer
from parkade.controller.metrics import Metrics
from parkade.controller.reconcile import Reconciler
from parkade.controller.settings import OperatorSettings
from parkade.controller.turns import Turns
from parkade.controller.views import Views
from parkade.rollout.record import Record
from parkade.rollout.record_json import to_json
from parkade.sizing.workload import CannotTell
from rollout.support.driver import Operator
from rollout.support.objects import body
from rollout.support.stories import INITIAL, started
from rollout.support.world import World

KEY = ("serving", "contracts")
NOT_ASKED = CannotTell(Reason.INITIALIZING, "Being asked.")


@dataclass
class ApiServer:
    """Takes each write, except those of a kind that is forbidden."""

    forbidden: str = ""
    why: str = "parkade cannot patch it"
    unlabelled: list[dict[str, Any]] = field(default_factory=list)
    """What no watch brings."""
    generation: int = 1
    """Of the resource when a status arrives."""
    written: list[str] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)

    def apply(self, resource, manifest, **_version):
        if resource.kind == self.forbidden:
            raise ForbiddenError(f"{resource.plural} is forbidden: {self.why}")
        self.written.append(resource.kind)
        return _stored(manifest, len(self.written))

    def apply_status(self, _namespace, _name, uid, status, _version):
        self.status = status
        meta = {"namespace": KEY[0], "name": KEY[1], "uid": uid, "generation": self.generation}
        return _stored({"metadata": meta, "status": status}, len(self.written))

    def create(self, _resource, event):
        self.events.append(event["reason"])
        return event

    def list(self, _resource, _namespace=None, *, field_selector="", **_selectors):
        name = field_selector.removeprefix("metadata.name=")
        return [one for one in self.unlabelled if one["metadata"]["name"] == name]

    def condition(self, kind):
        found = next(one for one in self.status["conditions"] if one["type"] == kind)
        return found["status"], found["reason"], found["message"]


def _stored(raw, writes: int):
    return raw | {"metadata": raw["metadata"] | {"resourceVersion": str(1000 + writes)}}


def reconciler(operator: Operator, server: ApiServer, turns: type[Turns] = Turns) -> Reconciler:
    """One that sees what the modelled cluster holds, and whose other sources know nothing yet."""
    views, world = Views(), operator.world
    views.put(rbac.ENDPOINTS, operator.raw)
    labels = {"serving.parkade.dev/endpoint": KEY[1]}
    children = [(rbac.PODS, one) for one in world.raw_pods()]
    if world.deployment is not None:
        children.append((rbac.DEPLOYMENTS, world.raw_deployment()))
    for resource, raw in children:
        meta = {
            "namespace": KEY[0],
            **raw["metadata"],
            "labels": raw["metadata"]["labels"] | labels,
        }
        views.put(resource, raw | {"metadata": meta})
    if operator.record_text is not None:
        held = record_store.manifest(operator.endpoint(), operator.record_text)
        views.put(rbac.CONFIGMAPS, held)
    nothing = SimpleNamespace(of=lambda *_: NOT_ASKED, memory_bytes=lambda _product: None)
    metrics = Metrics()
    return Reconciler(
        settings=OperatorSettings(),
        views=views,
        writer=Writer(server, views, metrics),
        evidence=SimpleNamespace(collect=lambda *_: {}),
        startups=SimpleNamespace(of=lambda *_: {}),
        workloads=nothing,
        models=nothing,
        targets=SimpleNamespace(of=lambda _endpoint: None),
        hardware=nothing,
        turns=turns(views, limit=1),
        metrics=metrics,
    )


def fresh() -> Operator:
    return Operator(World(), body({"tuning": {"initial": INITIAL}}))


def about_to_tune() -> Operator:
    """The next pass starts a candidate of tuning: new initial settings in mode RecommendOnly."""
    operator = started(replicas=2, gpus=3, tuning={"mode": "RecommendOnly", "cooldownSeconds": 0})
    operator.change(tuning={"initial": {"maxNumSeqs": 64, "gpuMemoryUtilization": "0.9"}})
    return operator


def test_the_record_is_written_before_the_children(now):
    server = ApiServer()
    reconciler(fresh(), server).reconcile(KEY, now)
    assert server.written == ["ConfigMap", "Deployment", "Service"]
    assert server.condition("Reconciling")[:2] == ("True", "RolloutInProgress")
    assert server.events[0] == "Deploying"


def test_a_turn_is_held_by_the_record_that_was_written():
    operator = about_to_tune()
    made = reconciler(operator, server := ApiServer())
    made.reconcile(KEY, operator.world.now)
    assert server.written[:2] == ["ConfigMap", "Deployment"]
    assert made.turns.elsewhere(("serving", "another")) == 1


class FailsAfterTaking(Turns):
    """A bug somewhere between the decision and the record."""

    def take(self, key):
        super().take(key)
        raise ValueError("a bug")


def test_a_pass_that_fails_keeps_no_turn():
    operator = about_to_tune()
    made = reconciler(operator, ApiServer(), FailsAfterTaking)
    with pytest.raises(ValueError, match="a bug"):
        made.reconcile(KEY, operator.world.now)
    assert made.turns.elsewhere(("serving", "another")) == 0


@pytest.mark.parametrize(
    ("kind", "written", "settings_applied"),
    [
        pytest.param("ConfigMap", [], "AccessDenied", id="the record: nothing happens without it"),
        pytest.param("Deployment", ["ConfigMap"], "RolloutInProgress", id="the Deployment"),
    ],
)
def test_a_write_that_is_forbidden_is_told(kind, written, settings_applied, now):
    server = ApiServer(forbidden=kind)
    with pytest.raises(ForbiddenError):
        reconciler(fresh(), server).reconcile(KEY, now)
    assert server.written == written
    status, reason, message = server.condition("Stalled")
    assert (status, reason) == ("True", "AccessDenied")
    assert f"{kind.lower()}s is forbidden" in message
    assert server.condition("SettingsApplied")[1] == settings_applied
    assert server.condition("Ready")[:2] == ("False", "AccessDenied")


@pytest.mark.parametrize(
    "why",
    [
        pytest.param("exceeded quota: q, requested: count/deployments.apps=1", id="a quota"),
        pytest.param('admission webhook "validation.gatekeeper.sh" denied it', id="a webhook"),
        pytest.param('violates PodSecurity "restricted:latest"', id="pod security"),
    ],
)
def test_what_admission_refuses_is_no_lack_of_rights(why, now):
    server = ApiServer(forbidden="Deployment", why=why)
    with pytest.raises(ForbiddenError):
        reconciler(fresh(), server).reconcile(KEY, now)
    assert server.condition("Stalled")[:2] == ("True", "QuotaExceeded")


def record_of(uid, text):
    """A ConfigMap under the record's name, without our label."""
    owners = [{"uid": uid, "controller": True}] if uid else []
    meta = {"namespace": KEY[0], "name": f"{KEY[1]}-parkade-record", "ownerReferences": owners}
    return {"kind": "ConfigMap", "metadata": meta, "data": {"record.json": text}}


@pytest.mark.parametrize(
    "uid",
    [
        pytest.param("", id="somebody's own"),
        pytest.param("another", id="another resource's"),
    ],
)
def test_a_config_map_of_somebody_else_is_never_written(uid, now):
    server = ApiServer(unlabelled=[record_of(uid, "theirs")])
    made = reconciler(fresh(), server)
    with pytest.raises(ConflictError, match="belongs to somebody else"):
        made.reconcile(KEY, now)
    assert server.written == []
    assert record_store.held(made.views, *KEY)["data"] == {"record.json": "theirs"}


def test_a_record_whose_label_was_taken_away_is_labelled_and_read_before_it_is_written(now):
    kept = to_json(Record("uid-1", withdrawals=3))
    server = ApiServer(unlabelled=[record_of("uid-1", kept)])
    made = reconciler(fresh(), server)
    with pytest.raises(ConflictError, match="lacked its label"):
        made.reconcile(KEY, now)
    assert server.written == ["ConfigMap"]
    held = record_store.held(made.views, *KEY)
    assert held["metadata"]["labels"]["serving.parkade.dev/endpoint"] == KEY[1]
    assert record_store.read(held, "uid-1").withdrawals == 3


@pytest.mark.parametrize(
    ("generation", "taken_in"),
    [
        pytest.param(1, True, id="nobody edited it"),
        pytest.param(2, False, id="edited meanwhile: the watch wakes it with that"),
    ],
)
def test_what_stands_after_a_status_is_taken_in_unless_it_was_edited(generation, taken_in, now):
    server = ApiServer(generation=generation)
    made = reconciler(fresh(), server)
    made.reconcile(KEY, now)
    held = made.views.endpoint(KEY)
    assert ("conditions" in held["status"]) == taken_in


def spoiled(status):
    """An endpoint whose spec can't be read any more, and the status that it had."""
    operator = fresh()
    operator.raw["spec"]["replicas"] = "many"
    condition = {"type": "Ready", "status": status, "reason": "Serving", "message": "1 of 1"}
    operator.raw["status"] = {"conditions": [condition], "readyReplicas": 1}
    return operator


@pytest.mark.parametrize(
    ("before", "ready"),
    [
        pytest.param("True", ("True", "Serving"), id="it served, and serves on"),
        pytest.param("False", ("False", "InvalidSpec"), id="it did not"),
    ],
)
def test_a_spec_that_can_not_be_read_takes_nothing_away(before, ready, now):
    server = ApiServer()
    reconciler(spoiled(before), server).reconcile(KEY, now)
    assert server.written == []
    assert server.condition("Stalled")[:2] == ("True", "InvalidSpec")
    assert server.condition("Ready")[:2] == ready


def test_what_was_not_recorded_is_neither_in_the_history_nor_announced(now):
    server = ApiServer(forbidden="ConfigMap")
    with pytest.raises(ForbiddenError):
        reconciler(fresh(), server).reconcile(KEY, now)
    assert not server.status.get("history")
    assert "Deploying" not in server.events
    assert "AccessDenied" in server.events
