"""The story, step by step. Each step does something a user does and checks what follows."""

import json
import math
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from testbed.demo import resources
from testbed.demo.claims import Claims
from testbed.demo.resources import LONG, NAMESPACE, SHORT
from testbed.demo.screen import Screen
from testbed.demo.world import World

BOTH = (SHORT, LONG)
SETTLED = {"Applied", "WithinHysteresis", "Unsaturated"}
STEADY_SECONDS = 12
KIND = "inferenceendpoint.serving.parkade.dev"


def play(world: World, screen: Screen) -> Claims:
    """Tell the whole story; what did not happen in time ends it as a claim that did not hold."""
    claims = Claims()
    for step in STEPS:
        try:
            step(world, screen, claims)
        except AssertionError as late:
            claims.check(f"{step.__name__.replace('_', ' ')} in time", False, late)
            break
    world.stop_traffic()
    screen.summary(claims)
    return claims


def install(world: World, screen: Screen, claims: Claims) -> None:
    """The operator, as a user installs it."""
    screen.chapter("The operator is installed")
    screen.type("helm upgrade --install parkade charts/parkade -n parkade-system --wait")
    world.install_operator()
    pods = world.get(f"/api/v1/namespaces/{resources.SYSTEM_NAMESPACE}/pods") or {}
    ready = [one for pod in pods["items"] for one in pod["status"]["containerStatuses"]]
    claims.check("The operator runs as a pod of the chart", ready and ready[0]["ready"], ready)


def start_two_endpoints(world: World, screen: Screen, claims: Claims) -> None:
    """One model, two endpoints, the same borrowed settings."""
    screen.chapter("Two endpoints of one model, with the same borrowed settings")
    screen.say(
        f"{SHORT} gets short requests, {LONG} very long ones. Somebody copied max_num_seqs "
        f"{resources.BORROWED_SEQS} and gpu_memory_utilization {resources.BORROWED_UTILIZATION} "
        "for both. GPUs are simulated: an engine stands in for vLLM, with its flags, metrics, "
        f"memory arithmetic and measured step times; its clock runs {resources.CLOCK_SPEED} times "
        "faster than yours. Windows, soaks and cooldowns are short, so that the story fits."
    )
    screen.type("kubectl apply -f endpoints.yaml")
    world.apply(*resources.setup())
    screen.quote(world.apply(*(resources.endpoint(name) for name in BOTH)))
    screen.type(f"kubectl -n {NAMESPACE} wait --for=condition=Ready iep --all")
    screen.wait(world, lambda: _all(world, "Ready"), "both endpoints to be Ready", 90)
    borrowed = (resources.BORROWED_SEQS, resources.BORROWED_UTILIZATION)
    runs = {name: world.running_settings(name) for name in BOTH}
    claims.check(
        f"Both start from the borrowed settings {borrowed}",
        all(_same(one, borrowed) for one in runs.values()),
        runs,
    )


def measure_traffic(world: World, screen: Screen, claims: Claims) -> None:
    """Prometheus sees the lengths of requests."""
    screen.chapter("Traffic arrives, and Prometheus measures it")
    for name in BOTH:
        world.start_traffic(name)
    screen.type(f"kubectl -n {NAMESPACE} get iep -w")
    screen.wait(
        world, lambda: _all(world, "WorkloadObserved"), "both workloads to be observed", 120
    )
    for name in BOTH:
        found = world.condition(name, "WorkloadObserved")
        screen.quote(f"{name}: {found['message']}")
        claims.check(f"The traffic of {name} is observed", found["status"] == "True", found)


def recommend_opposites(world: World, screen: Screen, claims: Claims) -> None:
    """Two answers, and the bound that bit in each."""
    screen.chapter("Two opposite answers")
    wanted = {SHORT: "Speed", LONG: "KVCache"}
    screen.wait(
        world,
        lambda: all(_recommendation(world, name).get("limitedBy") == wanted[name] for name in BOTH),
        f"both recommendations, limited by {wanted}",
        90,
    )
    for name, bound in wanted.items():
        advice = _recommendation(world, name)
        screen.type(f"kubectl -n {NAMESPACE} describe iep {name}")
        screen.quote(_deciding_sentences(advice))
        claims.check(
            f"{name} is limited by {bound}", advice["limitedBy"] == bound, advice["bounds"]
        )
        claims.check(
            f"The borrowed {resources.BORROWED_SEQS} is wrong for {name}",
            advice["maxNumSeqs"] < resources.BORROWED_SEQS,
            advice["maxNumSeqs"],
        )


