"""The real control plane: starts in seconds, several at once, leaves nothing behind."""

import httpx
import pytest

from testbed.cluster.controlplane import ControlPlane
from testbed.cluster.errors import TestbedError
from testbed.cluster.processes import start_ticks
from testbed.waiting import wait_until

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(180)]


def test_serves_the_pinned_version(control_plane):
    assert '"gitVersion": "v1.37.2"' in control_plane.kubectl("get", "--raw", "/version")


def test_controllers_work_in_a_fresh_namespace(control_plane, namespace):
    wait_until(
        lambda: control_plane.kubectl("get", "serviceaccounts", "-n", namespace, "-o", "name"),
        "the default service account",
    )
    control_plane.kubectl("create", "deployment", "web", "--image=none", "-n", namespace)
    pods = wait_until(
        lambda: control_plane.kubectl("get", "pods", "-n", namespace, "-o", "name"),
        "the deployment controller to make a pod",
    )
    assert pods.startswith("pod/web-")


def test_kubectl_fails_with_its_own_words(control_plane):
    with pytest.raises(TestbedError, match=r'pods "nothing" not found'):
        control_plane.kubectl("get", "pod", "nothing")


def test_the_audit_log_holds_each_request(control_plane, namespace):
    requests = {
        (event["verb"], event["objectRef"].get("name"))
        for event in control_plane.audit_events()
        if "objectRef" in event
    }
    assert ("create", namespace) in requests


def test_two_at_once_do_not_see_each_other(control_plane, own_control_plane):
    own_control_plane.kubectl("create", "namespace", "only-here")
    assert control_plane.server != own_control_plane.server
    with pytest.raises(TestbedError, match="not found"):
        control_plane.kubectl("get", "namespace", "only-here")


def test_the_api_server_goes_away_and_comes_back(own_control_plane):
    own_control_plane.stop_apiserver()
    with pytest.raises(httpx.ConnectError):
        own_control_plane.http.get("/readyz")
    own_control_plane.start_apiserver()
    assert own_control_plane.http.get("/readyz").text == "ok"


def test_stopping_leaves_no_process_and_no_folder():
    with ControlPlane.started() as control_plane:
        recorded = dict(control_plane.run.state.processes)
        folder = control_plane.run.folder
    assert len(recorded) == 4
    assert [name for name, (pid, ticks) in recorded.items() if start_ticks(pid) == ticks] == []
    assert not folder.exists()
