"""One random life of an endpoint: faults and changes, with the promises checked at every pass.

Everything follows from the seed, so a failing history is played again by its number.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from parkade.api.conditions import REASONS, ConditionStatus, ConditionType, Reason
from parkade.api.endpoint import Endpoint
from parkade.api.settings import Settings
from parkade.api.status import Origin
from parkade.rollout.actions import Action, Desired, Fleet, Plan, PlanInputs
from parkade.rollout.causes import Blame, CauseClass, Knob, RootCause, Stage
from parkade.rollout.observed import DisruptionBudget
from parkade.rollout.plan import plan
from parkade.rollout.record import Phase, Record
from parkade.rollout.render import render_revision
from parkade.rollout.revision import tuning_hash
from rollout.support.driver import NO_OBJECTIVES, OBSERVED, Operator, build_status
from rollout.support.objects import GIB, TOTAL, body
from rollout.support.world import Fate, World

GOOD_IMAGES = ("vllm/vllm-openai:v0.32.0", "vllm/vllm-openai:v0.33.0")
BAD_IMAGE = "vllm/vllm-openai:v0.34.0"
ODD_IMAGE = "vllm/vllm-openai:v0.35.0"

OUT_OF_MEMORY = "CUDA out of memory while capturing graphs"


@dataclass
class Truth:
    """What engines really do; the operator does not know it."""

    max_utilization: float = 0.97
    max_seqs: int = 1024
    load_seconds: float = 20.0
    stuck: bool = False
    soak_crash_seconds: float | None = None
    unknown: bool = False

    def fate(self, settings: Settings, image: str) -> Fate:
        if self.stuck:
            return Fate(stuck=True)
        if image == BAD_IMAGE:
            return Fate(5, RootCause(CauseClass.BAD_ARGUMENTS, Blame.USER, message="no such flag"))
        if image == ODD_IMAGE or self.unknown:
            return Fate(5, unknown_crash=True)
        over = float(settings.gpu_memory_utilization) - self.max_utilization
        if over > 0:
            short = int(over * TOTAL)
            cause = RootCause(
                CauseClass.OOM_CUDAGRAPH_CAPTURE,
                Blame.SETTINGS,
                Stage.GRAPHS,
                Knob.HEADROOM,
                OUT_OF_MEMORY,
                short,
            )
            return Fate(10, cause)
        if settings.max_num_seqs > self.max_seqs:
            cause = RootCause(
                CauseClass.OOM_SAMPLER_WARMUP,
                Blame.SETTINGS,
                Stage.WARMUP,
                Knob.MAX_NUM_SEQS,
                "out of memory when warming up the sampler",
            )
            return Fate(10, cause)
        return Fate(self.load_seconds, crash_after_seconds=self.soak_crash_seconds)


class ViolatedError(AssertionError):
    """A promise was broken; the message names the seed and what happened before."""


@dataclass
class History:
    seed: int
    events: int = 12
    script: tuple[str, ...] = ()
    """Names of events to play instead of random ones."""
    log: list[str] = field(default_factory=list)
    disturbed: bool = False
    """A fault hit running pods since the candidate started: its effects are not tuning's."""
    retried: bool = False
    last_change: datetime | None = None
    lost: str = ""
    wish: int = 64
    deploys: int = 0
    blind: bool = False
    """Sizing cannot tell."""
    fingerprints: dict[int, str] = field(default_factory=dict)
    checked: Any = None
    """The status that was looked at last."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.truth = Truth()
        self.world = World(gpus=self.rng.choice([1, 2, 3, 4]))
        self.world.fate = self.truth.fate
        self.operator = Operator(self.world, body(self._first_spec()), size=self._size)
        self.world.watchers.append(self._watch)
        self.previous_ready = 0

    # Playing.

    def play(self) -> None:
        """Live through random events, then in peace, and end well."""
        self._pass()
        named = dict(EVENTS)
        chosen = [(name, named[name]) for name in self.script]
        for name, event in chosen or self.rng.choices(EVENTS, k=self.events):
            self.log.append(f"{self.world.now:%H:%M:%S} {name}")
            event(self)
            self._live(self.rng.choice([2, 4, 8, 16]), self.rng.choice([5, 15, 60]))
        self._peace()

    def _live(self, passes: int, seconds: float) -> None:
        for _ in range(passes):
            self.world.run(seconds, seconds if seconds > 15 else 5)
            self._pass()

    def _peace(self) -> None:
        """Faults end. Within hours the endpoint settles, and then nothing is written any more."""
        world, operator = self.world, self.operator
        world.gpus, world.taken, world.pullable, world.quota = 8, 0, True, None
        operator.fleet = Fleet()
        self.truth.stuck = self.truth.unknown = False
        self.truth.soak_crash_seconds = None
        # A start that outlasts the deadline is a fault: it is tried again, ever more seldom.
        self.truth.load_seconds = min(self.truth.load_seconds, 200.0)
        operator.change(suspend=False, tuning={"maintenanceWindows": [], "cooldownSeconds": 120})
        self.log.append(f"{world.now:%H:%M:%S} peace")
        for _ in range(3):  # noise at the edge of a hysteresis may still move a knob once
            self._settle()
            if not self._is_written_to():
                break
        else:
            raise self._violated("a steady endpoint is written to")
        self._check_end()

    def _settle(self) -> None:
        for round_ in range(150):
            self.world.run(120, 40)
            self._pass()
            if round_ > 12 and self._is_quiet(8):
                return
        raise self._violated("never settles")

    def _is_written_to(self) -> bool:
        writes = self.operator.writes
        self._live(4, 60)
        return self.operator.writes != writes

    def _is_quiet(self, passes: int) -> bool:
        recent = self.operator.plans[-passes:]
        record = recent[-1].record
        return all(one.action is Action.HOLD and one.record == record for one in recent)

    def _check_end(self) -> None:
        operator = self.operator
        last = operator.plans[-1]
        if last.stalled is not None:
            return
        record = last.record
        if record.candidate is not None:
            if operator.endpoint().spec.replicas == 0:
                return
            raise self._violated("ends with a candidate in flight")
        good = record.last_good
        wanted = operator.endpoint().spec.replicas
        ready = [pod for pod in self.world.pods if pod.is_ready]
        if good is None or len(ready) != wanted:
            raise self._violated(f"ends with {len(ready)} of {wanted} pods ready")
        if any(pod.owner.revision != good.hash for pod in ready):
            raise self._violated("ends with pods that are not the last good ones")

    # One pass, with its promises.

    def _pass(self, stop_after: str = "") -> Plan:
        before = self.operator.inputs()
        found = self.operator.step(before, stop_after=stop_after)
        self.log.append(
            f"{self.world.now:%H:%M:%S}   {found.action.value} {found.reason.value}: "
            f"{found.message[:150]}"
        )
        self._check_plan(before.record, found)
        if self.rng.random() < 0.1:
            blind = replace(before, endpoint=replace(before.endpoint, status={}))
            if not self.lost and plan(blind) != found:
                raise self._violated("a lost status changes the decision")
        self._check_promptness(before, found)
        if not stop_after and self.operator.raw["status"] is not self.checked:
            self.checked = self.operator.raw["status"]
            self._check_status(found)
        if not stop_after:
            self.lost = ""
        return found

    def _check_plan(self, before: Record, found: Plan) -> None:
        record, candidate = found.record, found.record.candidate
        if set(record.handled_retries) - set(before.handled_retries):
            self.retried = True
        running = record.target
        if running is not None and record.is_quarantined(running.quarantine_key):
            raise self._violated("settings in quarantine are to run")
        if found.action is not Action.HOLD:
            self._check_action(before, found)
            self.last_change = self.world.now
        if candidate is not None and candidate.origin is Origin.TUNING:
            good = record.last_good
            if good is None or _knobs(good.settings, candidate.revision.settings) != 1:
                raise self._violated("tuning changes not exactly one knob")

    def _check_promptness(self, before: PlanInputs, found: Plan) -> None:
        """A revert begins in the pass that sees the deciding termination; suspension is kept."""
        spec, candidate = before.endpoint.spec, before.record.candidate
        if spec.suspend and found.target is not None and found.action is Action.HOLD:
            deployment = before.deployment
            if deployment is None or deployment.revision == found.target.revision.hash:
                raise self._violated("children are written while suspended")
        if candidate is None or spec.suspend:
            return
        for pod in before.pods:
            cause = before.evidence.get((pod.uid, pod.terminations))
            early = pod.revision == candidate.revision.hash and not pod.was_ready
            blamed = cause is not None and cause.blame is Blame.SETTINGS
            end = pod.last_termination
            if end is None or end.finished_at is None or end.finished_at < candidate.since:
                continue
            if early and blamed and pod.uid not in candidate.ready_uids and not pod.deleting:
                after = found.record.candidate
                if after is not None and after.revision == candidate.revision:
                    raise self._violated("a deciding termination is not acted on")

    def _check_action(self, before: Record, found: Plan) -> None:
        candidate = found.record.candidate
        tuning = candidate is not None and candidate.origin is Origin.TUNING
        spec = self.operator.endpoint().spec
        blocked = any(one.disruptions_allowed < 1 for one in self.operator.fleet.budgets)
        if tuning and blocked and found.action in {Action.DEPLOY, Action.WIDEN}:
            raise self._violated("tuning against a PodDisruptionBudget")
        new = before.candidate is None or (
            candidate is not None and candidate.since != before.candidate.since
        )
        if found.action is not Action.DEPLOY or not tuning or not new:
            return
        self.deploys += 1
        self.disturbed = self.truth.soak_crash_seconds is not None
        cooldown = timedelta(seconds=spec.tuning.cooldown_seconds)
        if self.last_change and self.world.now - self.last_change < cooldown and not self.retried:
            raise self._violated("tuning within the cooldown")
        self.retried = False
        if self.operator.fleet.rollouts_elsewhere >= 1:
            raise self._violated("more rollouts than allowed")
        if spec.tuning.maintenance_windows and not _window_is_open(self.world.now):
            raise self._violated("tuning outside its windows")

    def _check_status(self, found: Plan) -> None:
        status = self.operator.raw["status"]
        conditions = {one["type"]: one for one in status["conditions"]}
        if set(conditions) != {kind.value for kind in ConditionType}:
            raise self._violated("a condition is missing")
        for one in conditions.values():
            allowed = REASONS[ConditionType(one["type"])][ConditionStatus(one["status"])]
            if one["reason"] not in {each.value for each in allowed}:
                raise self._violated(f"{one['type']}={one['status']} with {one['reason']}")
        if conditions["Stalled"]["status"] == conditions["Reconciling"]["status"] == "True":
            raise self._violated("Stalled and Reconciling together")
        if self.rng.random() < 0.1:
            inputs = self.operator.inputs()
            again = build_status(inputs, found, {}, OBSERVED, NO_OBJECTIVES, self.world.now)
            if again != build_status(
                replace(inputs, endpoint=replace(inputs.endpoint, status=again)),
                found,
                {},
                OBSERVED,
                NO_OBJECTIVES,
                self.world.now + timedelta(seconds=5),
            ):
                raise self._violated("the status of a status differs")

    def _watch(self) -> None:
        """Between passes: tuning leaves a ready pod, and a canary stays one pod."""
        plans = self.operator.plans
        ready = sum(1 for pod in self.world.pods if pod.is_ready)
        before, self.previous_ready = self.previous_ready, ready
        if not plans or self.world.deployment is None:
            return
        candidate = plans[-1].record.candidate
        if candidate is None or plans[-1].record.last_good is None:
            return
        own = [
            pod
            for pod in self.world.pods
            if pod.owner.revision == candidate.revision.hash and pod.deleted is None
        ]
        if candidate.phase is Phase.CANARY and len(own) > 1 and not self.disturbed:
            raise self._violated("a canary of more than one pod")
        if candidate.origin is not Origin.TUNING or ready or not before or self.disturbed:
            return
        if self.operator.endpoint().spec.replicas == 0:
            return
        interruption = self.operator.endpoint().spec.tuning.interruption
        if interruption.value == "Allowed":
            return
        windows = self.operator.endpoint().spec.tuning.maintenance_windows
        if interruption.value == "InWindows" and windows:
            return
        raise self._violated("tuning leaves no pod ready")

    def _violated(self, what: str) -> ViolatedError:
        log = "\n".join(self.log[-60:])
        return ViolatedError(f"seed {self.seed}: {what}\n{log}")

    # The world's side.

    def _first_spec(self) -> dict[str, Any]:
        rng = self.rng
        spec: dict[str, Any] = {
            "replicas": rng.choice([0, 1, 1, 1, 2, 2, 2, 3]),
            "tuning": {
                "cooldownSeconds": rng.choice([0, 120, 600]),
                "interruption": rng.choice(["Never", "InWindows", "Allowed"]),
                "mode": rng.choice(["Auto", "Auto", "Auto", "RecommendOnly"]),
                "headroom": rng.choice(["6Gi", "2Gi"]),
            },
            "rollout": {
                "strategy": rng.choice(["Auto", "Auto", "Surge", "NoSurge"]),
                "startDeadlineSeconds": 300,
                "soakSeconds": rng.choice([0, 60]),
                "maxRestarts": rng.choice([0, 1]),
            },
        }
        if rng.random() < 0.3:
            spec["tuning"]["maintenanceWindows"] = [WINDOW]
        if rng.random() < 0.5:
            initial = {"maxNumSeqs": 256, "gpuMemoryUtilization": rng.choice(["0.9", "0.98"])}
            spec["tuning"]["initial"] = initial
        return spec

    def _size(self, endpoint: Endpoint, record: Record, _operator: Operator) -> Desired:
        """Noisy sizing with hysteresis, as sizing's own: N by 10 %, the fraction by 0.5 GiB."""
        good = record.last_good
        tuning = tuning_hash(endpoint.spec)
        some = good.settings if good is not None else Settings(256, Decimal("0.9"))
        fingerprint = self._fingerprint(endpoint, some)
        headroom = record.effective_headroom(
            fingerprint, tuning, endpoint.spec.tuning.headroom_bytes
        )
        free = 176 * GIB + self.rng.uniform(-0.1, 0.1) * GIB
        utilization = Decimal(int((free - headroom) / TOTAL * 10_000)) / 10_000
        noisy = max(1, round(self.wish * self.rng.uniform(0.97, 1.03)))
        cap = record.max_num_seqs_cap(fingerprint, tuning)
        noisy = noisy if cap is None else min(noisy, cap)
        seqs, initial = noisy, endpoint.spec.tuning.initial
        if good is not None:
            held = good.settings
            if abs(noisy - held.max_num_seqs) <= 0.1 * held.max_num_seqs:
                seqs = held.max_num_seqs
            left = free - float(held.gpu_memory_utilization) * TOTAL
            if headroom - 0.5 * GIB <= left <= headroom + 3 * GIB:
                utilization = held.gpu_memory_utilization
        first = Settings(good.settings.max_num_seqs if good is not None else 256, utilization)
        if good is None and initial is not None:
            first = initial.settings
        settings = None if self.blind else Settings(seqs, utilization)
        reason = Reason.APPLIED if settings is not None else Reason.INSUFFICIENT_EVIDENCE
        return Desired(settings, reason, "", first, total_bytes=TOTAL, headroom_bytes=headroom)

    def _fingerprint(self, endpoint: Endpoint, some: Settings) -> str:
        if endpoint.generation not in self.fingerprints:
            made = render_revision(endpoint, some).fingerprint
            self.fingerprints[endpoint.generation] = made
        return self.fingerprints[endpoint.generation]


