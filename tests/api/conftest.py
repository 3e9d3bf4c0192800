"""The CRD in a real API server, and a namespace to try resources in."""

import pytest

from parkade.cli.crd import manifest
from testbed.waiting import wait_until

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "inferenceendpoints.serving.parkade.dev"


@pytest.fixture(scope="session")
def crd(control_plane):
    """Installs the CRD; returns the control plane once it serves the resource."""
    control_plane.kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest()
    )

    def established() -> bool:
        found = control_plane.http.get(f"{CRD}/{NAME}").json()
        conditions = {one["type"]: one for one in found["status"].get("conditions") or ()}
        assert "NonStructuralSchema" not in conditions, conditions["NonStructuralSchema"]
        return conditions["Established"]["status"] == "True"

    wait_until(established, "the CRD to be established", not_yet=(KeyError,))
    wait_until(
        lambda: control_plane.http.get("/apis/serving.parkade.dev/v1alpha1").is_success,
        "the API server to serve the resource",
    )
    return control_plane
