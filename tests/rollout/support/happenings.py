"""What may happen in a random life: faults, changes by people, and the operator's own troubles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from parkade.api.status import Origin
from parkade.rollout.causes import Blame, CauseClass, RootCause
from parkade.rollout.observed import DisruptionBudget
from rollout.support.truth import BAD_IMAGE, GOOD_IMAGES, ODD_IMAGE, SICK_NODE

if TYPE_CHECKING:
    from rollout.support.history import History

Event = Callable[["History"], None]


def _time_passes(now: History) -> None:
    now.live(6, 60)


def _hours_pass(now: History) -> None:
    now.live(now.rng.choice([6, 12, 30]), 600)


def _operator_is_away(now: History) -> None:
    """Things happen that nobody looks at; then somebody changes something before it comes back."""
    now.world.run(now.rng.choice([15, 40, 120]), 5)
    now.rng.choice([_scale, _image, _label, _suspend, _headroom, _lose_pod, _other_wish])(now)


def _until_tuning(now: History) -> None:
    """Until a candidate of tuning has just been decided on, or half an hour is over."""
    now.blind, now.wish = False, now.rng.choice([8, 16, 32, 64, 128, 512])
    for _ in range(40):
        candidate = now.operator.plans[-1].record.candidate
        if candidate is not None and candidate.origin is Origin.TUNING:
            return
        now.live(1, 30)


def _loop_that_nobody_sees(now: History) -> None:
    """A candidate's pods end before they are ready, and then come up, while no operator runs."""
    _until_tuning(now)
    candidate = now.operator.plans[-1].record.candidate
    if candidate is None:
        return
    fault, ends = now.rng.choice(["sick", "unknown"]), now.rng.randint(1, 4)
    setattr(now.truth, fault, True)
    for _ in range(60):
        own = [one for one in now.world.live if one.owner.revision == candidate.revision.hash]
        if any(one.restarts >= ends for one in own):
            break
        now.world.run(10)
    setattr(now.truth, fault, False)
    now.world.run(now.rng.choice([15, 40, 300]), 5)


def _no_room_and_no_disruption(now: History) -> None:
    """No GPU is free beside the pods that run, and then a budget protects these."""
    now.world.taken = max(0, now.world.gpus - sum(1 for pod in now.world.live if pod.node))
    _until_tuning(now)
    budgets = (DisruptionBudget("pdb", 0),)
    now.operator.fleet = replace(now.operator.fleet, budgets=budgets)
    now.live(4, 15)


def _in_flight(now: History) -> None:
    """Something happens while a candidate of tuning is judged."""
    _until_tuning(now)
    now.live(now.rng.choice([0, 1, 2, 4]), 15)
    now.rng.choice(MEANWHILE)(now)


def _other_wish(now: History) -> None:
    now.wish = now.rng.choice([8, 16, 32, 64, 128, 512])


def _cannot_tell(now: History) -> None:
    now.blind = not now.blind


def _headroom(now: History) -> None:
    now.operator.change(tuning={"headroom": now.rng.choice(["256Mi", "2Gi", "6Gi", "20Gi"])})


def _image(now: History) -> None:
    image = now.rng.choice([*GOOD_IMAGES, *GOOD_IMAGES, BAD_IMAGE, ODD_IMAGE])
    now.operator.change(engine={"image": image})


def _label(now: History) -> None:
    """A change of the template that the engine does not see."""
    labels = {"team": now.rng.choice(["legal", "search", "support"])}
    now.operator.change(engine={"podTemplate": {"metadata": {"labels": labels}}})


def _insists(now: History) -> None:
    """An image fails and nobody can tell why; its user changes what has nothing to do with it."""
    now.operator.change(engine={"image": ODD_IMAGE})
    now.live(12, 30)
    _label(now)


def _scale(now: History) -> None:
    now.operator.change(replicas=now.rng.choice([0, 1, 1, 2, 2, 3, 3]))


def _mode(now: History) -> None:
    now.operator.change(tuning={"mode": now.rng.choice(["Auto", "RecommendOnly"])})


def _suspend(now: History) -> None:
    now.operator.change(suspend=now.rng.random() < 0.3)


def _initial(now: History) -> None:
    seqs = now.rng.choice([16, 128, 256])
    initial = {"maxNumSeqs": seqs, "gpuMemoryUtilization": now.rng.choice(["0.85", "0.99"])}
    now.operator.change(tuning={"initial": initial})


def _less_memory(now: History) -> None:
    now.truth.max_utilization = now.rng.choice([0.93, 0.955, 0.97])


def _fewer_seqs(now: History) -> None:
    now.truth.max_seqs = now.rng.choice([48, 256, 1024])


def _slow(now: History) -> None:
    now.truth.load_seconds = now.rng.choice([5, 60, 200, 400])


def _stuck(now: History) -> None:
    now.truth.stuck = not now.truth.stuck


def _sick(now: History) -> None:
    now.truth.sick = not now.truth.sick


def _soak_crash(now: History) -> None:
    now.truth.soak_crash_seconds = now.rng.choice([None, 20.0, 90.0])
    now.truth.soak_crash = now.rng.choice([None, SICK_NODE, OUT_OF_MEMORY_LATE])


