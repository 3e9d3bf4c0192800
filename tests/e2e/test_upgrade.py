"""The operator as its chart installs it: who it runs as, what an upgrade and a removal touch."""

import json

import httpx
import pytest

from e2e import views
from testbed.demo import resources
from testbed.demo.world import ROOT
from testbed.images.build import build_image, export_archive
from testbed.waiting import wait_until

NAME = resources.SHORT
WHERE = "import parkade.rollout.template as it; print(it.__file__)"
NEXT_IMAGE = "localhost/parkade:next"
NEXT_DOCKERFILE = f"""\
FROM {resources.OPERATOR_IMAGE}
COPY template.py /template.py
USER 0
RUN cp /template.py "$(/opt/parkade/bin/python -c '{WHERE}')"
USER 65532:65532
"""
TEMPLATE = ROOT / "operator" / "parkade" / "rollout" / "template.py"
OLD_LINES = {
    'RENDERER_VERSION = "1"': 'RENDERER_VERSION = "2"',
    '{"name": "VLLM_NO_USAGE_STATS", "value": "1"}': (
        '{"name": "VLLM_NO_USAGE_STATS", "value": "1"}, {"name": "OF_THE_NEXT", "value": "1"}'
    ),
}
RENDERER = "serving.parkade.dev/renderer"
LOOKING_SECONDS = 25
"""More than two resyncs of the operator."""

WHO_AM_I = """
import json, os
def writable(path):
    try:
        open(path + "/probe", "w").close()
        return True
    except OSError:
        return False
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(), "capabilities": status["CapEff"].strip(),
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "writable": [one for one in ("/", "/opt/parkade", "/etc", "/tmp") if writable(one)],
    "pip": os.path.exists("/opt/parkade/bin/pip"),
}))
"""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def endpoint(world):
    """An endpoint that serves, made by the operator of today."""
    world.install_operator()
    world.apply(*resources.setup())
    world.apply(resources.endpoint(NAME))
    views.wait_ready(world, NAME)
    yield NAME
    world.node.kubectl("-n", resources.NAMESPACE, "delete", "iep", NAME, "--ignore-not-found")
    world.wait_for_deletion(NAME, 120)


@pytest.fixture(scope="module")
def next_image(world, tmp_path_factory):
    """An image of an operator that renders engine pods differently: today's, and a layer."""
    context = tmp_path_factory.mktemp("next")
    text = TEMPLATE.read_text(encoding="utf-8")
    for old, new in OLD_LINES.items():
        assert text.count(old) == 1, f"{TEMPLATE.name} does not have {old} just once"
        text = text.replace(old, new)
    (context / "template.py").write_text(text, encoding="utf-8")
    (context / "Dockerfile").write_text(NEXT_DOCKERFILE, encoding="utf-8")
    build_image(context / "Dockerfile", context, NEXT_IMAGE)
    world.node.import_image(export_archive(NEXT_IMAGE))
    return NEXT_IMAGE


def operator_pod(world):
    path = f"/api/v1/namespaces/{resources.SYSTEM_NAMESPACE}/pods"
    (pod,) = [pod for pod in world.get(path)["items"] if "deletionTimestamp" not in pod["metadata"]]
    return pod


def template(world):
    return world.deployment(NAME)["spec"]["template"]


def environment(pod):
    return {one["name"] for one in pod["spec"]["containers"][0]["env"]}


def ask(world, port, path):
    address = operator_pod(world)["status"]["podIP"]
    return httpx.get(f"http://{address}:{port}{path}", trust_env=False, timeout=10)


def test_the_operator_is_nobody_in_particular_and_can_write_nothing(world, endpoint):
    pod = operator_pod(world)["metadata"]["name"]
    said = world.node.kubectl(
        *("-n", resources.SYSTEM_NAMESPACE, "exec", pod, "--"),
        *("/opt/parkade/bin/python", "-c", WHO_AM_I),
    )
    assert json.loads(said) == {
        "uid": 65532,
        "gid": 65532,
        "capabilities": "0" * 16,
        "no_new_privileges": "1",
        "writable": ["/tmp"],  # noqa: S108
        "pip": False,
    }


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_its_probes_answer(world, endpoint, path):
    assert ask(world, 8080, path).status_code == 200


def test_its_metrics_count_what_it_wrote(world, endpoint):
    page = ask(world, 9090, "/metrics").text
    done = [line for line in page.splitlines() if line.startswith("parkade_passes_total{")]
    assert any('outcome="done"' in line and float(line.split()[-1]) > 0 for line in done), page
    assert "parkade_writes_total{" in page


def test_an_upgrade_that_renders_differently_restarts_no_engine(world, endpoint, next_image):
    pods, rendered = views.identities(world, NAME), template(world)
    world.install_operator(next_image)
    assert operator_pod(world)["spec"]["containers"][0]["image"] == next_image
    views.stays(
        lambda: views.identities(world, NAME) == pods and template(world) == rendered,
        "the same pods with the same template",
        LOOKING_SECONDS,
    )


def test_a_pod_that_is_added_runs_what_the_others_run(world, endpoint, next_image):
    (before,), rendered = views.identities(world, NAME), template(world)
    world.node.kubectl("-n", resources.NAMESPACE, "scale", "iep", NAME, "--replicas=2")
    wait_until(lambda: len(views.identities(world, NAME)) == 2, "a second pod", 60)
    pods = views.identities(world, NAME)
    assert before in pods
    assert {revision for *_, revision in pods} == {before[2]}
    assert template(world) == rendered
    wait_until(lambda: views.status(world, NAME).get("readyReplicas") == 2, "both ready", 90)
    world.node.kubectl("-n", resources.NAMESPACE, "scale", "iep", NAME, "--replicas=1")
    wait_until(lambda: len(views.identities(world, NAME)) == 1, "one pod again", 60)
    wait_until(
        lambda: world.condition(NAME, "Reconciling").get("status") == "False", "calm again", 60
    )


def test_the_next_revision_is_rendered_the_new_way(world, endpoint, next_image):
    ((old, *_),) = views.identities(world, NAME)
    env = resources.endpoint(NAME)["spec"]["engine"]["env"]
    change = {"spec": {"engine": {"env": [*env, {"name": "OF_THE_USER", "value": "1"}]}}}
    views.patch(world, NAME, change)

    def replaced():
        pods = world.pods(NAME)
        ready = world.condition(NAME, "Reconciling").get("status") == "False"
        return ready and len(pods) == 1 and pods[0]["metadata"]["uid"] != old and pods[0]

    pod = wait_until(replaced, "a pod of the new revision to take over", 150)
    assert {"OF_THE_USER", "OF_THE_NEXT"} <= environment(pod)
    assert pod["metadata"]["annotations"][RENDERER] == "2"


def test_engines_serve_on_when_the_operator_is_uninstalled(world, endpoint):
    pods = views.identities(world, NAME)
    world.node.helm("uninstall", "parkade", "--namespace", resources.SYSTEM_NAMESPACE, "--wait")
    views.stays(lambda: views.identities(world, NAME) == pods, "the engines run on", 10)
    (pod,) = world.pods(NAME)
    answer = httpx.get(f"http://{pod['status']['podIP']}:8000/health", trust_env=False, timeout=10)
    assert answer.status_code == 200
    assert world.endpoint(NAME)["metadata"]["name"] == NAME
    world.node.kubectl("-n", resources.NAMESPACE, "delete", "iep", NAME)
    world.wait_for_deletion(NAME, 120)
