"""A throw-away cluster that the person already has, named by TEST_KUBECONFIG."""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import httpx

from testbed.cluster import binaries
from testbed.cluster.errors import TestbedError
from testbed.cluster.processes import Program, run
from testbed.waiting import wait_until

VARIABLE = "TEST_KUBECONFIG"


def named_kubeconfig() -> Path | None:
    """The file TEST_KUBECONFIG names; KUBECONFIG is never read, it is often production."""
    value = os.environ.get(VARIABLE, "")
    if not value:
        return None
    path = Path(value).expanduser()
    if not path.is_file():
        raise TestbedError(f"{VARIABLE} names {path}, which is not a file: correct or unset it")
    return path


class ExistingCluster:
    """Looks like a ControlPlane to tests, except that its programs are not ours to stop."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        on_path = shutil.which("kubectl")
        self._kubectl = Path(on_path) if on_path else binaries.ensure(["kubectl"])["kubectl"]
        self.server = self.kubectl(
            "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"
        )
        # kubectl's own proxy knows every way of logging in that a kubeconfig can name.
        self._folder = tempfile.TemporaryDirectory(prefix="parkade-testbed-")
        self._proxy = Program(
            "kubectl proxy",
            [self._kubectl, "--kubeconfig", kubeconfig, "proxy", "--port=0"],
            Path(self._folder.name) / "proxy.log",
        )
        self._proxy.start()
        address = wait_until(self._proxy_address, "kubectl proxy to listen", 10)
        self.http = httpx.Client(base_url=f"http://{address}", timeout=30, trust_env=False)

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run kubectl against it; raises TestbedError with kubectl's words when it fails."""
        return run(self._kubectl, "--kubeconfig", self.kubeconfig, *arguments, stdin=stdin)

    def stop(self) -> None:
        """Let go of it; it runs on."""
        self.http.close()
        self._proxy.stop()
        self._folder.cleanup()

    def audit_events(self) -> list[dict[str, Any]]:
        raise _not_ours("read its audit log")

    def stop_apiserver(self) -> None:
        raise _not_ours("stop its API server")

    def start_apiserver(self) -> None:
        raise _not_ours("start its API server")

    def restart_apiserver(self) -> None:
        raise _not_ours("restart its API server")

    def _proxy_address(self) -> str | None:
        self._proxy.fail_if_exited()
        found = re.search(r"Starting to serve on (\S+)", self._proxy.log_end())
        return found[1] if found else None


def _not_ours(what: str) -> TestbedError:
    return TestbedError(f"{VARIABLE} names a cluster that is not ours to {what}: unset it")
