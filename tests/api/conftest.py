"""The CRD in a real API server, and a namespace to try resources in."""

import pytest

from parkade.cli.crd import manifest
from testbed.waiting import wait_until

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
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
    for path in (
        "/apis/serving.parkade.dev/v1alpha1",
        "/openapi/v3/apis/serving.parkade.dev/v1alpha1",
    ):
        wait_until(
            lambda path=path: control_plane.http.get(path).is_success, f"{path} to be served"
        )
    wait_until(
        lambda: "serving.parkade.dev" in control_plane.http.get("/apis", headers=AGGREGATED).text,
        "discovery to name the resource, as kubectl asks for it",
    )
    return control_plane
