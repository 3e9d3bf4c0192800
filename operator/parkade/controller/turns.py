"""How many endpoints tuning may touch at a time in the whole cluster.

The records tell which have a tuning candidate in flight; a reservation bridges the moment between
a worker's decision and its record's arrival in the views, so that two workers don't both take the
last turn.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from parkade.api.status import Origin
from parkade.controller import record_store
from parkade.controller.views import EndpointKey, Views
from parkade.rollout.record import Record


def is_tuning(record: Record | None) -> bool:
    """Tell whether a tuning candidate is in flight."""
    candidate = record.candidate if record is not None else None
    return candidate is not None and candidate.origin is Origin.TUNING


@dataclass(slots=True)
class Turns:
    """Who is being tuned."""

    views: Views
    limit: int
    _reserved: set[EndpointKey] = field(default_factory=set)
    _known: dict[EndpointKey, tuple[str, bool]] = field(default_factory=dict)
    """Whether the record of that resourceVersion tells of a tuning candidate."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def elsewhere(self, key: EndpointKey) -> int:
        """Return how many other endpoints have a tuning candidate in flight."""
        with self._lock:
            return len(self._others(key))

    def take(self, key: EndpointKey) -> bool:
        """Reserve a turn; False where others took the last one meanwhile."""
        with self._lock:
            if len(self._others(key)) >= self.limit:
                return False
            self._reserved.add(key)
            return True

    def settle(self, key: EndpointKey) -> None:
        """End a reservation: the record is in the views, or was not written."""
        with self._lock:
            self._reserved.discard(key)

    def _others(self, key: EndpointKey) -> set[EndpointKey]:
        tuned = {other for other in self.views.endpoints() if self._is_tuned(other)}
        return (tuned | self._reserved) - {key}

    def _is_tuned(self, key: EndpointKey) -> bool:
        config_map = record_store.held(self.views, *key)
        endpoint = self.views.endpoint(key)
        if config_map is None or endpoint is None:
            self._known.pop(key, None)
            return False
        version = str((config_map.get("metadata") or {}).get("resourceVersion", ""))
        known = self._known.get(key)
        if known is None or known[0] != version:
            uid = str((endpoint.get("metadata") or {}).get("uid", ""))
            known = (version, is_tuning(record_store.read(config_map, uid)))
            self._known[key] = known
        return known[1]
