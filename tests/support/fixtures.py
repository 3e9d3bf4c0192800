"""Pytest fixtures: a control plane with the CRD, the operator's rights, a namespace with GPUs."""

import pytest

from support import operators
from support.place import Place, with_crd


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


@pytest.fixture
def own_place(own_control_plane, gpus):
    """The same on a control plane of this test alone, which has all that ours are given."""
    served = with_crd(own_control_plane)
    served.kubectl("create", "namespace", "alone")
    found = Place(served, "alone")
    found.give_model()
    with found.node(gpus):
        yield found
