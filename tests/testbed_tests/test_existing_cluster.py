"""TEST_KUBECONFIG names a cluster to use instead; KUBECONFIG is never looked at."""

import pytest

from testbed.cluster.errors import TestbedError
from testbed.cluster.existing import ExistingCluster, named_kubeconfig
from testbed.cluster.processes import environment


def test_nothing_is_named_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("TEST_KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "production"))
    assert named_kubeconfig() is None


def test_a_missing_file_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TEST_KUBECONFIG", str(tmp_path / "nothing"))
    with pytest.raises(TestbedError, match=r"TEST_KUBECONFIG names .*nothing, which is not a file"):
        named_kubeconfig()


def test_children_do_not_get_the_ambient_kubeconfig(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "production"))
    assert "KUBECONFIG" not in environment()


@pytest.mark.controlplane
def test_an_existing_cluster_serves_like_our_own(own_control_plane):
    cluster = ExistingCluster(own_control_plane.kubeconfig)
    try:
        assert cluster.server == own_control_plane.server
        assert cluster.http.get("/readyz").text == "ok"
        assert "default" in cluster.kubectl("get", "namespaces", "-o", "name")
        with pytest.raises(TestbedError, match="not ours to stop its API server"):
            cluster.stop_apiserver()
    finally:
        cluster.stop()
    assert own_control_plane.http.get("/readyz").text == "ok"