def roll_out_knob_by_knob(world: World, screen: Screen, claims: Claims) -> None:
    """Each revision turns one knob, on one pod first."""
    screen.chapter("Both roll out, one knob at a time")
    screen.say(
        "One new pod comes up beside the old one, serves, and is judged; then it takes over."
    )
    screen.type(f"kubectl -n {NAMESPACE} get pods,rs --show-labels")
    screen.wait(world, _Steadily(world), "both endpoints to run what is recommended", 240)
    for name in BOTH:
        steps = world.revisions(name)
        screen.quote(f"{name}: " + " -> ".join(f"{seqs} / {util}" for seqs, util in steps))
        claims.check(f"{name} changed more than once", len(steps) > 2, steps)
        claims.check(
            f"Every step of {name} turned one knob",
            all(_knobs(*pair) == 1 for pair in pairwise(steps)),
            steps,
        )


def revert_what_is_too_greedy(world: World, screen: Screen, claims: Claims) -> None:
    """Too little headroom, and a start that takes more memory than the last."""
    screen.chapter("Somebody leaves far too little memory free")
    _leave_alone(world, screen, SHORT)
    screen.say(
        f"The next start of {LONG} takes {resources.EXTRA_GIB} GiB more outside the engine's "
        "budget than the last, as real ones sometimes do, and hardly anything is left for it."
    )
    before, good = _untouched(world, SHORT), world.running_settings(LONG)
    serving = {uid for uid, _ in _untouched(world, LONG)}
    state = {"pods": {LONG: {"extra_outside_budget_gib": resources.EXTRA_GIB}}}
    world.apply(resources.card_state(state))
    patch = json.dumps({"spec": {"tuning": resources.GREEDY_TUNING}})
    screen.type(f"kubectl -n {NAMESPACE} patch iep {LONG} --type merge -p '{patch}'")
    world.node.kubectl("-n", NAMESPACE, "patch", KIND, LONG, "--type", "merge", "-p", patch)
    crashed = screen.wait(
        world, lambda: _crashes(world.pods(LONG)), "the engine to crash in its container", 90
    )
    claims.check("The engine really crashes in its container", crashed, crashed)
    screen.quote(f"container ended with exit code {crashed[0]}")
    rejected = screen.wait(world, lambda: _rejected(world), "the settings to be rejected", 60)
    screen.type(f"kubectl -n {NAMESPACE} get iep {LONG} -o jsonpath='{{.status.rejected}}'")
    screen.quote(rejected["message"])
    claims.check("The message names the shortfall", "GiB short" in rejected["message"], rejected)
    claims.check("... and the engine's own error", "out of memory" in rejected["message"], rejected)
    screen.wait(
        world, lambda: world.running_settings(LONG) == good, "the last good settings to be back", 60
    )
    claims.check("Parkade reverted to the last good settings", True)
    kept = serving & {pod["metadata"]["uid"] for pod in world.pods(LONG)}
    claims.check("The pod that served was not touched", kept == serving, (kept, serving))
    claims.check(f"{SHORT} was not touched", _untouched(world, SHORT) == before, before)
    claims.check(f"{LONG} still serves", world.condition(LONG, "Ready").get("status") == "True")
    screen.type(f"kubectl -n {NAMESPACE} get events --field-selector involvedObject.name={LONG}")
    screen.quote(_events(world))


def _leave_alone(world: World, screen: Screen, name: str) -> None:
    """Its own tuning must not be taken for an effect of what happens to the other endpoint."""
    screen.say(f"From here on {name} has the usual cooldown of an hour, not a few seconds.")
    patch = json.dumps({"spec": {"tuning": {"cooldownSeconds": 3600}}})
    screen.type(f"kubectl -n {NAMESPACE} patch iep {name} --type merge -p '{patch}'")
    world.node.kubectl("-n", NAMESPACE, "patch", KIND, name, "--type", "merge", "-p", patch)
    screen.wait(world, lambda: _is_at_rest(world, name), f"{name} to be at rest", 90)


