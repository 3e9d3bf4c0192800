"""Certificates for one throw-away cluster: an authority, servers, and who may do what."""

import base64
from dataclasses import dataclass
from pathlib import Path

import trustme
import yaml

SERVICE_ADDRESS = "10.96.0.1"
SERVER_NAMES = (
    "localhost",
    "127.0.0.1",
    SERVICE_ADDRESS,
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
# Kubernetes reads the user from the common name and the group from the organisation.
CLIENTS = {
    "admin": ("parkade-testbed-admin", "system:masters"),
    "kubelet-client": ("parkade-testbed-kubelet-client", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", "system:kube-controller-manager"),
    "scheduler": ("system:kube-scheduler", "system:kube-scheduler"),
    "proxy": ("system:kube-proxy", "system:node-proxier"),
}


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate chain and its key, as files."""

    certificate: Path
    key: Path


class Certificates:
    """Issues certificates into a folder that only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._authority = trustme.CA()
        self.authority = folder / "ca.crt"
        self._authority.cert_pem.write_to_path(str(self.authority))

    def client(self, name: str) -> KeyPair:
        """The certificate of one of CLIENTS."""
        user, group = CLIENTS[name]
        # A certificate without a single name has an empty critical extension, which Go refuses.
        return self.issue(name, user=user, group=group, server_names=(name,))

    def issue(self, name: str, *, user: str, group: str, server_names: tuple[str, ...]) -> KeyPair:
        """A certificate for `user` in `group`, and for `server_names` (one or more)."""
        issued = self._authority.issue_cert(
            *server_names, common_name=user, organization_name=group
        )
        pair = KeyPair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        pair.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        pair.key.touch(mode=0o600)
        issued.private_key_pem.write_to_path(str(pair.key))
        return pair

    def kubeconfig(self, path: Path, server: str, pair: KeyPair) -> Path:
        """Write a kubeconfig that holds everything itself, so that it can be copied."""
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(self._kubeconfig(server, pair)), encoding="utf-8")
        return path

    def _kubeconfig(self, server: str, pair: KeyPair) -> dict[str, object]:
        name = "parkade-testbed"
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "clusters": [
                {
                    "name": name,
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": _base64(self.authority),
                    },
                }
            ],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate-data": _base64(pair.certificate),
                        "client-key-data": _base64(pair.key),
                    },
                }
            ],
        }


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
