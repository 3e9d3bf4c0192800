"""The Deployment and the Service that Parkade would apply, for `kubectl apply`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from parkade.cli.errors import UsageError
from parkade.rollout.actions import Target
from parkade.rollout.render import manifests, render_revision

if TYPE_CHECKING:
    from parkade.cli.plan_case import Case


def manifests_text(case: Case, output: str) -> str:
    """Return both objects with the recommended settings: YAML documents, or a list as JSON.

    Owner references are left out: without a cluster the resource has no UID to own by.
    """
    endpoint = case.endpoint
    if endpoint.spec.engine is None:
        raise UsageError("--manifests needs spec.engine; a targetRef is only advised on")
    if output == "html":
        raise UsageError("--manifests prints YAML or JSON, not html")
    revision = render_revision(endpoint, case.sizing.settings)
    target = Target(revision, endpoint.spec.replicas, surge=True)
    objects = [_without_owner(one) for one in manifests(endpoint, target)]
    if output == "json":
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2) + "\n"
    return yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True, width=100)


def _without_owner(manifest: dict[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in manifest["metadata"].items() if key != "ownerReferences"}
    return {**manifest, "metadata": meta}
