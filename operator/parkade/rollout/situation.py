"""What a pass knows, put together once, with the small questions that policies ask of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from parkade.api.conditions import REASONS, ConditionStatus, ConditionType, Reason
from parkade.api.endpoint import Endpoint
from parkade.api.settings import Settings
from parkade.api.spec import EndpointSpec, Interruption, Mode, Strategy
from parkade.api.status import Origin
from parkade.rollout.actions import (
    CANARY_MIN_READY_SECONDS,
    CANARY_PROGRESS_DEADLINE_SECONDS,
    Action,
    Desired,
    Finding,
    Plan,
    PlanInputs,
    Target,
)
from parkade.rollout.bookkeeping import with_retry
from parkade.rollout.judge import judge
from parkade.rollout.observed import DeploymentState, PodState
from parkade.rollout.obstacles import for_a_person
from parkade.rollout.record import Candidate, Phase, Record
from parkade.rollout.render import render_revision
from parkade.rollout.revision import Revision, inputs_hash, tuning_hash
from parkade.rollout.serving import with_lesson_of_serving
from parkade.rollout.trial import Judgement
from parkade.rollout.windows import Opening, opening

CLOCK_SKEW = timedelta(seconds=60)
"""Clocks of two machines that ran the operator may differ so much."""

SCALE_PATIENCE = timedelta(seconds=60)
"""How long a new number of pods waits for a withdrawn candidate's pods to go."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The inputs of a plan with what follows from them at once."""

    inputs: PlanInputs
    record: Record
    """Retries taken in, and what the candidate's pods show remembered."""
    judgement: Judgement | None
    """Of the candidate, where there is one."""
    opening: Opening
    tuning: str
    """Hash of the tuning inputs."""

    @property
    def endpoint(self) -> Endpoint:
        """The resource."""
        return self.inputs.endpoint

    @property
    def spec(self) -> EndpointSpec:
        """Its spec."""
        return self.inputs.endpoint.spec

    @property
    def now(self) -> datetime:
        """The time of this pass."""
        return self.inputs.now

    @property
    def desired(self) -> Desired:
        """What sizing recommends."""
        return self.inputs.desired

    @property
    def deployment(self) -> DeploymentState | None:
        """The Deployment as observed."""
        return self.inputs.deployment

    @property
    def candidate(self) -> Candidate | None:
        """The candidate in flight."""
        return self.record.candidate

    @property
    def pods(self) -> tuple[PodState, ...]:
        """Pods of ours that are not on their way out."""
        return tuple(
            one
            for one in self.inputs.pods
            if one.revision and not one.deleting and one.phase not in {"Failed", "Succeeded"}
        )

    @property
    def ready(self) -> int:
        """Pods that serve, of whatever revision."""
        return sum(1 for pod in self.pods if pod.is_ready)

    def pods_of(self, revision: Revision) -> list[PodState]:
        """Pods of this revision."""
        return [pod for pod in self.pods if pod.revision == revision.hash]

    def pods_beside(self, revision: Revision) -> list[PodState]:
        """Pods of all other revisions."""
        return [pod for pod in self.pods if pod.revision != revision.hash]

    def ready_beside(self, revision: Revision) -> int:
        """Pods that serve and are not of this revision."""
        return sum(1 for pod in self.pods_beside(revision) if pod.is_ready)

    def user_change(self, running: Revision) -> Revision | None:
        """Return the spec's template with the running knobs, where a user changed more than them.

        Inputs that render the same template are no change.
        """
        if inputs_hash(self.spec) == running.inputs:
            return None
        rendered = render_revision(self.endpoint, running.settings)
        return None if rendered.hash == running.hash else rendered

    @property
    def start_deadline(self) -> timedelta:
        """How long a pod may take to start."""
        return timedelta(seconds=self.spec.rollout.start_deadline_seconds)

    def keeps_from_starting(self, revision: Revision) -> tuple[Reason, str] | None:
        """Return what a person should look at, where pods of it have not started for so long."""
        return for_a_person(self.pods_of(revision), self.deployment, self.now, self.start_deadline)

    def chosen_by_the_user(self, running: Settings) -> Settings:
        """Return what mode RecommendOnly runs: new initial settings, else what runs."""
        initial = self.spec.tuning.initial
        if initial is None or initial.settings == self.record.initial:
            return running
        return initial.settings

    def headroom_bytes(self, fingerprint: str) -> int:
        """Return the headroom in force for a fingerprint."""
        asked = self.spec.tuning.headroom_bytes
        return self.record.effective_headroom(fingerprint, self.tuning, asked)

    def cut(self, settings: Settings, fingerprint: str) -> Settings:
        """Return settings within what failures left and the user's range allows."""
        least = self.spec.tuning.max_num_seqs.min
        return self.record.cut(settings, fingerprint, self.tuning, least)

    def may_interrupt(self) -> bool:
        """Tell whether tuning may leave the endpoint without a ready pod at this time."""
        match self.spec.tuning.interruption:
            case Interruption.ALLOWED:
                return True
            case Interruption.IN_WINDOWS:
                return bool(self.spec.tuning.maintenance_windows) and self.opening.is_open
            case Interruption.NEVER:
                return False

    def may_interrupt_some_time(self) -> bool:
        """Tell whether it may now, or in windows that are given."""
        tuning = self.spec.tuning
        in_windows = tuning.interruption is Interruption.IN_WINDOWS
        return self.may_interrupt() or (in_windows and bool(tuning.maintenance_windows))

    def blocking_budget(self) -> str | None:
        """Return the name of a PodDisruptionBudget that allows no disruption of our pods."""
        target = self.record.target
        labels = (target.template["metadata"]["labels"]) if target is not None else {}
        return next(
            (
                one.name
                for one in self.inputs.fleet.budgets
                if one.disruptions_allowed < 1 and one.matches(labels)
            ),
            None,
        )

    def starts_with_surge(self) -> bool:
        """Tell whether a new pod is first tried beside the old ones."""
        return self.spec.rollout.strategy is not Strategy.NO_SURGE

    def target(self, record: Record) -> Target | None:
        """Return what the Deployment must be under a record.

        Where nothing is good and nothing is tried any more, it stays as it is: only spec.replicas
        is copied, so that zero frees the GPUs of pods in a crash loop.
        """
        revision = record.target or _running(self.inputs)
        if revision is None:
            return None
        candidate = record.candidate
        canary = candidate is not None and candidate.phase is Phase.CANARY
        start = self.spec.rollout.start_deadline_seconds
        return Target(
            revision,
            replicas=self._replicas(record, revision),
            surge=self._surge(record),
            min_ready_seconds=CANARY_MIN_READY_SECONDS if canary else 0,
            progress_deadline_seconds=(
                CANARY_PROGRESS_DEADLINE_SECONDS if canary else max(600, 2 * start)
            ),
        )

    def _surge(self, record: Record) -> bool:
        if record.candidate is not None:
            return record.candidate.surge
        if record.target is None and self.deployment is not None:
            return self.deployment.max_surge > 0
        return record.surge

    def may_be_scaled(self, candidate: Candidate) -> bool:
        """Tell whether a candidate that replaces pod by pod takes a new number of pods at once.

        Of one pod it would take the only one away; with more, one stays.
        """
        others = bool(self.pods_beside(candidate.revision))
        one_at_a_time = candidate.origin is Origin.TUNING and not candidate.surge
        last = self.deployment is not None and self.deployment.replicas > self.spec.replicas == 1
        return not (others and one_at_a_time and last) or self.may_interrupt()

    def _replicas(self, record: Record, revision: Revision) -> int:
        """Return the number of pods: the spec's, except while two revisions must not be scaled.

        The deployment controller spreads a new number over all ReplicaSets that have pods.
        """
        wanted, deployment = self.spec.replicas, self.deployment
        if deployment is None or deployment.replicas == wanted:
            return wanted
        candidate = record.candidate
        if candidate is not None:
            canary = candidate.phase is Phase.CANARY and record.last_good is not None
            now = wanted if self.may_be_scaled(candidate) else deployment.replicas
            return candidate.scale if canary else now
        mixed = deployment.revision != revision.hash or any(
            one.replicas > 0 and one.revision != revision.hash and one.owner_uid == deployment.uid
            for one in self.inputs.replica_sets
        )
        if mixed and record.settled_at and self.now - record.settled_at < SCALE_PATIENCE:
            return deployment.replicas
        return wanted

    def plan(
        self, action: Action, reason: Reason, message: str, record: Record | None = None
    ) -> Plan:
        """Return a plan whose SettingsApplied says the same; policies `replace` what differs."""
        record = self.record if record is None else record
        return Plan(
            action=action,
            reason=reason,
            message=message,
            record=record,
            target=self.target(record),
            settings_applied=settings_finding(reason, message),
        )


