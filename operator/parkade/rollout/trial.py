"""A candidate on trial: its pods, the clock, and the small questions that verdicts ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from parkade.api.conditions import Reason
from parkade.api.spec import Rollout
from parkade.api.status import Verdict
from parkade.rollout.observed import DeploymentState, PodState
from parkade.rollout.obstacles import no_room
from parkade.rollout.record import Candidate, Phase, SeenTermination

SURGE_PATIENCE = timedelta(seconds=30)
"""How long a surge pod may find no room before another way is taken."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with its reason."""

    verdict: Verdict
    reason: Reason
    message: str
    candidate: Candidate
    """With all that was seen of its pods so far."""
    latest: datetime
    """When it last came forward."""
    blamed: SeenTermination | None = None
    """The termination that decided."""
    ready: int = 0
    soaked: int = 0
    """Pods that served for soakSeconds without a restart."""
    no_room: str = ""
    """What keeps it from a pod beside the others: no GPU, no room on a node, no quota."""
    no_room_for: timedelta | None = None
    """How long it has waited for that room."""
    check_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate with its pods, as a pass sees them."""

    candidate: Candidate
    pods: Sequence[PodState]
    deployment: DeploymentState | None
    rollout: Rollout
    now: datetime
    alone: bool
    """No pod of another revision holds room any more."""

    @property
    def proven(self) -> bool:
        """All pods are its own, and one soaked: where the others lack room, so would any."""
        full = self.candidate.phase is Phase.FULL and self.alone
        return full and any(pod.is_ready and self.has_soaked(pod) for pod in self.pods)

    @property
    def lacks_pods(self) -> bool:
        """More of its pods should be there, and none is on its way."""
        more = self.candidate.phase is Phase.FULL and all(pod.is_ready for pod in self.pods)
        return more or not self.pods

    @property
    def latest(self) -> datetime:
        """When it last came forward: it began, was widened, or one of its pods became ready."""
        own = (self.candidate.since, self.candidate.widened_at)
        moments = (*own, *(pod.ready_since for pod in self.pods))
        return max(one for one in moments if one is not None)

    @property
    def deadline(self) -> timedelta:
        """How long a pod may take to start."""
        return timedelta(seconds=self.rollout.start_deadline_seconds)

    def answer(self, verdict: Verdict, reason: Reason, message: str) -> Judgement:
        """Return a judgement with what is known of the pods."""
        ready = [pod for pod in self.pods if pod.is_ready]
        asking = self.deployment if self.lacks_pods else None
        lacks, lacks_for = no_room(self.pods, asking, self.now, self.latest)
        return Judgement(
            verdict,
            reason,
            message,
            self.candidate,
            self.latest,
            ready=len(ready),
            soaked=sum(1 for pod in ready if self.has_soaked(pod)),
            no_room=lacks,
            no_room_for=lacks_for,
        )

    def waited(self, since: datetime) -> timedelta:
        """Return the time since then, as far as this candidate had it (pods outlive a retry)."""
        return self.now - max(since, self.candidate.since)

    def has_soaked(self, pod: PodState) -> bool:
        """Tell whether a pod has served for soakSeconds."""
        soak = timedelta(seconds=self.rollout.soak_seconds)
        return pod.ready_since is not None and self.now - pod.ready_since >= soak
