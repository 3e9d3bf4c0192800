"""One pass over one endpoint: observe, judge, size, plan one action, roll out, record why.

Level-triggered: nothing here depends on which event came. Everything is read once into a frozen
observation, pure functions decide, and what differs from the cluster is written: the record before
the act that depends on it, the status last.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from parkade.adapters.errors import AdapterError, ForbiddenError, InvalidError
from parkade.adapters.traffic import Traffic
from parkade.api.conditions import ConditionStatus, Reason
from parkade.api.endpoint import InvalidEndpoint, parse_endpoint
from parkade.controller import learn, ledger
from parkade.controller.apply import Writer
from parkade.controller.evidence import EvidenceKeeper
from parkade.controller.hardware import Hardware
from parkade.controller.invalid import invalid_status
from parkade.controller.metrics import Metrics
from parkade.controller.models import Models
from parkade.controller.observe import Observation, observe
from parkade.controller.settings import OperatorSettings
from parkade.controller.size import Sized, size, unsized
from parkade.controller.targets import Targets
from parkade.controller.turns import Turns, is_tuning
from parkade.controller.unasked import as_told_before
from parkade.controller.views import EndpointKey, Views
from parkade.controller.workloads import Workloads
from parkade.rollout.actions import Action, Finding, Fleet, Plan, PlanInputs
from parkade.rollout.events import events
from parkade.rollout.observed import Evidence
from parkade.rollout.plan import plan
from parkade.rollout.status import build_status
from parkade.sizing.result import NotSizable
from parkade.sizing.workload import CannotTell

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Everything that a pass uses. One pass of an endpoint runs at a time."""

    settings: OperatorSettings
    views: Views
    writer: Writer
    evidence: EvidenceKeeper
    startups: learn.StartupReader
    workloads: Workloads
    models: Models
    targets: Targets
    hardware: Hardware
    turns: Turns
    metrics: Metrics

    def reconcile(self, key: EndpointKey, now: datetime) -> float | None:
        """Do one pass; return after how many seconds the endpoint wants to be looked at again.

        None: there is nothing to look at. Raises AdapterError where the cluster did not take a
        write; the queue comes back.
        """
        raw = self.views.endpoint(key)
        endpoint = None if raw is None else parse_endpoint(raw)
        if isinstance(endpoint, InvalidEndpoint):
            self._refuse(endpoint, raw or {}, now)
            return None
        if endpoint is None or endpoint.deleting:
            return None
        seen = observe(self.views, endpoint, now)
        judged = self._judge(seen)
        sized = self._size(judged.seen)
        self.metrics.numbers.note(key, sized.status)
        try:
            inputs, decided = self._plan(judged, sized)
            decided = ledger.flushed(judged.seen, decided, sized.ledger)
            self._roll_out(judged.seen, decided, inputs, sized)
        finally:
            self.turns.settle(key)  # the record holds the turn from here on, or nothing does
        return self._next_look(decided)

    def _next_look(self, decided: Plan) -> float:
        """Return the next time: traffic changes without an event, so it is looked at regularly."""
        asked = decided.requeue_after_seconds
        every = self.settings.evaluation_seconds
        return every if asked is None else min(asked, every)

    def _judge(self, seen: Observation) -> _Judged:
        """Read what crashed and what started, while it can be read."""
        pods = [pod for pod in seen.pods if pod.revision is not None]
        found = self.evidence.collect(seen.endpoint.namespace, pods, seen.record)
        target = seen.record.target
        ours = [pod for pod in pods if target is not None and pod.revision == target.hash]
        reports = self.startups.of(seen.endpoint.namespace, ours)
        record = learn.learn(seen.record, ours, reports)
        return _Judged(replace(seen, record=record), found, learn.smallest_pool(ours, reports))

    def _size(self, seen: Observation) -> Sized:
        """Return what should run; a bug in sizing never holds up a revert."""
        spec = seen.endpoint.spec
        target = None
        if spec.target_ref is not None:
            target = (seen.endpoint.namespace, spec.target_ref.name)
        window = spec.workload.window_seconds
        traffic = self.workloads.of(spec.workload.prometheus_ref.name, window, target)
        try:
            return self._sized(seen, traffic)
        except AdapterError as error:
            return unsized(seen, CannotTell(Reason.MODEL_UNAVAILABLE, str(error)), traffic)
        except Exception:
            logger.exception("Sizing %s/%s failed", *seen.key)
            message = "Sizing failed; the operator's log has the details."
            return unsized(seen, CannotTell(Reason.INSUFFICIENT_EVIDENCE, message), traffic)

    def _sized(self, seen: Observation, traffic: Traffic | CannotTell) -> Sized:
        running = self.targets.of(seen.endpoint)
        if isinstance(running, NotSizable):
            return unsized(seen, running, traffic)
        model = self.models.of(seen.endpoint)
        memory = self.hardware.memory_bytes(seen.endpoint.spec.accelerator.product)
        return size(replace(seen, running=running), traffic, model, memory)

    def _plan(self, judged: _Judged, sized: Sized) -> tuple[PlanInputs, Plan]:
        """Decide the one action, with a turn reserved where tuning starts to touch pods."""
        seen = judged.seen
        inputs = PlanInputs(
            endpoint=seen.endpoint,
            record=seen.record,
            desired=sized.desired,
            now=seen.now,
            deployment=seen.deployment,
            replica_sets=seen.replica_sets,
            pods=seen.pods,
            evidence=judged.evidence,
            foreign=seen.foreign,
            fleet=self._fleet(seen),
            measured_kv_tokens=judged.measured_kv_tokens,
        )
        decided = plan(inputs)
        starts = is_tuning(decided.record) and not is_tuning(seen.record)
        if starts and not self.turns.take(seen.key):
            inputs = replace(inputs, fleet=self._fleet(seen))
            decided = plan(inputs)
        return inputs, decided

    def _fleet(self, seen: Observation) -> Fleet:
        return Fleet(
            rollouts_elsewhere=self.turns.elsewhere(seen.key),
            max_concurrent_rollouts=self.settings.max_concurrent_rollouts,
            budgets=seen.budgets,
        )

    def _roll_out(self, seen: Observation, decided: Plan, inputs: PlanInputs, sized: Sized) -> None:
        """Write record, children, status and events, in this order."""
        done, refused = self._do(seen, decided)
        self._report(seen, done, inputs, sized)
        if refused is not None:
            raise refused

    def _do(self, seen: Observation, decided: Plan) -> tuple[Plan, AdapterError | None]:
        """Write record and children; return what became of the plan, and a refusal."""
        if not decided.hands_off:
            try:
                self.writer.record(seen, decided.record)
            except (ForbiddenError, InvalidError) as error:
                return _not_begun(decided, seen, error), error
        self._tell(seen, decided)
        try:
            self.writer.children(seen, decided)
        except (ForbiddenError, InvalidError) as error:
            return replace(decided, stalled=_stalled_by(error), reconciling=None), error
        return decided, None

    def _report(self, seen: Observation, decided: Plan, inputs: PlanInputs, sized: Sized) -> None:
        decided, sized = as_told_before(seen.endpoint, decided, sized)
        old = seen.endpoint.status
        new = build_status(
            inputs,
            decided,
            sized.status,
            sized.workload_observed,
            sized.objectives_met,
            seen.now,
        )
        self.writer.status(seen.endpoint, old, new)
        self.writer.events(seen.endpoint, events(decided, old, new), seen.now)

    def _tell(self, seen: Observation, decided: Plan) -> None:
        if decided.action is Action.HOLD:
            return
        self.metrics.actions.labels(decided.action.value, decided.reason.value).inc()
        logger.info("%s/%s: %s (%s): %s", *seen.key, *_words(decided))

    def _refuse(self, endpoint: InvalidEndpoint, raw: Mapping[str, Any], now: datetime) -> None:
        old = raw.get("status") or {}
        self.writer.status(endpoint, old, invalid_status(endpoint, old, now))


