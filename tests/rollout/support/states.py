"""Observed values for tables: an endpoint at rest, and what can be changed about it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from parkade.api.conditions import Reason
from parkade.api.endpoint import Endpoint
from parkade.api.settings import Settings
from parkade.api.status import Origin
from parkade.rollout.actions import Desired, PlanInputs
from parkade.rollout.observed import DeploymentState, PodState, Termination
from parkade.rollout.record import Candidate, Record
from parkade.rollout.render import render_revision
from parkade.rollout.revision import Revision
from rollout.support.objects import TOTAL, at, endpoint, settings

NOW = at(10_000)


def revision(of: Endpoint | None = None, some: Settings | None = None) -> Revision:
    return render_revision(of or endpoint(), some or settings())


def pod(of: Revision, name: str = "pod-1", **changes: Any) -> PodState:
    """A pod that has been ready for long."""
    return replace(
        PodState(
            name=name,
            uid=f"uid-{name}",
            owner_uid="rs-1",
            revision=of.hash,
            settings=of.settings,
            phase="Running",
            created_at=at(0),
            started_at=at(1),
            ready_since=at(60),
            running_since=at(5),
            scheduled=True,
            node="node-1",
        ),
        **changes,
    )


def starting(of: Revision, name: str = "new-1", since: datetime = NOW, **changes: Any) -> PodState:
    """A pod whose container runs and is not ready yet."""
    return pod(
        of,
        name,
        **{
            "created_at": since,
            "started_at": since,
            "running_since": since,
            "ready_since": None,
            "unready_since": since,
            **changes,
        },
    )


def crashed(of: Revision, number: int = 1, name: str = "new-1", **changes: Any) -> PodState:
    """A pod that ended so often before it was ever ready."""
    end = Termination(1, "Error", "", NOW - timedelta(seconds=20), NOW)
    return starting(
        of,
        name,
        NOW - timedelta(seconds=30),
        **{
            "running_since": None,
            "restart_count": number - 1,
            "terminations": number,
            "last_termination": end,
            **changes,
        },
    )


def deployment(of: Revision, replicas: int = 1, **changes: Any) -> DeploymentState:
    """A Deployment at rest."""
    return replace(
        DeploymentState(
            name="contracts",
            uid="deployment-1",
            owner_uid="uid-1",
            resource_version="5",
            generation=1,
            observed_generation=1,
            revision=of.hash,
            template=of.template,
            raw={},
            settings=of.settings,
            fingerprint=of.fingerprint,
            inputs=of.inputs,
            replicas=replicas,
            status_replicas=replicas,
            ready_replicas=replicas,
            updated_replicas=replicas,
            available_replicas=replicas,
        ),
        **changes,
    )


def at_rest(
    spec: dict[str, Any] | None = None,
    *,
    wanted: Settings | None = None,
    record: dict[str, Any] | None = None,
    **changes: Any,
) -> PlanInputs:
    """An endpoint whose last good revision runs on all pods; sizing wants `wanted`."""
    of = endpoint(spec)
    good = revision(of)
    replicas = of.spec.replicas
    return replace(
        PlanInputs(
            of,
            replace(
                Record("uid-1", last_good=good, last_good_since=at(120), settled_at=at(120)),
                **(record or {}),
            ),
            Desired(
                wanted or settings(32),
                Reason.APPLIED,
                "",
                settings(256, "0.9"),
                total_bytes=TOTAL,
            ),
            NOW,
            deployment=deployment(good, replicas),
            pods=tuple(pod(good, f"pod-{number}") for number in range(replicas)),
        ),
        **changes,
    )


def candidate(of: Revision, **changes: Any) -> Candidate:
    return replace(
        Candidate(of, Origin.TUNING, NOW - timedelta(seconds=60), headroom_bytes=6 * 1024**3),
        **changes,
    )
