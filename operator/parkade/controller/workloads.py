"""The traffic of all endpoints: one set of queries for each server and window, shared by all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from parkade.adapters.errors import AdapterError, ForbiddenError
from parkade.adapters.prometheus import Prometheus
from parkade.adapters.traffic import Traffic, read_traffic
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


@dataclass(slots=True)
class Workloads:
    """Readings by server and window. `clock` is monotonic, `unix_time` is the wall's."""

    settings: OperatorSettings
    metrics: Metrics
    clock: Callable[[], float]
    unix_time: Callable[[], float]
    on_new: Callable[[], None]
    """Called after each reading, so that the endpoints are looked at again."""
    _clients: dict[str, Prometheus] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _answers: Background[Slot, Traffic | CannotTell] = field(init=False)

    def __post_init__(self) -> None:
        self._answers = Background(
            "traffic",
            self._ask,
            self.clock,
            self.settings.evaluation_seconds,
            on_new=lambda _slot: self.on_new(),
        )

    def of(
        self, server: str, window_seconds: int, target: Target | None = None
    ) -> Traffic | CannotTell:
        """Return the newest reading; CannotTell/Initializing until the first one is there.

        Nothing labels the metrics of a `target`, so its pods are asked for by their names.
        """
        if self.settings.server(server) is None:
            return CannotTell(
                Reason.UNKNOWN_PROMETHEUS,
                f"workload.prometheusRef names {server!r}, which is not in the operator's "
                "configuration; add it under `prometheus`.",
            )
        waiting = CannotTell(Reason.INITIALIZING, f"Prometheus {server!r} is being asked.")
        return self._answers.newest((server, window_seconds, target)) or waiting

    def stop(self) -> None:
        """Start no further reading."""
        self._answers.stop()
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

    def _client(self, name: str, configured: PrometheusSettings) -> Prometheus:
        with self._lock:
            if name not in self._clients:
                self._clients[name] = Prometheus(configured.server)
            return self._clients[name]