WINDOW = {"schedule": "0 */2 * * *", "durationSeconds": 3600}


def _window_is_open(now: datetime) -> bool:
    return now.hour % 2 == 0


def _knobs(one: Settings, other: Settings) -> int:
    return (one.max_num_seqs != other.max_num_seqs) + (
        one.gpu_memory_utilization != other.gpu_memory_utilization
    )


Event = Callable[[History], None]


def _time_passes(now: History) -> None:
    now._live(6, 60)


def _other_wish(now: History) -> None:
    now.wish = now.rng.choice([8, 16, 32, 64, 128, 512])


def _cannot_tell(now: History) -> None:
    now.blind = not now.blind


def _headroom(now: History) -> None:
    now.operator.change(tuning={"headroom": now.rng.choice(["256Mi", "2Gi", "6Gi", "20Gi"])})


def _image(now: History) -> None:
    image = now.rng.choice([*GOOD_IMAGES, *GOOD_IMAGES, BAD_IMAGE, ODD_IMAGE])
    now.operator.change(engine={"image": image})


def _scale(now: History) -> None:
    now.operator.change(replicas=now.rng.choice([0, 1, 1, 2, 2, 3, 3]))


def _mode(now: History) -> None:
    now.operator.change(tuning={"mode": now.rng.choice(["Auto", "RecommendOnly"])})