def _is_at_rest(world: World, name: str) -> bool:
    """The operator has seen the spec as it is, and no candidate flies."""
    found, applied = world.endpoint(name), world.condition(name, "SettingsApplied")
    seen = found["status"]["observedGeneration"] == found["metadata"]["generation"]
    return seen and applied["reason"] != "CandidateInProgress" and len(world.pods(name)) == 1


def delete_everything(world: World, screen: Screen, claims: Claims) -> None:
    """Deletion returns at once; Kubernetes collects the children."""
    screen.chapter("The resources are deleted, and everything goes with them")
    world.stop_traffic()
    screen.type(f"kubectl -n {NAMESPACE} delete iep --all")
    began = time.monotonic()
    screen.quote(world.node.kubectl("-n", NAMESPACE, "delete", KIND, "--all"))
    claims.check("Deleting returns at once", time.monotonic() - began < 10)
    for name in BOTH:
        world.wait_for_deletion(name, 90)
        claims.check(f"Nothing of {name} is left", True)


STEPS: tuple[Callable[[World, Screen, Claims], None], ...] = (
    install,
    start_two_endpoints,
    measure_traffic,
    recommend_opposites,
    roll_out_knob_by_knob,
    revert_what_is_too_greedy,
    delete_everything,
)


def _all(world: World, kind: str) -> bool:
    return all(world.condition(name, kind).get("status") == "True" for name in BOTH)


def _recommendation(world: World, name: str) -> dict[str, Any]:
    found: dict[str, Any] = world.endpoint(name).get("status", {}).get("recommendation", {})
    return found


def _deciding_sentences(advice: dict[str, Any]) -> str:
    starts = ("KV bound", "Speed bound", "Smallest upper bound", "Rung", "Fraction:")
    return "\n".join(one for one in advice["explanation"] if one.startswith(starts))


class _Steadily:
    """Both endpoints have run what is recommended for a while, so that nothing is about to move."""

    def __init__(self, world: World) -> None:
        self._world, self._since = world, math.inf

    def __call__(self) -> bool:
        now = time.monotonic()
        settled = all(_settled(self._world, name) for name in BOTH)
        self._since = min(self._since, now) if settled else math.inf
        return now - self._since >= STEADY_SECONDS


def _settled(world: World, name: str) -> bool:
    """What is recommended runs, and both knobs have been turned."""
    found, advice = world.condition(name, "SettingsApplied"), _recommendation(world, name)
    runs = world.running_settings(name)
    if found.get("reason") not in SETTLED or runs is None:
        return False
    advised = (advice["maxNumSeqs"], advice["gpuMemoryUtilization"])
    turned = not _same(runs, (runs[0], resources.BORROWED_UTILIZATION))
    return _same(runs, advised) and turned and runs[0] != resources.BORROWED_SEQS


def _same(one: tuple[int, str] | None, other: tuple[int, str]) -> bool:
    return one is not None and (one[0], float(one[1])) == (other[0], float(other[1]))


def _knobs(before: tuple[int, str], after: tuple[int, str]) -> int:
    return (before[0] != after[0]) + (before[1] != after[1])


def _crashes(pods: Iterable[dict[str, Any]]) -> list[int]:
    """Exit codes of engines that failed: one that is asked to stop ends with 0."""
    states = [
        state
        for pod in pods
        for container in pod["status"].get("containerStatuses", [])
        for state in (container["state"], container.get("lastState", {}))
    ]
    codes = [state["terminated"]["exitCode"] for state in states if "terminated" in state]
    return [code for code in codes if code != 0]


def _rejected(world: World) -> dict[str, Any] | None:
    found = world.endpoint(LONG).get("status", {}).get("rejected", [])
    return found[0] if found else None


def _untouched(world: World, name: str) -> list[tuple[str, int]]:
    """Pods by uid with the restarts of their containers, those that are on their way out apart."""
    return sorted(
        (pod["metadata"]["uid"], sum(one["restartCount"] for one in statuses))
        for pod in world.pods(name)
        if (statuses := pod["status"].get("containerStatuses", []))
        and "deletionTimestamp" not in pod["metadata"]
    )


def _events(world: World) -> str:
    return world.node.kubectl(
        *("-n", NAMESPACE, "get", "events", "--sort-by=.lastTimestamp"),
        *("--field-selector", f"involvedObject.name={LONG},involvedObject.kind=InferenceEndpoint"),
        *("-o", "custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message"),
    )
