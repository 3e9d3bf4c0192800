"""A service account of one test, whose rights can be taken away and given back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from parkade.adapters import rbac

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
MERGE = {"Content-Type": "application/merge-patch+json"}

Rule = dict[str, list[str]]


class Account:
    """The account; at first it may do what the operator names, and nothing else."""

    def __init__(self, control_plane: Any, namespace: str, folder: Path) -> None:
        self._http = control_plane.http
        self.name = f"operator-{namespace}"
        self.namespace = namespace
        self._role = f"{RBAC}/clusterroles/{self.name}"
        self._binding = f"{RBAC}/clusterrolebindings/{self.name}"
        self._make()
        self.kubeconfig = self._write(Path(control_plane.kubeconfig), folder)

    def may(self, rules: list[Rule]) -> None:
        """From now on it may do this."""
        self._http.patch(self._role, json={"rules": rules}, headers=MERGE).raise_for_status()

    def may_everything_again(self) -> None:
        self.may(rbac.rules())

    def may_no_longer(self, resource: str, *verbs: str) -> None:
        """Take verbs of a resource away; without verbs, all of them."""
        left = []
        for rule in rbac.rules():
            kept = [one for one in rule["verbs"] if verbs and one not in verbs]
            if resource not in rule["resources"]:
                left.append(rule)
            elif kept:
                left.append({**rule, "verbs": kept})
        self.may(left)

    def remove(self) -> None:
        self._http.delete(self._binding)
        self._http.delete(self._role)

    def _make(self) -> None:
        meta = {"metadata": {"name": self.name}}
        accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        self._http.post(accounts, json=meta).raise_for_status()
        role = {**meta, "rules": rbac.rules()}
        self._http.post(f"{RBAC}/clusterroles", json=role).raise_for_status()
        binding = {
            **meta,
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": self.name},
            "subjects": [
                {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
            ],
        }
        self._http.post(f"{RBAC}/clusterrolebindings", json=binding).raise_for_status()

    def _write(self, admin: Path, folder: Path) -> Path:
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token"
        answer = self._http.post(path, json={"spec": {"expirationSeconds": 7200}})
        token = answer.json()["status"]["token"]
        config = yaml.safe_load(admin.read_text("utf-8"))
        user = config["contexts"][0]["context"]["user"]
        config["users"] = [{"name": user, "user": {"token": token}}]
        written = folder / "account.kubeconfig"
        written.write_text(yaml.safe_dump(config), "utf-8")
        return written


@contextmanager
def account(control_plane: Any, namespace: str, folder: Path) -> Iterator[Account]:
    made = Account(control_plane, namespace, folder)
    try:
        yield made
    finally:
        made.remove()
