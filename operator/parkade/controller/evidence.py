"""The evidence of crashes: logs are fetched while they exist, and classified at once.

Which log holds the newest end depends on the container's state (kubelet 1.37): while it is
`terminated` it is the current one, afterwards the previous one. Only one dead container is kept,
and its log can be gone at any time; then the termination message (the end of the log, 2 KB) is
what there is. A cause is asked for once and kept in memory; the planner keeps it in the record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from parkade.adapters import rbac
from parkade.adapters.cluster import LOG_PATIENCE_SECONDS, Cluster
from parkade.adapters.errors import AdapterError, UnavailableError
from parkade.api import names
from parkade.rollout.causes import CauseClass, ContainerEvidence, RootCause, classify
from parkade.rollout.observed import Evidence, PodState
from parkade.rollout.record import Record

logger = logging.getLogger(__name__)

TAIL_LINES = 5000
MAX_EVENTS = 20
MAX_CAUSES = 1000
MAX_OUT_OF_REACH = 100

Key = tuple[str, int]
"""Uid of the pod and number of the termination."""


@dataclass(slots=True)
class EvidenceKeeper:
    """Causes of terminations by pod and number. Each key is used by one worker at a time."""

    cluster: Cluster
    clock: Callable[[], float] = time.monotonic
    _causes: dict[Key, RootCause] = field(default_factory=dict)
    _out_of_reach: tuple[str, ...] = ()
    """Uids of pods whose logs did not come: the others are asked for first."""

    def collect(self, namespace: str, pods: Collection[PodState], record: Record) -> Evidence:
        """Return the causes of the last terminations of these pods, fetching what is new."""
        settled, begun = _settled(record), self.clock()
        for pod in sorted(pods, key=lambda pod: pod.uid in self._out_of_reach):
            key = (pod.uid, pod.terminations)
            if pod.terminations and key not in self._causes and key not in settled:
                may_wait = self.clock() - begun < LOG_PATIENCE_SECONDS
                self._look(namespace, pod, pods, may_wait=may_wait)
        uids = {pod.uid for pod in pods}
        return {key: cause for key, cause in list(self._causes.items()) if key[0] in uids}

    def _look(
        self, namespace: str, pod: PodState, pods: Iterable[PodState], *, may_wait: bool
    ) -> None:
        """Find a cause. A pass must not hang once for each pod; the next one tries logs again."""
        container = self._container(namespace, pod, pods)
        found = self._logs(namespace, pod) if may_wait else [(_message(pod), False)]
        causes = ((classify(text, container), sure) for text, sure in found)
        cause, certain = _telling(causes)
        if certain or cause.cause_class is not CauseClass.UNKNOWN:
            self._keep((pod.uid, pod.terminations), cause)
        logger.info(
            "%s/%s ended (termination %d): %s, %s",
            namespace,
            pod.name,
            pod.terminations,
            cause.cause_class.value,
            cause.message or "no message",
        )

    def _keep(self, key: Key, cause: RootCause) -> None:
        self._causes[key] = cause
        while len(self._causes) > MAX_CAUSES:
            del self._causes[next(iter(self._causes))]

    def _logs(self, namespace: str, pod: PodState) -> Iterator[tuple[str, bool]]:
        """Yield what may be the log of the last end; False where another try may find more.

        The state that was seen may be old: a kubelet restarts a container within a second at
        first, and what was the current log is the previous one by now.
        """
        running = pod.running_since is not None
        for previous in (True,) if running else (False, True):
            try:
                log = self.cluster.pod_log(
                    namespace,
                    pod.name,
                    names.ENGINE_CONTAINER,
                    previous=previous,
                    tail_lines=TAIL_LINES,
                )
            except UnavailableError as error:
                logger.info("The log of %s/%s can't be read now: %s", namespace, pod.name, error)
                self._out_of_reach = (*self._out_of_reach[-MAX_OUT_OF_REACH:], pod.uid)
                yield _message(pod), False
                return
            except AdapterError as error:
                logger.warning("The log of %s/%s can't be read: %s", namespace, pod.name, error)
                break
            if log:
                yield log, True
        yield _message(pod), True

    def _container(
        self, namespace: str, pod: PodState, pods: Iterable[PodState]
    ) -> ContainerEvidence:
        ended = pod.last_termination
        return ContainerEvidence(
            exit_code=ended.exit_code if ended else None,
            reason=pod.disrupted or (ended.reason if ended else ""),
            message=ended.message if ended else "",
            waiting_reason=pod.waiting_reason,
            events=self._events(namespace, pod),
            ready_before=pod.was_ready and (pod.is_ready or not pod.ended_unready),
            deletion_requested=pod.deleting,
            predecessor_on_gpu=_predecessor(pod, pods),
        )

    def _events(self, namespace: str, pod: PodState) -> tuple[tuple[str, str], ...]:
        """Return what the kubelet said of the pod: a probe that killed it stands only here."""
        try:
            found = self.cluster.list(
                rbac.EVENTS, namespace, field_selector=f"involvedObject.uid={pod.uid}"
            )
        except AdapterError as error:
            logger.info("The events of %s/%s can't be read: %s", namespace, pod.name, error)
            return ()
        return tuple(
            (str(one.get("reason", "")), str(one.get("message", ""))) for one in found[-MAX_EVENTS:]
        )


def _telling(causes: Iterator[tuple[RootCause, bool]]) -> tuple[RootCause, bool]:
    """Return the first cause that is known, else the first of all; and whether it is final."""
    told, certain = next(causes)
    while told.cause_class is CauseClass.UNKNOWN and (other := next(causes, None)) is not None:
        cause, certain = other
        told = told if cause.cause_class is CauseClass.UNKNOWN else cause
    return told, certain


def _message(pod: PodState) -> str:
    return pod.last_termination.message if pod.last_termination else ""


def _settled(record: Record) -> set[Key]:
    """Return terminations that the record has with a cause already.

    One without is in the record too: its log may have been out of reach, and is tried again.
    """
    candidate = record.candidate
    return {
        (seen.pod_uid, seen.number)
        for seen in (candidate.terminations if candidate is not None else ())
        if seen.cause_class is not CauseClass.UNKNOWN
    }


def _predecessor(pod: PodState, pods: Iterable[PodState]) -> bool | None:
    """Tell whether another of these pods is on its way out on the same node; None: not known."""
    leaving = [one for one in pods if one.uid != pod.uid and one.node == pod.node and one.deleting]
    return True if leaving and pod.node else None
