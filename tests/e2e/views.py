"""What the stories look at in the cluster."""

import json
import time

from testbed.demo import resources
from testbed.demo.story import SETTLED
from testbed.waiting import wait_until

RECORD = "/api/v1/namespaces/{namespace}/configmaps/{name}-parkade-record"
REVISION = "serving.parkade.dev/revision"


def stays(probe, what, seconds):
    """Fail as soon as something that shall stay true for a while is not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert probe(), f"no longer true: {what}"
        time.sleep(0.3)


def identities(world, name):
    """Pods that are not on their way out: uid, restarts and revision."""
    return sorted(
        (
            pod["metadata"]["uid"],
            sum(one["restartCount"] for one in pod["status"].get("containerStatuses", [])),
            pod["metadata"]["labels"].get(REVISION),
        )
        for pod in world.pods(name)
        if "deletionTimestamp" not in pod["metadata"]
    )


def pods_of(world, name, revision):
    """All pods of a revision, those on their way out as well."""
    return [pod for pod in world.pods(name) if pod["metadata"]["labels"].get(REVISION) == revision]


def status(world, name):
    return world.endpoint(name).get("status", {})


def last_good(world, name):
    """The two knobs of the last good template; None where there is none."""
    found = status(world, name).get("lastGood")
    return found and (found["maxNumSeqs"], found["gpuMemoryUtilization"])


def settled(world, name):
    """What is recommended runs; the pair of knobs, or None."""
    found, advice = (
        world.condition(name, "SettingsApplied"),
        status(world, name).get("recommendation"),
    )
    runs = last_good(world, name)
    if found.get("reason") not in SETTLED or not advice or runs is None:
        return None
    advised = (advice["maxNumSeqs"], advice["gpuMemoryUtilization"])
    return runs if (runs[0], float(runs[1])) == (advised[0], float(advised[1])) else None


def events(world, name, reason):
    """Events with this reason on the endpoint, and none on an earlier one of the same name."""
    path = f"/api/v1/namespaces/{resources.NAMESPACE}/events"
    uid = world.endpoint(name)["metadata"]["uid"]
    found = world.get(f"{path}?fieldSelector=involvedObject.uid={uid},reason={reason}")
    return found["items"]


def times_told(world, name, reason):
    """How often something was told, repeats of one event counted."""
    return sum(one.get("count") or 1 for one in events(world, name, reason))


def record(world, name):
    """The durable record, as text."""
    path = RECORD.format(namespace=resources.NAMESPACE, name=name)
    return world.get(path)["data"]["record.json"]


def patch(world, name, change):
    """A user's `kubectl patch`."""
    world.node.kubectl(
        *("-n", resources.NAMESPACE, "patch", "iep", name, "--type", "merge"),
        *("-p", json.dumps(change)),
    )


def wait_ready(world, name, seconds=120):
    """Wait until an endpoint serves with settings that were found good."""
    return wait_until(
        lambda: world.condition(name, "Ready").get("status") == "True" and last_good(world, name),
        f"{name} to be Ready with good settings",
        seconds,
    )
