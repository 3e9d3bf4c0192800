"""From the spec and settings to raw manifests."""

from __future__ import annotations

from typing import Any

from parkade.api.endpoint import Endpoint
from parkade.api.settings import Settings
from parkade.rollout.actions import Target
from parkade.rollout.revision import Revision


def render_revision(endpoint: Endpoint, settings: Settings) -> Revision:
    """Return the pod template for these settings with its hashes."""
    raise NotImplementedError((endpoint, settings))


def manifests(endpoint: Endpoint, target: Target) -> tuple[dict[str, Any], ...]:
    """Return Deployment and Service for server-side apply, in the order to apply them."""
    raise NotImplementedError((endpoint, target))
