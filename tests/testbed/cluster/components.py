"""The command lines of the control plane's programs. Each flag that is not obvious says why."""

from dataclasses import dataclass
from pathlib import Path

from testbed.cluster.certificates import KeyPair

SERVICE_RANGE = "10.96.0.0/16"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command lines have in common."""

    folder: Path
    authority: Path
    keys: dict[str, KeyPair]
    api_port: int
    etcd_port: int
    etcd_peer_port: int
    advertise: str = LOOPBACK

    @property
    def server(self) -> str:
        return f"https://{self.advertise}:{self.api_port}"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.jsonl"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit-policy.yaml"

    def kubeconfig(self, name: str) -> Path:
        return self.folder / f"{name}.kubeconfig"


def etcd(settings: Settings) -> list[str]:
    clients = f"http://{LOOPBACK}:{settings.etcd_port}"
    peers = f"http://{LOOPBACK}:{settings.etcd_peer_port}"
    return [
        f"--data-dir={settings.folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",  # the data is thrown away; a disk shared with builds is slow
        "--log-level=warn",
    ]


def kube_apiserver(settings: Settings, *, audit: bool) -> list[str]:
    serving, kubelet = settings.keys["apiserver"], settings.keys["kubelet-client"]
    accounts = settings.keys["service-accounts"].key
    return [
        f"--etcd-servers=http://{LOOPBACK}:{settings.etcd_port}",
        f"--secure-port={settings.api_port}",
        f"--advertise-address={settings.advertise}",
        *_reach(settings),
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--cert-dir={settings.folder / 'apiserver'}",
        f"--client-ca-file={settings.authority}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={accounts}",
        f"--service-account-signing-key-file={accounts}",
        "--authorization-mode=Node,RBAC",
        # The second as on OpenShift: owner references that block need a right of their own.
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
        "--allow-privileged=true",
        f"--kubelet-client-certificate={kubelet.certificate}",
        f"--kubelet-client-key={kubelet.key}",
        f"--kubelet-certificate-authority={settings.authority}",
        "--kubelet-preferred-address-types=InternalIP",
        *(_audit(settings) if audit else []),
    ]


def kube_controller_manager(settings: Settings) -> list[str]:
    return [
        f"--kubeconfig={settings.kubeconfig('controller-manager')}",
        "--use-service-account-credentials",
        f"--root-ca-file={settings.authority}",
        f"--service-account-private-key-file={settings.keys['service-accounts'].key}",
        "--leader-elect=false",  # one of it; a lease would only add writes to the audit log
        "--secure-port=0",
    ]


def kube_scheduler(settings: Settings) -> list[str]:
    return [
        f"--kubeconfig={settings.kubeconfig('scheduler')}",
        "--leader-elect=false",
        "--secure-port=0",
    ]


def _reach(settings: Settings) -> list[str]:
    if settings.advertise != LOOPBACK:
        return ["--bind-address=0.0.0.0"]
    # A loopback address can't be the endpoint of the Service `kubernetes`, so none is written.
    return [f"--bind-address={LOOPBACK}", "--endpoint-reconciler-type=none"]


def _audit(settings: Settings) -> list[str]:
    return [
        f"--audit-policy-file={settings.audit_policy}",
        f"--audit-log-path={settings.audit_log}",
        "--audit-log-mode=blocking",  # a request's line is there when its answer is
    ]