def _suspend(now: History) -> None:
    now.operator.change(suspend=now.rng.random() < 0.3)


def _initial(now: History) -> None:
    seqs = now.rng.choice([16, 128, 256])
    initial = {"maxNumSeqs": seqs, "gpuMemoryUtilization": now.rng.choice(["0.85", "0.99"])}
    now.operator.change(tuning={"initial": initial})


def _less_memory(now: History) -> None:
    now.truth.max_utilization = now.rng.choice([0.93, 0.955, 0.97])


def _fewer_seqs(now: History) -> None:
    now.truth.max_seqs = now.rng.choice([48, 256, 1024])


def _slow(now: History) -> None:
    now.truth.load_seconds = now.rng.choice([5, 60, 200, 400])


def _stuck(now: History) -> None:
    now.truth.stuck = not now.truth.stuck


def _soak_crash(now: History) -> None:
    now.disturbed = True
    now.truth.soak_crash_seconds = now.rng.choice([None, 20.0, 90.0])


def _unknown(now: History) -> None:
    now.truth.unknown = not now.truth.unknown


def _lose_pod(now: History) -> None:
    if now.world.pods:
        now.disturbed = True
        reason = now.rng.choice(["EvictionByEvictionAPI", "DeletionByTaintManager"])
        now.world.lose_pod(now.rng.choice(now.world.pods), reason)


