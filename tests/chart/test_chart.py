"""The chart as helm renders it: least rights, restricted pods, what users may set."""

import subprocess

import pytest
import yaml

from parkade.adapters import rbac
from parkade.controller.settings import read_settings

pytestmark = pytest.mark.controlplane
"""Not that these need a cluster, but helm is built with the cluster's binaries."""


def rules(roles: list[dict]) -> dict[tuple[str, str], set[str]]:
    return {
        (group, resource): set(rule["verbs"])
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_rights_are_those_that_the_code_uses_and_no_others(render):
    objects = render()
    granted = rules(objects["ClusterRole"] + objects["Role"])
    used = {(row.group, row.rule): set(row.verbs) for row in rbac.USED}
    assert granted == used


def test_leases_are_granted_in_the_own_namespace_alone(render):
    objects = render()
    assert ("coordination.k8s.io", "leases") in rules(objects["Role"])
    assert ("coordination.k8s.io", "leases") not in rules(objects["ClusterRole"])


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="all namespaces"),
        pytest.param({"config": {"namespaces": ["a"]}}, id="one"),
    ],
)
def test_no_rule_reads_secrets_or_uses_a_wildcard(render, values):
    objects = render(**values)
    for (group, resource), verbs in rules(objects["ClusterRole"] + objects["Role"]).items():
        assert "*" not in {group, resource, *verbs}
        assert not resource.startswith("secrets")


def test_named_namespaces_are_bound_one_by_one(render):
    objects = render(config={"namespaces": ["team-a", "team-b"]})
    assert [
        role["metadata"]["namespace"]
        for role in objects["RoleBinding"]
        if not role["metadata"]["name"].endswith("-lease")
    ] == ["team-a", "team-b"]
    assert [role["metadata"]["name"] for role in objects["ClusterRoleBinding"]] == ["parkade-nodes"]


def test_the_operators_pod_is_restricted(render):
    pod = render()["Deployment"][0]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_operator_runs_alone(render):
    spec = render()["Deployment"][0]["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_the_pod_monitor_is_off_unless_asked_for(render):
    assert "PodMonitor" not in render()
    monitor = render(podMonitor={"enabled": True, "labels": {"release": "stack"}})["PodMonitor"][0]
    assert monitor["metadata"]["labels"]["release"] == "stack"
    assert monitor["spec"]["podTargetLabels"] == ["serving.parkade.dev/endpoint"]


def test_the_configuration_is_one_that_the_operator_reads(render):
    server = {"name": "default", "url": "http://prometheus:9090"}
    config = render(config={"prometheus": [server], "maxConcurrentRollouts": 3})["ConfigMap"][0]
    parsed = read_settings(yaml.safe_load(config["data"]["config.yaml"]))
    assert parsed.max_concurrent_rollouts == 3
    assert [server.name for server in parsed.prometheus] == ["default"]


def test_a_missing_image_is_said_in_words(helm, render):
    with pytest.raises(subprocess.CalledProcessError) as failure:
        render(image={"repository": ""})
    assert "build the image from the Dockerfile" in failure.value.stderr


def test_the_crd_is_kept_when_the_release_goes(render):
    crd = render()["CustomResourceDefinition"][0]
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert "CustomResourceDefinition" not in render(crds={"install": False})
