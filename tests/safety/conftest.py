"""The control plane with the CRD, the operator's credentials, and a namespace with GPUs."""

import pytest

from parkade.cli.crd import manifest
from support import operators
from support.place import GROUP, Place
from testbed.waiting import wait_until


def with_crd(control_plane):
    """Install the CRD and wait until it is served."""
    control_plane.kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest()
    )
    wait_until(
        lambda: control_plane.http.get(f"{GROUP}/inferenceendpoints").is_success, "the CRD", 30
    )
    return control_plane


@pytest.fixture(scope="session")
def served(control_plane):
    return with_crd(control_plane)


@pytest.fixture(scope="session")
def kubeconfig(served, tmp_path_factory):
    """The operator's credentials: exactly the rights that it names."""
    return operators.kubeconfig_with_rights(served, tmp_path_factory.mktemp("operator"))


@pytest.fixture
def gpus():
    """How many GPUs there are; tests say otherwise with `parametrize`."""
    return 8


@pytest.fixture
def place(served, namespace, gpus):
    found = Place(served, namespace)
    found.give_model()
    with found.node(gpus):
        yield found
