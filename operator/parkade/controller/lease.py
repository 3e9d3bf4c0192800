"""One operator at a time: a Lease that is taken before anything is written, and renewed.

Two operators for a moment would do little harm (server-side apply with one manager, names that
follow from the endpoint), but they would not share what they plan. So whoever loses the Lease ends.
The client library's election is not used: its calls would bypass the table of used resources, it
keeps no Lease on a clean stop for the next to take at once, and its clock can't be given.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from parkade.adapters import rbac
from parkade.adapters.cluster import Cluster, Raw
from parkade.adapters.errors import AdapterError, ConflictError
from parkade.api import names

logger = logging.getLogger(__name__)

DURATION_SECONDS = 15.0
"""As client-go's defaults: a Lease not renewed for so long may be taken by another."""
RENEW_DEADLINE_SECONDS = 10.0
RETRY_SECONDS = 2.0
TIMEOUTS = {"connect_timeout_seconds": 2.0, "read_timeout_seconds": 3.0}
"""Of its two calls, so that an API server that hangs is known before the Lease runs out."""


@dataclass(slots=True)
class Lease:
    """A Lease object and us as one who wants it."""

    cluster: Cluster
    namespace: str
    name: str
    identity: str
    clock: Callable[[], float]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _seen: tuple[str, str] = field(default=("", ""))
    """Holder and renew time that were seen last; their age is by our own clock alone."""
    _seen_at: float = field(default=0.0)

    def try_take(self) -> bool:
        """Take or renew the Lease; False where another holds it.

        Raises AdapterError where the API server can't be asked, and ConflictError where somebody
        wrote it at the same time: who holds it is seen at the next try.
        """
        held = self.cluster.get(rbac.LEASES, self.namespace, self.name)
        if held is None:
            self.cluster.create(rbac.LEASES, self._body({}, {}))
            return True
        if not self._may_take(held):
            return False
        self.cluster.update(rbac.LEASES, self._body(held["metadata"], held.get("spec") or {}))
        return True

    def release(self) -> None:
        """Let the next take it at once; a failure to do so only costs it a few seconds."""
        try:
            held = self.cluster.get(rbac.LEASES, self.namespace, self.name)
            if held is None or (held.get("spec") or {}).get("holderIdentity") != self.identity:
                return
            spec = {**held["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            self.cluster.update(rbac.LEASES, {**held, "spec": spec})
        except AdapterError as error:
            logger.info("The lease was not released: %s", error)

    def _may_take(self, held: Raw) -> bool:
        spec = held.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self.identity):
            return True
        seen = (holder, str(spec.get("renewTime")))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self.clock()
        duration = float(spec.get("leaseDurationSeconds") or DURATION_SECONDS)
        return self.clock() - self._seen_at > duration

    def _body(self, meta: Raw, spec: Raw) -> dict[str, Any]:
        stamp = self.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = spec.get("holderIdentity") == self.identity
        return {
            "apiVersion": rbac.LEASES.api_version,
            "kind": rbac.LEASES.kind,
            "metadata": {
                "namespace": self.namespace,
                "name": self.name,
                "labels": {"app.kubernetes.io/managed-by": names.FIELD_MANAGER},
                **({"resourceVersion": meta["resourceVersion"]} if meta else {}),
            },
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": int(DURATION_SECONDS),
                "acquireTime": spec.get("acquireTime", stamp) if mine else stamp,
                "renewTime": stamp,
                "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (0 if mine else 1),
            },
        }


def take(lease: Lease, stop: threading.Event) -> bool:
    """Wait until the Lease is ours; False where `stop` came first."""
    said = False
    while not stop.is_set():
        try:
            if lease.try_take():
                return True
            if not said:
                logger.info("Waiting for the lease %s/%s", lease.namespace, lease.name)
                said = True
        except ConflictError:
            logger.debug("Another was faster")
        except AdapterError as error:
            logger.warning("The lease can't be taken: %s", error)
        stop.wait(RETRY_SECONDS)
    return False


def keep(lease: Lease, stop: threading.Event, on_lost: Callable[[str], None]) -> None:
    """Renew the Lease until `stop`; call `on_lost` once where that fails for too long."""
    renewed = lease.clock()
    while not stop.wait(RETRY_SECONDS):
        problem = ""
        try:
            if lease.try_take():
                renewed = lease.clock()
                continue
            problem = "another process holds it"
        except AdapterError as error:
            problem = str(error)
            if lease.clock() - renewed < RENEW_DEADLINE_SECONDS:
                continue
        on_lost(problem)
        return