_NOT_ADMITTED = ("exceeded quota", "admission webhook", "violates PodSecurity")
"""Words of kube-apiserver's admission (1.37: ResourceQuota, webhooks, PodSecurity)."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """An observation with what the logs say."""

    seen: Observation
    evidence: Evidence
    measured_kv_tokens: int | None


def _words(decided: Plan) -> tuple[str, str, str]:
    return decided.action.value, decided.reason.value, decided.message


def _not_begun(decided: Plan, seen: Observation, error: AdapterError) -> Plan:
    """Return the plan that is left without its record: nothing, and why."""
    why = _stalled_by(error)
    return replace(
        decided,
        action=Action.HOLD,
        reason=why.reason,
        message=why.message,
        record=seen.record,
        target=None,
        settings_applied=replace(why, status=ConditionStatus.FALSE),
        stalled=why,
        reconciling=None,
    )


def _stalled_by(error: AdapterError) -> Finding:
    """Return what a refusal means; quotas and admission answer 403 as well as missing rights."""
    if isinstance(error, ForbiddenError) and any(words in f"{error}" for words in _NOT_ADMITTED):
        return Finding(ConditionStatus.TRUE, Reason.QUOTA_EXCEEDED, f"{error}")
    if isinstance(error, ForbiddenError):
        return Finding(ConditionStatus.TRUE, Reason.ACCESS_DENIED, f"{error}")
    return Finding(ConditionStatus.TRUE, Reason.INVALID_SPEC, f"{error}")