def _lose_node(now: History) -> None:
    now.disturbed = True
    for pod in now.world.pods:
        now.world.lose_pod(pod, "DeletionByTaintManager")


def _crash_one(now: History) -> None:
    if now.world.pods:
        now.disturbed = True
        now.world.crash(now.rng.choice(now.world.pods), None)


def _pull(now: History) -> None:
    now.world.pullable = not now.world.pullable


def _quota(now: History) -> None:
    """None, one that leaves what runs, or one that was lowered below it."""
    here = len(now.world.pods)
    now.world.quota = now.rng.choice([None, here, max(0, here - 1)])


def _budget(now: History) -> None:
    allowed = now.rng.choice([0, 1])
    budgets = (DisruptionBudget("pdb", allowed),) if now.rng.random() < 0.7 else ()
    now.operator.fleet = replace(now.operator.fleet, budgets=budgets)


def _turn(now: History) -> None:
    elsewhere = now.rng.choice([0, 1])
    now.operator.fleet = replace(now.operator.fleet, rollouts_elsewhere=elsewhere)


def _gpu_taken(now: History) -> None:
    now.disturbed = True
    now.world.taken = now.rng.choice([0, 1, 2])


def _crash_after_record(now: History) -> None:
    now._pass("record")


def _crash_after_children(now: History) -> None:
    now._pass("children")


