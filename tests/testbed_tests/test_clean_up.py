"""Whatever ends a run, nothing of it stays; what only a later run can remove, it removes."""

import os
import signal
import subprocess
import sys

import pytest

from testbed.waiting import wait_until
from testbed_tests.leftovers import Traces

OWNER = """
import signal, time
from testbed.cluster.controlplane import ControlPlane
from testbed.cluster.node import Node
from testbed.cluster.signals import end_in_order_when_told
# A shell lets its background jobs ignore Ctrl-C, and nohup a closed terminal; this may be either.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
end_in_order_when_told()
with {cluster}.started():
    print("up", flush=True)
    time.sleep(600)
"""
CONTROL_PLANE = pytest.param("ControlPlane", id="control plane", marks=pytest.mark.controlplane)
NODE = pytest.param("Node", id="whole node", marks=pytest.mark.node)


@pytest.fixture
def environment(tmp_path):
    """A state folder of this test alone: other clusters of this machine don't count."""
    paths = os.pathsep.join(path for path in sys.path if path)
    own = {**os.environ, "PYTHONPATH": paths, "XDG_STATE_HOME": str(tmp_path)}
    yield own
    command_line(own, "down")  # after a failure a kept node would stay up for good


@pytest.fixture
def start_owner(environment):
    """Starts processes that own a cluster and wait; none outlives the test."""
    owners = []

    def start(cluster, state_home=None):
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER.format(cluster=cluster)],
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, **({"XDG_STATE_HOME": str(state_home)} if state_home else {})},
        )
        owners.append(owner)
        assert owner.stdout.readline() == "up\n"
        return owner

    yield start
    for owner in owners:
        owner.terminate()
        owner.wait(30)
        owner.stdout.close()


def command_line(environment, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "testbed.cluster", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def programs_are_gone(traces):
    return not traces.remaining().get("processes")


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, id="SIGTERM"),
        pytest.param(signal.SIGHUP, id="a closed terminal"),
    ],
)
@pytest.mark.parametrize("cluster", [CONTROL_PLANE, NODE])
def test_a_run_that_is_told_to_end_leaves_nothing(start_owner, tmp_path, cluster, number):
    owner = start_owner(cluster)
    traces = Traces(tmp_path)
    assert traces.remaining()["processes"]
    owner.send_signal(number)
    owner.wait(30)
    assert traces.remaining() == {}


@pytest.mark.parametrize("cluster", [CONTROL_PLANE, NODE])
def test_programs_die_with_a_killed_owner_and_down_removes_the_rest(
    start_owner, environment, tmp_path, cluster
):
    owner = start_owner(cluster)
    traces = Traces(tmp_path)
    owner.kill()
    owner.wait(30)
    wait_until(lambda: programs_are_gone(traces), "the programs to die with their owner")
    assert traces.folder.exists()
    down = command_line(environment, "down")
    assert down.stdout == f"Ended {traces.folder.name}\n"
    assert traces.remaining() == {}


@pytest.mark.controlplane
def test_the_next_start_cleans_up_after_a_killed_owner(start_owner, environment, tmp_path):
    killed = start_owner("ControlPlane")
    traces = Traces(tmp_path)
    killed.kill()
    killed.wait(30)
    start_owner("ControlPlane")
    assert traces.remaining() == {}


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(["--control-plane"], id="control plane", marks=pytest.mark.controlplane),
        pytest.param([], id="whole node", marks=pytest.mark.node),
    ],
)
def test_up_outlives_its_command_until_down(environment, tmp_path, size):
    up = command_line(environment, "up", *size)
    try:
        assert up.returncode == 0, up.stderr
        traces = Traces(tmp_path)
        assert f"export KUBECONFIG={traces.folder / 'admin.kubeconfig'}" in up.stdout
        assert traces.remaining()["processes"]
        assert "kept up until `down`" in command_line(environment, "status").stdout
    finally:
        down = command_line(environment, "down")
    assert down.returncode == 0
    assert traces.remaining() == {}
    assert command_line(environment, "down").stdout == "Nothing is up\n"


@pytest.mark.node
def test_a_second_node_is_told_in_one_line_who_runs(start_owner, environment, tmp_path):
    owner = start_owner("Node")
    traces = Traces(tmp_path)
    second = command_line(environment, "up")
    assert second.returncode == 1
    (line,) = second.stderr.splitlines()
    assert f"{traces.folder.name} belongs to process {owner.pid}" in line
    down = command_line(environment, "down")
    assert (down.returncode, down.stdout.count("\n")) == (1, 1)
    assert f"belongs to process {owner.pid}" in down.stdout


@pytest.mark.node
def test_nodes_with_state_folders_of_their_own_do_not_disturb_each_other(start_owner, tmp_path):
    ended = start_owner("Node", tmp_path / "first")
    survivor = start_owner("Node", tmp_path / "second")
    first, second = Traces(tmp_path / "first"), Traces(tmp_path / "second")
    ended.terminate()
    ended.wait(30)
    assert first.remaining() == {}
    assert {"processes", "link and routes", "control groups"} <= set(second.remaining())
    survivor.terminate()
    survivor.wait(30)
    assert second.remaining() == {}


@pytest.mark.node
def test_an_interrupted_start_leaves_nothing(environment, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "testbed.cluster", "up"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as starting:
        wait_until(lambda: list(tmp_path.rglob("kubelet.log")), "the kubelet to start", 60)
        traces = Traces(tmp_path)
        starting.send_signal(signal.SIGTERM)
        assert "nothing is left behind" in starting.communicate(timeout=60)[1]
    assert traces.remaining() == {}