def _unknown(now: History) -> None:
    now.truth.unknown = not now.truth.unknown


def _lose_pod(now: History) -> None:
    if now.world.pods:
        reason = now.rng.choice(["EvictionByEvictionAPI", "DeletionByTaintManager"])
        now.world.lose_pod(now.rng.choice(now.world.pods), reason)


def _lose_node(now: History) -> None:
    for pod in now.world.pods:
        now.world.lose_pod(pod, "DeletionByTaintManager")


def _crash_one(now: History) -> None:
    if now.world.pods:
        cause = now.rng.choice([None, SICK_NODE, OUT_OF_MEMORY_LATE])
        now.world.crash(now.rng.choice(now.world.pods), cause)


def _lose_what_ended(now: History) -> None:
    """A pod whose engine ended is evicted, and its log with it."""
    for pod in now.world.live:
        if pod.restarts or pod.terminated_at is not None:
            now.world.lose_pod(pod, "EvictionByEvictionAPI")


def _logs(now: History) -> None:
    now.world.readable = not now.world.readable


def _forget_logs(now: History) -> None:
    """The operator restarts, and has only what the record and the kubelet still hold."""
    now.world.forget_logs()


def _pull(now: History) -> None:
    now.world.pullable = not now.world.pullable


def _quota(now: History) -> None:
    """None, one that leaves what runs, or one that was lowered below it."""
    here = len(now.world.pods)
    now.world.quota = now.rng.choice([None, here, max(0, here - 1)])


def _budget(now: History) -> None:
    allowed = now.rng.choice([0, 1])
    budgets = (DisruptionBudget("pdb", allowed),) if now.rng.random() < 0.7 else ()
    now.operator.fleet = replace(now.operator.fleet, budgets=budgets)


def _turn(now: History) -> None:
    elsewhere = now.rng.choice([0, 1])
    now.operator.fleet = replace(now.operator.fleet, rollouts_elsewhere=elsewhere)


def _gpu_taken(now: History) -> None:
    now.world.taken = now.rng.choice([0, 1, 2])


def _crash_after_record(now: History) -> None:
    now.look("record")


def _crash_after_children(now: History) -> None:
    now.look("children")


def _lose_status(now: History) -> None:
    if now.operator.record_text is not None:  # never both
        now.lost = True
        now.operator.raw["status"] = {"observedGeneration": -1}
        now.look()


def _lose_record(now: History) -> None:
    if now.operator.record_text is not None:
        now.look()  # the status is up to date
        now.operator.record_text = None
        now.lost = True
        now.promises.record_is_lost()
        now.look()


def _delete_deployment(now: History) -> None:
    now.world.delete_deployment()


def _retry(now: History) -> None:
    rejected = now.operator.raw["status"].get("rejected") or []
    if rejected:
        now.operator.retry(f"{now.rng.choice(rejected)['hash']} try {now.rng.random():.6f}")


def _edit(now: History) -> None:
    """Somebody edits the Deployment by hand."""
    deployment = now.world.deployment
    if deployment is not None and not now.operator.endpoint().spec.suspend:
        now.world.edit(minReadySeconds=7)
        now.look()


OUT_OF_MEMORY_LATE = RootCause(
    CauseClass.STARTED_THEN_OOM_AT_RUNTIME, Blame.SETTINGS, message="CUDA out of memory in a step"
)

MEANWHILE: tuple[Event, ...] = (
    _scale,
    _scale,
    _budget,
    _budget,
    _mode,
    _image,
    _label,
    _suspend,
    _gpu_taken,
    _quota,
    _sick,
    _stuck,
    _unknown,
    _less_memory,
    _lose_pod,
    _lose_what_ended,
    _crash_one,
    _lose_record,
    _lose_status,
    _delete_deployment,
    _operator_is_away,
    _loop_that_nobody_sees,
)
"""What is worth trying against a candidate."""

EVENTS: list[tuple[str, Event]] = [
    (one.__name__.strip("_"), one)
    for one in (
        _time_passes,
        _time_passes,
        _time_passes,
        _hours_pass,
        _hours_pass,
        _operator_is_away,
        _operator_is_away,
        _in_flight,
        _in_flight,
        _in_flight,
        _in_flight,
        _loop_that_nobody_sees,
        _no_room_and_no_disruption,
        _other_wish,
        _other_wish,
        _cannot_tell,
        _headroom,
        _headroom,
        _image,
        _label,
        _insists,
        _scale,
        _scale,
        _mode,
        _suspend,
        _initial,
        _less_memory,
        _fewer_seqs,
        _slow,
        _stuck,
        _sick,
        _soak_crash,
        _unknown,
        _lose_pod,
        _lose_node,
        _crash_one,
        _lose_what_ended,
        _logs,
        _forget_logs,
        _pull,
        _quota,
        _budget,
        _turn,
        _gpu_taken,
        _crash_after_record,
        _crash_after_children,
        _lose_status,
        _lose_record,
        _delete_deployment,
        _retry,
        _edit,
    )
]
