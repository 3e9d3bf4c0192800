"""One random life of an endpoint: faults and changes, with the promises checked at every pass.

Everything follows from the seed, so a failing history is played again by its number.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from parkade.api.conditions import REASONS, ConditionStatus, ConditionType, Reason
from parkade.api.endpoint import Endpoint
from parkade.api.settings import Settings
from parkade.rollout.actions import Action, Desired, Fleet, Plan, PlanInputs
from parkade.rollout.plan import plan
from parkade.rollout.record import Record
from parkade.rollout.render import render_revision
from parkade.rollout.revision import sizing_hash, tuning_hash
from rollout.support import endings
from rollout.support.driver import NO_OBJECTIVES, OBSERVED, Operator, build_status
from rollout.support.happenings import EVENTS
from rollout.support.objects import GIB, TOTAL, body
from rollout.support.promises import Promises
from rollout.support.truth import WINDOW, Truth
from rollout.support.verdicts import BrokenError
from rollout.support.world import World

MAX_ACTS_OF_PEOPLE = 4


class ViolatedError(AssertionError):
    """A promise was broken; the message names the seed and what happened before."""


@dataclass
class History:
    seed: int
    events: int = 12
    script: tuple[str, ...] = ()
    """Names of events to play instead of random ones."""
    log: list[str] = field(default_factory=list)
    lost: bool = False
    """Status or record, and not yet written again."""
    wish: int = 64
    blind: bool = False
    """Sizing cannot tell."""
    fingerprints: dict[int, str] = field(default_factory=dict)
    checked: Any = None
    """The status that was looked at last."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.truth = Truth()
        self.world = World(gpus=self.rng.choice([1, 2, 3, 4]))
        self.world.now += timedelta(minutes=self.rng.randrange(48 * 60))
        self.world.fate = self.truth.fate
        self.operator = Operator(self.world, body(self._first_spec()), size=self._size)
        self.promises = Promises(self.world, self.operator)
        self.world.watchers.append(self._watch)

    # Playing.

    def play(self) -> None:
        """Live through random events, then in peace, and end well."""
        self.look()
        named = dict(EVENTS)
        chosen = [(name, named[name]) for name in self.script]
        for name, event in chosen or self.rng.choices(EVENTS, k=self.events):
            self.log.append(f"{self.world.now:%H:%M:%S} {name}")
            event(self)
            self.live(self.rng.choice([2, 4, 8, 16]), self.rng.choice([5, 15, 60]))
        self._peace()

    def live(self, passes: int, seconds: float) -> None:
        """Let time pass with a pass every so many seconds."""
        for _ in range(passes):
            self.world.run(seconds, min(60.0, seconds) if seconds > 15 else 5)
            self.look()

    def _peace(self) -> None:
        """Faults end. Within hours the endpoint settles, and then nothing is written any more."""
        world, operator, truth = self.world, self.operator, self.truth
        replicas = operator.endpoint().spec.replicas
        world.gpus, world.taken = self.rng.choice([8, max(1, replicas)]), 0
        world.pullable, world.quota, world.readable = True, None, True
        operator.fleet = Fleet()
        truth.stuck = truth.unknown = truth.sick = False
        truth.soak_crash_seconds = None
        # A start that outlasts the deadline is a fault: it is tried again, ever more seldom.
        truth.load_seconds = min(truth.load_seconds, 200.0)
        operator.change(suspend=False, tuning={"maintenanceWindows": [], "cooldownSeconds": 120})
        self.log.append(f"{world.now:%H:%M:%S} peace")
        self._come_to_rest()
        for _ in range(MAX_ACTS_OF_PEOPLE):
            key = endings.retry_that_is_asked_for(operator)
            if key is None:
                break
            self.log.append(f"{world.now:%H:%M:%S} a person asks for {key}")
            operator.retry(f"{key} in peace {world.now}")
            self._come_to_rest()
        self._holds_its_word()
        try:
            endings.check(world, operator, truth, None if self.blind else self.wish)
        except BrokenError as error:
            raise self._violated(str(error)) from None

    def _come_to_rest(self) -> None:
        for _ in range(3):  # noise at the edge of a hysteresis may still move a knob once
            self._settle()
            if not self._is_written_to():
                return
        raise self._violated("a steady endpoint is written to")

    def _settle(self) -> None:
        for round_ in range(150):
            self.world.run(120, 40)
            found = self.look()
            waits = found.reason is Reason.COOLING_DOWN and not found.record.withdrawals
            if round_ > 12 and not waits and self._is_quiet(8):
                return
        raise self._violated("never settles")

    def _holds_its_word(self) -> None:
        """Noise that is another in each hour makes no condition go to and fro."""
        told = [self.operator.condition("SettingsApplied")[:2]]
        for _ in range(10):
            record = self.look().record
            if record.withdrawals:
                return  # tried again, ever more seldom
            if record.candidate is not None:
                self._settle()
            self.world.run(3600, 1200)
            self.look()
            condition = self.operator.condition("SettingsApplied")[:2]
            if condition not in (told[-1], ("False", "CandidateInProgress")):
                told.append(condition)
        if len(told) > 2:
            raise self._violated(f"SettingsApplied goes to and fro: {told}")

    def _is_written_to(self) -> bool:
        writes = self.operator.writes
        self.live(4, 60)
        return self.operator.writes != writes

    def _is_quiet(self, passes: int) -> bool:
        recent = self.operator.plans[-passes:]
        record = recent[-1].record
        return all(one.action is Action.HOLD and one.record == record for one in recent)

    # One pass, with its promises.

    def look(self, stop_after: str = "") -> Plan:
        """Do one pass; `stop_after` is a crash between two of its writes."""
        before = self.operator.inputs()
        found = self.operator.step(before, stop_after=stop_after)
        self.log.append(
            f"{self.world.now:%H:%M:%S}   {found.action.value} {found.reason.value}: "
            f"{found.message[:150]}"
        )
        try:
            self.promises.check(before, found)
            if not stop_after:
                self.promises.check_scale()
        except BrokenError as error:
            raise self._violated(str(error)) from None
        if self.rng.random() < 0.1:
            blind = replace(before, endpoint=replace(before.endpoint, status={}))
            if not self.lost and plan(blind) != found:
                raise self._violated("a lost status changes the decision")
        self._check_suspension(before, found)
        if not stop_after and self.operator.raw["status"] is not self.checked:
            self.checked = self.operator.raw["status"]
            self._check_status(found)
        if not stop_after:
            self.lost = False
        return found

    def _watch(self) -> None:
        if not self.operator.plans:
            return
        try:
            self.promises.watch()
        except BrokenError as error:
            raise self._violated(str(error)) from None

    def _check_suspension(self, before: PlanInputs, found: Plan) -> None:
        """While suspended nothing but what was under way is written."""
        if not before.endpoint.spec.suspend or found.action is not Action.HOLD:
            return
        deployment = before.deployment
        done = deployment is None or (
            found.target is not None and deployment.revision == found.target.revision.hash
        )
        if found.target is not None and done:
            raise self._violated("children are written while suspended")

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
        """Noisy sizing with hysteresis, as sizing's own: N by 10 %, the fraction by 0.5 GiB.

        A window of traffic is hours long, so the noise is another in each hour, not in each pass.
        Free memory differs from start to start.
        """
        good = record.last_good
        tuning = tuning_hash(endpoint.spec)
        some = good.settings if good is not None else Settings(256, Decimal("0.9"))
        fingerprint = self._fingerprint(endpoint, some)
        headroom = record.effective_headroom(
            fingerprint, tuning, endpoint.spec.tuning.headroom_bytes
        )
        noise = random.Random(f"{self.seed} {self.world.now:%d %H}")
        starts = [f"{pod.uid} {pod.restarts}" for pod in self.world.pods]
        free = 176 * GIB + random.Random(f"{self.seed} {starts}").uniform(-0.1, 0.1) * GIB
        utilization = Decimal(int((free - headroom) / TOTAL * 10_000)) / 10_000
        noisy = max(1, round(self.wish * noise.uniform(0.97, 1.03)))
        cap = record.max_num_seqs_cap(fingerprint, tuning)
        noisy = noisy if cap is None else min(noisy, cap)
        seqs, initial, firm = noisy, endpoint.spec.tuning.initial, True
        if good is not None:
            held = good.settings
            if abs(noisy - held.max_num_seqs) <= 0.1 * held.max_num_seqs:
                seqs = held.max_num_seqs
            before = record.recommended_max_num_seqs(fingerprint, sizing_hash(endpoint.spec))
            if before is not None and _still(before, noisy, held.max_num_seqs):
                seqs, firm = before, seqs != held.max_num_seqs
            left = free - float(held.gpu_memory_utilization) * TOTAL
            if headroom - 0.5 * GIB <= left <= headroom + 3 * GIB:
                utilization = held.gpu_memory_utilization
        estimate = Decimal(int((176 * GIB - headroom) / TOTAL * 10_000)) / 10_000
        first = Settings(good.settings.max_num_seqs if good is not None else 256, estimate)
        if good is None and initial is not None:
            first = initial.settings
        settings = None if self.blind else Settings(seqs, utilization)
        reason = Reason.APPLIED if settings is not None else Reason.INSUFFICIENT_EVIDENCE
        return Desired(
            settings, reason, "", first, firm=firm, total_bytes=TOTAL, headroom_bytes=headroom
        )

    def _fingerprint(self, endpoint: Endpoint, some: Settings) -> str:
        if endpoint.generation not in self.fingerprints:
            made = render_revision(endpoint, some).fingerprint
            self.fingerprints[endpoint.generation] = made
        return self.fingerprints[endpoint.generation]


def _still(before: int, noisy: int, held: int) -> bool:
    """Half of the hysteresis is left towards what was recommended."""
    moved, towards = noisy / held - 1, before - held
    return abs(noisy / before - 1) <= 0.1 and moved * towards > 0 and abs(moved) >= 0.05
