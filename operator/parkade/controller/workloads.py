"""The traffic of all endpoints: one set of queries for each server and window, shared by all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from parkade.adapters.errors import AdapterError, ForbiddenError
from parkade.adapters.prometheus import Prometheus
from parkade.adapters.traffic import TOTAL_TIMEOUTS, Traffic, read_traffic
from parkade.api.conditions import Reason
from parkade.controller.background import Background
from parkade.controller.metrics import Metrics
from parkade.controller.settings import OperatorSettings, PrometheusSettings
from parkade.sizing.workload import CannotTell

logger = logging.getLogger(__name__)

Target = tuple[str, str]
"""Namespace and name of a Deployment that is only advised on."""

Slot = tuple[str, int, Target | None]
"""Name of the server, length of the window in seconds, and the target; None: all endpoints."""

OLD_AFTER_READS = 5
"""A reading that is older than so many intervals, and a time-out, decides nothing any more."""


@dataclass(slots=True)
class Workloads:
    """Readings by server and window. `clock` is monotonic, `unix_time` is the wall's."""

    settings: OperatorSettings
    metrics: Metrics
    clock: Callable[[], float]
    unix_time: Callable[[], float]
    on_new: Callable[[Target | None], None]
    """Called after each reading, so that the endpoints that it is of are looked at again."""
    _clients: dict[str, Prometheus] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _answers: dict[str, Background[Slot, Traffic | CannotTell]] = field(default_factory=dict)
    """By server, each with threads of its own: one that hangs holds up no other."""

    def __post_init__(self) -> None:
        for one in self.settings.prometheus:
            self._answers[one.name] = Background(
                f"traffic-{one.name}",
                self._ask,
                self.clock,
                self.settings.evaluation_seconds,
                on_new=lambda slot: self.on_new(slot[2]),
            )

    def of(
        self, server: str, window_seconds: int, target: Target | None = None
    ) -> Traffic | CannotTell:
        """Return the newest reading; CannotTell/Initializing until the first one is there.

        Nothing labels the metrics of a `target`, so its pods are asked for by their names.
        """
        answers, configured = self._answers.get(server), self.settings.server(server)
        if answers is None or configured is None:
            return CannotTell(
                Reason.UNKNOWN_PROMETHEUS,
                f"workload.prometheusRef names {server!r}, which is not in the operator's "
                "configuration; add it under `prometheus`.",
            )
        answer = answers.newest((server, window_seconds, target))
        if answer is None:
            return CannotTell(Reason.INITIALIZING, f"Prometheus {server!r} is being asked.")
        if not isinstance(answer, Traffic):
            return answer
        age_seconds = self.unix_time() - answer.at
        longest = OLD_AFTER_READS * self.settings.evaluation_seconds
        if age_seconds <= longest + TOTAL_TIMEOUTS * configured.timeout_seconds:
            return answer
        return CannotTell(
            Reason.PROMETHEUS_UNAVAILABLE,
            f"Prometheus {server!r} was last read {age_seconds:.0f} s ago.",
        )

    def stop(self) -> None:
        """Start no further reading."""
        for answers in self._answers.values():
            answers.stop()
        with self._lock:
            for client in self._clients.values():
                client.close()

    def _ask(self, slot: Slot) -> Traffic | CannotTell:
        answer = self._read(slot)
        outcome = answer.reason.value if isinstance(answer, CannotTell) else "ok"
        self.metrics.traffic_reads.labels(slot[0], outcome).inc()
        return answer

    def _read(self, slot: Slot) -> Traffic | CannotTell:
        name, window_seconds, target = slot
        configured = self.settings.server(name)
        if configured is None:
            return CannotTell(Reason.UNKNOWN_PROMETHEUS, f"{name!r} is not configured.")
        scope = configured.scope(window_seconds, self.settings.namespaces, target)
        try:
            return read_traffic(self._client(name, configured), scope, at=self.unix_time())
        except ForbiddenError as error:
            return CannotTell(Reason.PROMETHEUS_UNAVAILABLE, f"{error} (check its credentials)")
        except AdapterError as error:
            logger.warning("%s", error)
            return CannotTell(Reason.PROMETHEUS_UNAVAILABLE, str(error))
        except Exception as error:  # a bug must not let yesterday's traffic decide
            logger.exception("Reading Prometheus %s failed", name)
            message = f"Reading failed ({type(error).__name__}); the operator's log has more."
            return CannotTell(Reason.PROMETHEUS_UNAVAILABLE, message)

    def _client(self, name: str, configured: PrometheusSettings) -> Prometheus:
        with self._lock:
            if name not in self._clients:
                self._clients[name] = Prometheus(configured.server)
            return self._clients[name]