def _lose_status(now: History) -> None:
    now.lost = "status"
    now.operator.raw["status"] = {"observedGeneration": -1}
    now._pass()


def _lose_record(now: History) -> None:
    now.operator.record_text = None
    now.lost = "record"
    now.retried = True  # the times of cooldowns are only known to the second
    now._pass()


def _delete_deployment(now: History) -> None:
    now.disturbed = True
    now.world.delete_deployment()


def _retry(now: History) -> None:
    rejected = now.operator.raw["status"].get("rejected") or []
    if rejected:
        now.operator.retry(f"{now.rng.choice(rejected)['hash']} try {now.rng.random():.6f}")


def _edit(now: History) -> None:
    """Somebody edits the Deployment by hand."""
    deployment = now.world.deployment
    if deployment is not None and not now.operator.endpoint().spec.suspend:
        now.world.edit(minReadySeconds=7)
        now._pass()


EVENTS: list[tuple[str, Event]] = [
    (one.__name__.strip("_"), one)
    for one in (
        _time_passes,
        _time_passes,
        _time_passes,
        _other_wish,
        _other_wish,
        _cannot_tell,
        _headroom,
        _headroom,
        _image,
        _scale,
        _scale,
        _mode,
        _suspend,
        _initial,
        _less_memory,
        _fewer_seqs,
        _slow,
        _stuck,
        _soak_crash,
        _unknown,
        _lose_pod,
        _lose_node,
        _crash_one,
        _pull,
        _quota,
        _budget,
        _turn,
        _gpu_taken,
        _crash_after_record,
        _crash_after_children,
        _lose_status,
        _lose_record,
        _delete_deployment,
        _retry,
        _edit,
    )
]
