"""What must hold at every pass and between passes, told by the world and not by the operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from parkade.api.spec import Mode
from parkade.api.status import Origin
from parkade.rollout.actions import Action, Plan, PlanInputs
from parkade.rollout.record import Candidate, Quarantined, Record
from parkade.rollout.revision import quarantine_key, tuning_hash
from rollout.support import verdicts
from rollout.support.driver import Operator
from rollout.support.truth import window_is_open
from rollout.support.verdicts import BrokenError, Key, Trial, candidate_key
from rollout.support.world import Pod, World

LOOK_ROUNDS = 3
"""Passes after which something must have happened that time alone decides."""
SCALE_SECONDS = 150
LONGEST_TRIAL = timedelta(hours=2)
"""Three pods of 300 s each, with slack."""
NO_BACK_OFF = {"", "CandidateWithdrawn", "RecommendOnly", "Suspended", "Superseded"}


@dataclass
class Promises:
    """Raise BrokenError as soon as one is broken."""

    world: World
    operator: Operator
    trial: Trial | None = None
    quarantine: dict[str, str] = field(default_factory=dict)
    """Keys that were recorded, with their revisions."""
    seen: set[Key] = field(default_factory=set)
    """Ends that some pass saw as a pod's newest."""
    last_change: datetime | None = None
    back_offs: int = 0
    retried: bool = False
    unscaled: tuple[datetime, int] | None = None
    reverts_without_room: int = 0

    # Between passes.

    def watch(self) -> None:
        """Tuning leaves a ready pod, and what has not soaked stays one pod."""
        trial, plan = self.trial, self.operator.plans[-1]
        candidate = plan.record.candidate
        if trial is None or candidate is None or plan.record.last_good is None:
            return
        own = self._own(candidate)
        self._note_soak(own)
        hit = self.world.faults[trial.faults :]
        others_hit = any(one != candidate.revision.hash for one in hit)
        if trial.guarded and not trial.soaked and not others_hit and len(own) > 1:
            raise BrokenError("more than one pod of a candidate that has not soaked")
        if candidate.origin is not Origin.TUNING or hit:
            return
        spec = self.operator.endpoint().spec
        if spec.replicas == 0 or spec.tuning.interruption.value == "Allowed":
            return
        if not any(pod.is_ready for pod in self.world.pods) and trial.guarded:
            if spec.tuning.interruption.value == "InWindows" and trial.interrupts:
                return
            raise BrokenError("tuning leaves no pod ready")

    def _own(self, candidate: Candidate) -> list[Pod]:
        return [one for one in self.world.live if one.owner.revision == candidate.revision.hash]

    def _note_soak(self, own: list[Pod]) -> None:
        if self.trial is not None and any(self._has_soaked(pod) for pod in own):
            self.trial.soaked = True

    def _has_soaked(self, pod: Pod) -> bool:
        soak = timedelta(seconds=self.operator.endpoint().spec.rollout.soak_seconds)
        return pod.ready is not None and self.world.now - pod.ready >= soak

    # At a pass.

    def check(self, before: PlanInputs, found: Plan) -> None:
        """Look at what one pass decided; its children may be written, or not (a crash)."""
        old, new = before.record.candidate, found.record.candidate
        if found.hands_off:
            if self.trial is not None:
                self.trial.held = True
            return
        self.seen |= {(pod.uid, pod.terminations) for pod in before.pods if pod.terminations}
        handled = set(found.record.handled_retries) - set(before.record.handled_retries)
        self._is_remembered(found.record, handled)
        if handled:
            self.retried, self.back_offs = True, 0
        if old is not None:
            self._takes_up(old)
            self._note_soak(self._own(old))
            verdicts.ends_are_acted_on(self.world, self.trial, before, found)
            verdicts.blames_rightly(self.world, self.seen, before, found)
        if new is not None and (old is None or candidate_key(new) != candidate_key(old)):
            self._starts(before, found, new, asked=bool(handled))
        if new is None:
            self.trial = None
        else:
            self._goes_on(before, found, new)
        self._acts(before, found)
        self._finds_room(before, found)

    def _takes_up(self, old: Candidate) -> None:
        """Of a candidate that a lost record forgot the beginning of, little can be told."""
        if self.trial is None or self.trial.key != candidate_key(old):
            self.trial = Trial(candidate_key(old), len(self.world.faults), soaked=True)

    def _is_remembered(self, record: Record, handled: set[str]) -> None:
        """A failure leaves the quarantine only where a person asks, or for newer ones."""
        now = {one.key: one.revision for one in record.quarantine}
        named = {text.strip().partition(" ")[0] for text in handled}
        lost = {
            key
            for key, revision in self.quarantine.items()
            if key not in now and not named & {key, revision}
        }
        if lost and len(now) < 10:
            raise BrokenError("a failure is forgotten")
        self.quarantine = now
        running = record.target
        if running is not None and running.quarantine_key in now:
            raise BrokenError("settings in quarantine are to run")

    def _starts(self, before: PlanInputs, found: Plan, new: Candidate, *, asked: bool) -> None:
        spec, good = before.endpoint.spec, found.record.last_good
        others = [one for one in self.world.live if one.owner.revision != new.revision.hash]
        live = before.deployment
        self.trial = Trial(
            candidate_key(new),
            len(self.world.faults),
            guarded=good is not None
            and live is not None
            and len(others) == spec.replicas == live.replicas > 0
            and all(pod.is_ready for pod in others),
            asked=asked or before.record.retry is not None or spec.tuning.mode is not Mode.AUTO,
        )
        if new.origin is not Origin.TUNING:
            return
        assert good is not None
        if not self.trial.guarded and any(pod.is_ready for pod in self.world.live):
            raise BrokenError("tuning does not start from a settled endpoint")
        one, other = good.settings, new.revision.settings
        if (one.max_num_seqs != other.max_num_seqs) == (
            one.gpu_memory_utilization != other.gpu_memory_utilization
        ):
            raise BrokenError("tuning changes not exactly one knob")
        self._is_let_start(before)
        if not self.trial.asked:
            self._has_learned(before, found, new)

    def _is_let_start(self, before: PlanInputs) -> None:
        tuning, now = before.endpoint.spec.tuning, self.world.now
        cooldown = timedelta(seconds=tuning.cooldown_seconds)
        if self.back_offs:
            cooldown = max(cooldown, timedelta(seconds=60)) * 2 ** min(self.back_offs, 5)
        if self.last_change and now - self.last_change < cooldown and not self.retried:
            raise BrokenError("tuning within the cooldown")
        self.retried = False
        if before.fleet.rollouts_elsewhere >= before.fleet.max_concurrent_rollouts:
            raise BrokenError("more rollouts than allowed")
        if tuning.maintenance_windows and not window_is_open(now):
            raise BrokenError("tuning outside its windows")

    def _has_learned(self, before: PlanInputs, found: Plan, new: Candidate) -> None:
        """Neither like what failed, nor on the way to it."""
        tuning = tuning_hash(before.endpoint.spec)
        fingerprint = new.revision.fingerprint
        lessons = [
            one
            for one in found.record.quarantine
            if (one.fingerprint, one.tuning) == (fingerprint, tuning)
        ]
        if any(not _is_within(new, one) for one in lessons):
            raise BrokenError("what failures taught is not used")
        wanted = before.desired.settings
        if wanted is None:
            return
        cut = found.record.cut(wanted, fingerprint, tuning)
        if found.record.is_quarantined(quarantine_key(fingerprint, cut)):
            raise BrokenError("tuning heads for settings that failed")

    def _goes_on(self, before: PlanInputs, found: Plan, new: Candidate) -> None:
        self._takes_up(new)
        trial, spec = self.trial, before.endpoint.spec
        assert trial is not None
        blocked = any(one.disruptions_allowed < 1 for one in before.fleet.budgets)
        in_place = blocked and not new.surge  # to take it back would be a disruption too
        trial.held = trial.held or in_place or spec.replicas == 0
        if new.origin is not Origin.TUNING:
            return
        if found.action is Action.DEPLOY and not new.surge:
            trial.interrupts = window_is_open(self.world.now)
        if blocked and found.action in {Action.DEPLOY, Action.WIDEN}:
            raise BrokenError("tuning against a PodDisruptionBudget")
        if spec.tuning.mode is Mode.RECOMMEND_ONLY and not trial.asked:
            raise BrokenError("RecommendOnly goes on with what nobody asked for")
        if self.world.now - new.since > LONGEST_TRIAL and not trial.held:
            raise BrokenError("tuning holds its turn for hours")

    def _acts(self, before: PlanInputs, found: Plan) -> None:
        spec, action = before.endpoint.spec, found.action
        gone = before.deployment is None and before.record.candidate is not None
        good = found.record.last_good
        if gone and good is not None and action is not Action.DEPLOY:
            assert found.target is not None
            if found.target.revision.hash != good.hash:
                raise BrokenError("a deleted Deployment comes back with a candidate")
        if action is Action.HOLD:
            return
        makes_room = action is Action.REVERT and before.record.candidate is None
        if not makes_room:  # it belongs to the revert before
            self.last_change = self.world.now
        if action is Action.WIDEN and self.trial is not None and not self.trial.soaked:
            raise BrokenError("the rest follows before one pod has soaked")
        if action is Action.PROMOTE:
            self.back_offs = 0
            pods = self.world.live
            alone = all(good and one.owner.revision == good.hash for one in pods)
            soaked = [one for one in pods if self._has_soaked(one)]
            enough = len(soaked) >= max(1, spec.replicas) or self._rest_lacks_room(before, soaked)
            if not alone or not enough:
                raise BrokenError("promoted before all pods have soaked")
        if action is Action.WITHDRAW:
            entry = found.record.history[0]
            waits = entry.origin is Origin.TUNING and entry.reason not in NO_BACK_OFF
            self.back_offs += 1 if waits else 0

    def _rest_lacks_room(self, before: PlanInputs, soaked: list[Pod]) -> bool:
        """Of tuning: nothing but room has been missing since the newest pod served."""
        old = before.record.candidate
        if old is None or old.origin is not Origin.TUNING or not soaked:
            return False
        if any(pod.node for pod in self.world.live if pod not in soaked):
            return False
        waited = self.world.now - max(pod.ready for pod in soaked if pod.ready)
        return waited >= timedelta(seconds=before.endpoint.spec.rollout.start_deadline_seconds)

    def _finds_room(self, before: PlanInputs, found: Plan) -> None:
        """Where no GPU is free, what holds the GPUs makes room, as far as the user lets it."""
        record, spec = found.record, before.endpoint.spec
        target = record.target
        starved = target is not None and any(
            pod.revision == target.hash
            and not pod.deleting
            and pod.unschedulable_since is not None
            and (before.now - pod.unschedulable_since).total_seconds() >= 30
            for pod in before.pods
        )
        candidate, strategy = record.candidate, spec.rollout.strategy.value
        surges = candidate.surge if candidate is not None else record.surge
        mine = candidate is None or (candidate.origin is Origin.USER and strategy == "Auto")
        others = any(
            one.owner.revision != (target.hash if target else "")
            for one in self.world.live
            if one.node
        )
        waits = starved and others and surges and mine
        self.reverts_without_room = self.reverts_without_room + 1 if waits else 0
        if self.reverts_without_room >= LOOK_ROUNDS:
            raise BrokenError("a pod waits for a GPU that its own endpoint holds")

    def check_scale(self) -> None:
        """The number of pods that is asked for is copied before long."""
        deployment, spec = self.world.deployment, self.operator.endpoint().spec
        if (
            deployment is None
            or spec.suspend
            or deployment.raw["spec"]["replicas"] == spec.replicas
            or self._would_take_the_last()
        ):
            self.unscaled = None
            return
        since, rounds = self.unscaled or (self.world.now, 0)
        self.unscaled = since, rounds + 1
        waited = (self.world.now - since).total_seconds()
        if waited > SCALE_SECONDS and rounds >= LOOK_ROUNDS:
            raise BrokenError("a new number of pods is not honoured")

    def _would_take_the_last(self) -> bool:
        """Of one pod that tuning replaces in its place none would serve."""
        candidate = self.operator.plans[-1].record.candidate
        tuned = candidate is not None and candidate.origin is Origin.TUNING
        if not tuned or candidate is None or candidate.surge:
            return False
        mixed = any(one.owner.revision != candidate.revision.hash for one in self.world.live)
        return mixed and self.operator.endpoint().spec.replicas == 1

    def record_is_lost(self) -> None:
        """How often a candidate was taken back in a row, and what ended, is nowhere else."""
        self.back_offs = 0
        if self.trial is not None:
            self.trial.unknown.clear()


def _is_within(new: Candidate, lesson: Quarantined) -> bool:
    some, below, most = new.revision.settings, lesson.max_num_seqs_below, lesson.utilization_at_most
    return (below is None or some.max_num_seqs < below or some.max_num_seqs == 1) and (
        most is None or some.gpu_memory_utilization <= most
    )
