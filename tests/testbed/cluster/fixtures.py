"""Pytest fixtures: a control plane for each session (or xdist worker), a namespace for each test.

`tests/conftest.py` loads this with `pytest_plugins = ["testbed.cluster.fixtures"]`.
"""

import uuid
from collections.abc import Iterator

import pytest

from testbed.cluster import binaries
from testbed.cluster.controlplane import ControlPlane
from testbed.cluster.errors import TestbedError
from testbed.cluster.existing import ExistingCluster, named_kubeconfig
from testbed.cluster.node import Node
from testbed.cluster.prometheus import Prometheus
from testbed.cluster.signals import end_in_order_when_told

MARKED_BY_FIXTURE = {
    "control_plane": "controlplane",
    "own_control_plane": "controlplane",
    "node": "node",
}
# The first test of a session waits for the start as well; the limit for fast tests is too short.
TIMEOUT_SECONDS = {"controlplane": 180, "node": 600}
BUILD_FAILURE = pytest.StashKey[str]()


def pytest_configure() -> None:
    """A session that is told to end still takes its clusters down."""
    end_in_order_when_told()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who uses the control plane carries its mark, so that `-m` chooses tiers without fail."""
    for item in items:
        for mark in sorted(
            {MARKED_BY_FIXTURE[one] for one in _fixtures(item) & {*MARKED_BY_FIXTURE}}
        ):
            item.add_marker(mark)
        _give_time(item)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing before the first test: no test's time limit has room for a compiler.

    A failure is told by the fixtures, in each test that needs the programs.
    """
    marks = {mark.name for item in session.items for mark in item.iter_markers()}
    wanted = binaries.NODE if "node" in marks else binaries.CONTROL_PLANE
    if session.config.option.collectonly or not marks & {"node", "controlplane"}:
        return
    if "node" not in marks and named_kubeconfig():
        return
    try:
        binaries.ensure(wanted)
    except TestbedError as error:
        session.config.stash[BUILD_FAILURE] = str(error)


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane | ExistingCluster]:
    """A real control plane without nodes, or the cluster that TEST_KUBECONFIG names."""
    cluster = _start(pytestconfig)
    yield cluster
    cluster.stop()


@pytest.fixture
def own_control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """A control plane for one test alone, for tests that stop its API server or count requests."""
    _fail_if_not_built(pytestconfig)
    with ControlPlane.started() as started:
        yield started


@pytest.fixture
def namespace(control_plane: ControlPlane | ExistingCluster) -> Iterator[str]:
    """The name of a fresh namespace; it is deleted afterwards, without waiting for it."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    made = control_plane.http.post("/api/v1/namespaces", json={"metadata": {"name": name}})
    made.raise_for_status()
    yield name
    control_plane.http.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="session")
def node(pytestconfig: pytest.Config) -> Iterator[Node]:
    """A whole real node with eight B200s, for the session. Needs root; one at a time."""
    _fail_if_not_built(pytestconfig)
    try:
        started = Node.start()
    except TestbedError as error:
        pytest.fail(f"This tier cannot run: {error}", pytrace=False)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def prometheus(node: Node) -> Prometheus:
    """Real Prometheus beside the node, which ends it."""
    return Prometheus.start(node)


def _fixtures(item: pytest.Item) -> set[str]:
    """What a test asks for by name; a column of its own table may bear the name of a fixture."""
    own_table = getattr(item, "callspec", None)
    return {*getattr(item, "fixturenames", ())} - {*(own_table.params if own_table else ())}


def _give_time(item: pytest.Item) -> None:
    seconds = [TIMEOUT_SECONDS[mark] for mark in TIMEOUT_SECONDS if item.get_closest_marker(mark)]
    if seconds and not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(max(seconds)))


def _start(config: pytest.Config) -> ControlPlane | ExistingCluster:
    try:
        kubeconfig = named_kubeconfig()
        if kubeconfig:
            return ExistingCluster(kubeconfig)
        _fail_if_not_built(config)
        return ControlPlane.start()
    except TestbedError as error:
        pytest.fail(f"This tier cannot run: {error}", pytrace=False)


def _fail_if_not_built(config: pytest.Config) -> None:
    failure = config.stash.get(BUILD_FAILURE, None)
    if failure:
        pytest.fail(f"This tier cannot run: {failure}", pytrace=False)
