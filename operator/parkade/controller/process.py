"""The process around the passes: queue, workers, views, resync, probes. Kopf feeds it.

`operator.py` calls `saw`, `deleted` and `watching`; everything else is here, and works without
Kopf.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from parkade.adapters import rbac
from parkade.adapters.cluster import Cluster
from parkade.adapters.errors import AdapterError
from parkade.adapters.hub import Hub
from parkade.adapters.rbac import Resource
from parkade.api import names
from parkade.controller.apply import Writer
from parkade.controller.evidence import EvidenceKeeper
from parkade.controller.hardware import Hardware
from parkade.controller.health import Health, HealthServer
from parkade.controller.learn import StartupReader
from parkade.controller.metrics import Metrics
from parkade.controller.models import Models
from parkade.controller.queue import WorkQueue
from parkade.controller.reconcile import Reconciler
from parkade.controller.settings import OperatorSettings, host_and_port
from parkade.controller.targets import Targets
from parkade.controller.turns import Turns
from parkade.controller.views import EndpointKey, Raw, Views
from parkade.controller.workers import Workers
from parkade.controller.workloads import Target, Workloads

logger = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
STOP_SECONDS = 10.0
"""How long passes under way may take to end; they can be killed between any two writes."""


@dataclass(slots=True)
class Process:
    """One operator."""

    cluster: Cluster
    settings: OperatorSettings
    metrics: Metrics = field(default_factory=Metrics)
    views: Views = field(default_factory=Views)
    stopping: threading.Event = field(default_factory=threading.Event)
    queue: WorkQueue[EndpointKey] = field(init=False)
    workers: Workers = field(init=False)
    reconciler: Reconciler = field(init=False)
    ports: tuple[int, ...] = field(default=())
    """Of the probes and the metrics, once started."""
    _complete: threading.Event = field(default_factory=threading.Event)
    _watching: threading.Event = field(default_factory=threading.Event)
    _starting: threading.Lock = field(default_factory=threading.Lock)
    _servers: list[HealthServer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue = WorkQueue(clock=time.monotonic, random=random.random)
        self.reconciler = self._reconciler()
        self.workers = Workers(
            self.queue, self.reconciler.reconcile, self.metrics, self.settings.workers
        )
        self.metrics.watch_queue(self.queue.state)
        self.metrics.count_endpoints(lambda: len(self.views.endpoints()))
        self.metrics.numbers.of_endpoints(self.views.endpoints)

    def start(self) -> None:
        """Start probes and resync. Raises OSError where an address is taken."""
        health = Health(
            watching=self._watching.is_set,
            workers_alive=self.workers.alive,
            oldest_dirty_seconds=lambda: self.queue.state().oldest_dirty_seconds,
        )
        for address in (self.settings.health_address, self.settings.metrics_address):
            server = HealthServer(health, self.metrics.registry, host_and_port(address))
            self.ports += (server.start(),)
            self._servers.append(server)
        self._in_thread(self._resync_for_ever, "resync")

    def watching(self) -> None:
        """Say that the watches are up: once everything could be listed, the operator is ready.

        Kopf says so even where it may not list a kind, and then no pass would ever begin.
        """
        self._in_thread(self._list_at_last, "first listing")

    def blind(self) -> None:
        """Say that the watches are down; passes go on with what is known."""
        self._watching.clear()

    def views_complete(self) -> None:
        """Say that everything that was there at the start is in the views: passes may begin.

        A pass over half a view would take a running endpoint for a new one.
        """
        with self._starting:
            if not self._complete.is_set():
                self._complete.set()
                self.workers.start()

    def saw(self, resource: Resource, body: Raw) -> None:
        """Take in what a watch brought, and mark the endpoints that it concerns."""
        edited = resource is rbac.ENDPOINTS and self._is_edited(body)
        if self.views.put(resource, body):
            for key in self.views.keys_of(resource, body):
                self.queue.mark(key, afresh=edited)

    def deleted(self, resource: Resource, body: Raw) -> None:
        """Take in a deletion."""
        self.views.drop(resource, body)
        for key in self.views.keys_of(resource, body):
            if resource is rbac.ENDPOINTS and self.views.endpoint(key) is None:
                self.queue.forget(key)
            else:  # of an endpoint itself: a namesake came before this was known
                self.queue.mark(key)

    def stop(self) -> None:
        """End: no new pass, those under way finish or are left where they are."""
        self.stopping.set()
        self.queue.stop()
        for source in (
            self.reconciler.workloads,
            self.reconciler.models,
            self.reconciler.hardware,
        ):
            source.stop()
        if self._complete.is_set() and not self.workers.join(STOP_SECONDS):
            logger.warning("A pass did not end in time; the next start continues it")
        for server in self._servers:
            server.stop()

    def mark_all(self) -> None:
        """Mark every endpoint."""
        for key in self.views.endpoints():
            self.queue.mark(key)

    def mark_readers(self, target: Target | None) -> None:
        """Mark the endpoints that a reading is of: those that advise on a target, else all."""
        for key in self.views.endpoints():
            if target in (None, (key[0], _target_name(self.views.endpoint(key)))):
                self.queue.mark(key)

    def resync(self) -> None:
        """List everything, since watches may have missed deletions, and mark every endpoint."""
        for resource in rbac.WATCHED:
            before = self.views.uids(resource)
            listed = self._list(resource)
            self.views.replace_all(resource, listed, before)
        self.mark_all()

    def _list(self, resource: Resource) -> list[Raw]:
        selector = label_selector(resource)
        namespaces: tuple[str | None, ...] = self.settings.namespaces or (None,)
        return [
            {"apiVersion": resource.api_version, "kind": resource.kind, **body}
            for namespace in namespaces
            for body in self.cluster.list(resource, namespace, label_selector=selector)
        ]

    def _list_at_last(self) -> None:
        """List everything once, however long it takes until that is allowed."""
        while not self.stopping.is_set():
            try:
                self.resync()
            except AdapterError as error:
                logger.warning("Not ready, since not everything can be listed: %s", error)
                self.stopping.wait(RETRY_SECONDS)
            else:
                self.views_complete()
                self._watching.set()
                return

    def _resync_for_ever(self) -> None:
        while not self.stopping.wait(self.settings.resync_seconds * random.uniform(0.9, 1.1)):  # noqa: S311
            try:
                self.resync()
            except AdapterError as error:
                logger.warning("The resync failed: %s", error)

    def _is_edited(self, body: Raw) -> bool:
        meta = body.get("metadata") or {}
        held = self.views.endpoint((str(meta.get("namespace")), str(meta.get("name"))))
        return held is None or (held.get("metadata") or {}).get("generation") != meta.get(
            "generation"
        )

    def _in_thread(self, target: Callable[[], None], name: str) -> None:
        threading.Thread(target=target, name=name, daemon=True).start()

    def _reconciler(self) -> Reconciler:
        hub = Hub(self.settings.hub.url) if self.settings.hub.url else None
        return Reconciler(
            settings=self.settings,
            views=self.views,
            writer=Writer(self.cluster, self.views, self.metrics),
            evidence=EvidenceKeeper(self.cluster),
            startups=StartupReader(self.cluster, time.monotonic),
            workloads=Workloads(
                self.settings, self.metrics, time.monotonic, time.time, self.mark_readers
            ),
            models=Models(self.cluster, hub, time.monotonic, self.mark_all),
            targets=Targets(self.cluster),
            hardware=Hardware(self.cluster, time.monotonic, self.mark_all),
            turns=Turns(self.views, self.settings.max_concurrent_rollouts),
            metrics=self.metrics,
        )


def _target_name(endpoint: Raw | None) -> object:
    target = ((endpoint or {}).get("spec") or {}).get("targetRef")
    return target.get("name") if isinstance(target, dict) else None


def label_selector(resource: Resource) -> str:
    """Return the label selector of a watched kind; the resource itself and budgets have none."""
    if resource in (rbac.ENDPOINTS, rbac.DISRUPTION_BUDGETS):
        return ""
    return names.ENDPOINT_LABEL