def situation(inputs: PlanInputs) -> Situation:
    """Put together what a pass knows."""
    spec = inputs.endpoint.spec
    record = with_lesson_of_serving(_absorbed(inputs), inputs)
    judgement = None
    if record.candidate is not None:
        judgement = judge(
            record.candidate,
            inputs.pods,
            inputs.evidence,
            inputs.deployment,
            spec.rollout,
            inputs.now,
        )
        record = replace(record, candidate=judgement.candidate)
    return Situation(
        inputs,
        record,
        judgement,
        opening(spec.tuning.maintenance_windows, inputs.now),
        tuning_hash(spec),
    )


def settings_finding(reason: Reason, message: str) -> Finding:
    """Return SettingsApplied with a reason, its status as documented."""
    for status, reasons in REASONS[ConditionType.SETTINGS_APPLIED].items():
        if reason in reasons:
            return Finding(status, reason, message)
    return Finding(ConditionStatus.UNKNOWN, Reason.INSUFFICIENT_EVIDENCE, message)


def stalled(reason: Reason, message: str) -> Finding:
    """Return Stalled as True."""
    return Finding(ConditionStatus.TRUE, reason, message)


def reconciling(reason: Reason, message: str) -> Finding:
    """Return Reconciling as True, for a reason that it may have."""
    allowed = REASONS[ConditionType.RECONCILING][ConditionStatus.TRUE]
    known = reason if reason in allowed else Reason.ROLLOUT_IN_PROGRESS
    return Finding(ConditionStatus.TRUE, known, message)


def described(settings: Settings) -> str:
    """Return both knobs for people."""
    utilization = f"{settings.gpu_memory_utilization.normalize():f}"
    return f"max_num_seqs {settings.max_num_seqs}, gpu_memory_utilization {utilization}"


def _running(inputs: PlanInputs) -> Revision | None:
    """Return the revision of our own Deployment; None where it is absent or not readable."""
    live = inputs.deployment
    ours = live is not None and live.owner_uid == inputs.endpoint.uid
    return live.as_revision() if live is not None and ours else None


def _absorbed(inputs: PlanInputs) -> Record:
    """Take in a person's retry, and initial settings that mode Auto does not act on.

    After a clock was put back, times of cooldowns count from now, not from a day to come.
    """
    record = with_retry(inputs.record, inputs.endpoint.retry)
    if record.settled_at is not None and record.settled_at > inputs.now + CLOCK_SKEW:
        record = replace(record, settled_at=inputs.now)
    tuning = inputs.endpoint.spec.tuning
    if tuning.mode is Mode.AUTO and tuning.initial is not None and record.last_good is not None:
        record = replace(record, initial=tuning.initial.settings)
    return record
