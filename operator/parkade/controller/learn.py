"""What running engines tell of their memory: read from the start of their logs.

A log is read once for each start of a container, when its pod is ready; what it tells is kept by
fingerprint. F, the free memory, varies from start to start; of several starts with the same
settings the one with the least counts.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from parkade.adapters.cluster import LOG_PATIENCE_SECONDS, Cluster
from parkade.adapters.errors import AdapterError
from parkade.api import names
from parkade.rollout.causes import StartupReport, read_startup
from parkade.rollout.observed import PodState
from parkade.rollout.record import Record
from parkade.sizing.inputs import MeasuredMemory

logger = logging.getLogger(__name__)

HEAD_BYTES = 1024 * 1024
"""A start prints less than 200 KB; the kubelet keeps 10 MB of log before it rotates."""
MAX_REPORTS = 2000
RETRY_SECONDS = 60.0

Key = tuple[str, int]
"""Uid of a pod and its restarts: one start of its engine."""


@dataclass(slots=True)
class StartupReader:
    """Reports of starts. Each pod is read by one worker at a time."""

    cluster: Cluster
    clock: Callable[[], float]
    _reports: dict[Key, StartupReport | None] = field(default_factory=dict)
    _not_before: dict[Key, float] = field(default_factory=dict)
    """When a log that could not be read is asked for again."""

    def of(self, namespace: str, pods: Iterable[PodState]) -> dict[str, StartupReport]:
        """Return the reports of ready pods by uid, reading those that are new.

        Logs that hang are left for later once they took so long together: a pass has other work.
        """
        started = {(pod.uid, pod.restart_count): pod for pod in pods if _is_started(pod)}
        begun = self.clock()
        for key, pod in started.items():
            if key in self._reports or self.clock() < self._not_before.get(key, 0.0):
                continue
            if self.clock() - begun < LOG_PATIENCE_SECONDS:
                self._read(namespace, pod, key)
            else:
                self._not_before[key] = self.clock() + RETRY_SECONDS
        known = ((pod.uid, self._reports.get(key)) for key, pod in started.items())
        return {uid: report for uid, report in known if report is not None}

    def _read(self, namespace: str, pod: PodState, key: Key) -> None:
        try:
            log = self.cluster.pod_log(
                namespace,
                pod.name,
                names.ENGINE_CONTAINER,
                previous=False,
                limit_bytes=HEAD_BYTES,
            )
        except AdapterError as error:
            logger.info("The log of %s/%s can't be read: %s", namespace, pod.name, error)
            self._not_before[key] = self.clock() + RETRY_SECONDS
            return
        self._reports[key] = None if log is None else read_startup(log)
        self._not_before.pop(key, None)
        for memory in (self._reports, self._not_before):
            while len(memory) > MAX_REPORTS:
                del memory[next(iter(memory))]


def _is_started(pod: PodState) -> bool:
    return pod.is_ready and pod.running_since is not None


def learn(record: Record, pods: Iterable[PodState], reports: Mapping[str, StartupReport]) -> Record:
    """Return the record with what ready pods measured, where it says something new."""
    for pod in pods:
        report = reports.get(pod.uid)
        if report is None or pod.fingerprint is None or pod.settings is None:
            continue
        measured = measured_memory(report, pod.settings.max_num_seqs)
        if measured is None:
            continue
        if _is_news(measured, from_learned(record.learned.get(pod.fingerprint))):
            record = record.with_learned(pod.fingerprint, to_learned(measured))
    return record


def measured_memory(report: StartupReport, max_num_seqs: int) -> MeasuredMemory | None:
    """Return what a start measured; None where the log does not have the figures that count."""
    if not report.complete or report.utilization is None:
        return None
    needed = (
        report.total_bytes,
        report.free_bytes,
        report.non_kv_bytes,
        report.available_kv_bytes,
    )
    if any(one is None or one <= 0 for one in needed):
        return None
    total, free, non_kv, available = (int(one or 0) for one in needed)
    return MeasuredMemory(
        total_bytes=total,
        free_bytes=free,
        utilization=report.utilization,
        max_num_seqs=max_num_seqs,
        non_kv_bytes=non_kv,
        available_kv_bytes=available,
        graph_bytes_estimated=report.graph_bytes_estimated or 0,
        graph_bytes_actual=report.graph_bytes_actual,
        weights_bytes=report.weights_bytes,
        peak_activation_bytes=report.peak_activation_bytes,
        non_torch_bytes=report.non_torch_bytes,
        kv_tokens=report.kv_tokens,
        max_concurrency=report.max_concurrency,
        max_model_len=report.max_concurrency_len,
    )


def to_learned(measured: MeasuredMemory) -> dict[str, Any]:
    """Return the figures as they stand in the record."""
    return {name: value for name, value in asdict(measured).items() if value is not None}


def from_learned(raw: Mapping[str, Any] | None) -> MeasuredMemory | None:
    """Read figures back; None where they are absent or not numbers."""
    if not raw:
        return None
    known = {one.name for one in fields(MeasuredMemory)}
    values = {name: value for name, value in raw.items() if name in known and _is_number(value)}
    try:
        return MeasuredMemory(**values)
    except TypeError:
        return None


def smallest_pool(pods: Iterable[PodState], reports: Mapping[str, StartupReport]) -> int | None:
    """Return the smallest KV cache in tokens that these pods reported."""
    sizes = [
        tokens
        for pod in pods
        if (report := reports.get(pod.uid)) is not None and (tokens := report.kv_tokens)
    ]
    return min(sizes, default=None)


def _is_news(new: MeasuredMemory, old: MeasuredMemory | None) -> bool:
    """Another setting was measured, or the same with less free memory than ever."""
    if old is None or (new.utilization, new.max_num_seqs) != (old.utilization, old.max_num_seqs):
        return True
    return new.free_bytes < old.free_bytes


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
