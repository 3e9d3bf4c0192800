"""Rights that are taken away: it is said which, nothing hammers, and it goes on when they are back.

| right                                     | where it is said |
|---|---|
| to write Deployments or Services          | Stalled/AccessDenied names verb, kind and account |
| to write the record                       | the same, and nothing happens without the record |
| to write the status                       | the log; engines are deployed all the same |
| to write events, read logs, list nodes    | nothing depends on them: the endpoint serves |
| to watch                                  | the probe says that it is not ready; then it goes on |
"""

import logging
import subprocess
import sys

import httpx
import pytest
import yaml

from support.place import OUT_OF_MEMORY
from support.rights import account
from testbed.cluster.ports import free_ports
from testbed.waiting import wait_until


@pytest.fixture
def user(served, namespace, tmp_path):
    with account(served, namespace, tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("kind", "deployed"),
    [
        pytest.param("deployments", False, id="to write Deployments"),
        pytest.param("services", True, id="to write Services"),
        pytest.param("configmaps", False, id="to write the record: nothing happens without it"),
    ],
)
def test_the_condition_names_the_right_that_is_missing(place, user, kind, deployed):
    with place.operator(user.kubeconfig) as process:
        user.may_no_longer(kind, "create", "patch")
        place.apply()
        told = place.wait_condition("Stalled", "True", "AccessDenied")
        assert kind in told["message"]
        assert user.name in told["message"]
        assert (place.deployment() is not None) == deployed
        assert process.metrics.passes.labels("unavailable")._value.get() < 10
        user.may_everything_again()
        place.edit({"metadata": {"labels": {"looked": "at"}}, "spec": {"replicas": 2}})
        place.serve(2)
        place.wait_condition("Stalled", "False", "AsExpected")


def test_where_owner_references_need_a_right_of_their_own_its_lack_is_told(own_place, tmp_path):
    """The admission plugin of OpenShift, OwnerReferencesPermissionEnforcement, is on."""
    with account(own_place.control_plane, own_place.namespace, tmp_path) as user:
        user.may_no_longer("inferenceendpoints/finalizers")
        with own_place.operator(user.kubeconfig):
            own_place.apply()
            told = own_place.wait_condition("Stalled", "True", "AccessDenied")
            assert "blockOwnerDeletion" in told["message"]
            user.may_everything_again()
            looked = {"metadata": {"labels": {"looked": "at"}}, "spec": {"replicas": 2}}
            own_place.edit(looked)
            own_place.serve(2)


def test_where_the_status_can_not_be_told_the_log_says_it(place, user, caplog):
    caplog.set_level(logging.WARNING)
    with place.operator(user.kubeconfig):
        user.may_no_longer("inferenceendpoints/status", "create", "patch")
        place.apply()
        wait_until(lambda: user.name in caplog.text, "the log to say it", 20)
        assert "inferenceendpoints" in caplog.text
        wait_until(place.deployment, "the Deployment", 20)
        denied = [one for one in caplog.records if user.name in one.getMessage()]
        assert len(denied) < 12
        user.may_everything_again()
        place.edit({"spec": {"replicas": 2}})
        place.serve(2)
        place.wait_condition("Ready", "True")


@pytest.mark.parametrize(
    ("resource", "verbs"),
    [
        pytest.param("events", ("create", "patch", "get", "list"), id="events"),
        pytest.param("pods/log", ("get",), id="logs"),
        pytest.param("nodes", ("list",), id="nodes"),
    ],
)
def test_what_only_helps_is_not_needed_to_serve_and_to_revert(place, user, resource, verbs):
    with place.operator(user.kubeconfig):
        user.may_no_longer(resource, *verbs)
        place.starts_well()
        place.crashes(place.tunes(), OUT_OF_MEMORY)
        place.wait_condition("SettingsApplied", "False", "CandidateRejected")
        place.wait_condition("Ready", "True", "Serving")


@pytest.mark.parametrize("resource", ["pods", "inferenceendpoints"])
def test_an_operator_that_may_not_watch_is_not_ready_and_says_what_is_missing(
    place, user, tmp_path, resource
):
    user.may_no_longer(resource, "list", "watch")
    health, metrics = free_ports(2)
    settings = {
        "namespaces": [place.namespace],
        "hub": {"url": ""},
        "healthAddress": f"127.0.0.1:{health}",
        "metricsAddress": f"127.0.0.1:{metrics}",
    }
    config, log = tmp_path / "config.yaml", tmp_path / "operator.log"
    config.write_text(yaml.safe_dump(settings), "utf-8")
    command = [sys.executable, "-m", "parkade.cli.main", "run"]
    command += ["--kubeconfig", str(user.kubeconfig), "--config", str(config)]
    with log.open("wb") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            wait_until(lambda: user.name in log.read_text("utf-8"), "the log to say it", 25)
            text = log.read_text("utf-8")
            assert resource in text
            assert len(text.splitlines()) < 100
            if process.poll() is None:
                ready = httpx.get(f"http://127.0.0.1:{health}/readyz", trust_env=False)
                assert ready.status_code == 503
            place.apply()
            user.may_everything_again()
            if process.poll() is None:
                wait_until(place.deployment, "the Deployment once it may watch", 40)
            else:
                assert process.returncode != 0  # the kubelet starts it again
        finally:
            process.kill()
