"""Every resource and verb that Parkade uses: the chart's RBAC is tested against this.

Calls name a row of this table and are refused here when the row does not list their verb, so the
table can't drift from the code. Kopf's watches read the same rows (`WATCHED`).
"""

from __future__ import annotations

from dataclasses import dataclass

from parkade.api import names


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object as the API server addresses it, with the verbs that Parkade uses."""

    group: str
    version: str
    plural: str
    kind: str
    verbs: tuple[str, ...]
    subresource: str = ""
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Group and version as in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def rule(self) -> str:
        """The resource as RBAC rules name it."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


READ = ("get", "list", "watch")
APPLY = ("create", "patch")

ENDPOINTS = Resource(names.GROUP, names.VERSION, names.PLURAL, names.KIND, READ)
ENDPOINTS_STATUS = Resource(
    names.GROUP, names.VERSION, names.PLURAL, names.KIND, ("patch",), "status"
)
ENDPOINTS_FINALIZERS = Resource(
    names.GROUP, names.VERSION, names.PLURAL, names.KIND, ("update",), "finalizers"
)
"""Never called: the admission plugin OwnerReferencesPermissionEnforcement (on by default on
OpenShift) asks for it where an owner reference blocks the owner's deletion, as ours do."""
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", (*READ, *APPLY))
REPLICASETS = Resource("apps", "v1", "replicasets", "ReplicaSet", ("list", "watch"))
PODS = Resource("", "v1", "pods", "Pod", ("list", "watch"))
PODS_LOG = Resource("", "v1", "pods", "Pod", ("get",), "log")
SERVICES = Resource("", "v1", "services", "Service", ("list", "watch", *APPLY))
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", (*READ, *APPLY))
EVENTS = Resource("", "v1", "events", "Event", ("get", "list", "create", "patch"))
NODES = Resource("", "v1", "nodes", "Node", ("list",), namespaced=False)
DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", ("list", "watch")
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", ("get", "create", "update"))

USED: tuple[Resource, ...] = (
    ENDPOINTS,
    ENDPOINTS_STATUS,
    ENDPOINTS_FINALIZERS,
    DEPLOYMENTS,
    REPLICASETS,
    PODS,
    PODS_LOG,
    SERVICES,
    CONFIGMAPS,
    EVENTS,
    NODES,
    DISRUPTION_BUDGETS,
    LEASES,
)
"""All of it. Leases are needed in the operator's own namespace alone."""

WATCHED: tuple[Resource, ...] = (
    ENDPOINTS,
    DEPLOYMENTS,
    REPLICASETS,
    PODS,
    SERVICES,
    CONFIGMAPS,
    DISRUPTION_BUDGETS,
)
"""What Kopf lists and watches. All but the resource itself and the budgets by our label alone."""


def rules() -> list[dict[str, list[str]]]:
    """Return the RBAC rules of all that is used, one rule for each resource, as in a manifest."""
    return [
        {"apiGroups": [used.group], "resources": [used.rule], "verbs": list(used.verbs)}
        for used in USED
    ]
