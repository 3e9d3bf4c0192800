"""How a life must end, once all faults are over and people did what they were asked for."""

from __future__ import annotations

import re

from parkade.api.conditions import Reason
from parkade.api.settings import Settings
from parkade.api.spec import Mode
from parkade.rollout.actions import Plan
from parkade.rollout.record import Record
from parkade.rollout.revision import Revision
from rollout.support.driver import Operator
from rollout.support.objects import GIB, TOTAL
from rollout.support.truth import Truth
from rollout.support.verdicts import BrokenError
from rollout.support.world import World

ASKS_FOR_A_RETRY = re.compile(r"retry of (\w+)")
WAITS_FOR_PEOPLE = {Reason.SPEC_REJECTED, Reason.NO_KNOWN_GOOD_SETTINGS}


def retry_that_is_asked_for(operator: Operator) -> str | None:
    """Return the key that Stalled tells a person to annotate."""
    stalled = operator.plans[-1].stalled
    if stalled is None or stalled.reason not in WAITS_FOR_PEOPLE:
        return None
    found = ASKS_FOR_A_RETRY.search(stalled.message)
    return found.group(1) if found is not None else None


def check(world: World, operator: Operator, truth: Truth, wish: int | None) -> None:
    """Raise BrokenError where it is neither well nor stalled for a cause that is still there.

    `wish` is what sizing recommends, and None where it cannot tell.
    """
    last, spec = operator.plans[-1], operator.endpoint().spec
    good, candidate = last.record.last_good, last.record.candidate
    if spec.replicas == 0 and world.live:
        raise BrokenError("ends with pods though zero replicas are asked for")
    if last.stalled is not None:
        _is_explained(last, truth, str(spec.engine.image if spec.engine else ""))
    elif candidate is not None and spec.replicas > 0:
        if spec.rollout.strategy.value != "Surge" or world.gpus > spec.replicas:
            raise BrokenError("ends with a candidate in flight")
    elif good is None and spec.replicas > 0:
        raise BrokenError("ends with nothing that is good")
    if good is not None and candidate is None:
        _runs(world, operator, truth, good, wish)


def _runs(world: World, operator: Operator, truth: Truth, good: Revision, wish: int | None) -> None:
    """The last good template runs on all pods, unless it can't any more, and that is told."""
    last, spec = operator.plans[-1], operator.endpoint().spec
    if last.stalled is not None and not truth.serves(good.settings, _image(good)):
        return
    ready = [pod for pod in world.pods if pod.is_ready]
    if len(ready) != spec.replicas:
        raise BrokenError(f"ends with {len(ready)} of {spec.replicas} pods ready")
    if any(pod.owner.revision != good.hash for pod in ready):
        raise BrokenError("ends with pods that are not the last good ones")
    if last.stalled is None and spec.replicas > 0 and spec.tuning.mode is Mode.AUTO:
        _is_tuned(last, good, wish, spec.tuning.headroom_bytes)


def _is_explained(last: Plan, truth: Truth, image: str) -> None:
    """What it is stalled for would happen again."""
    assert last.stalled is not None
    settings = _stalled_with(last.record, last.stalled.reason)
    if settings is None or truth.serves(settings, image):
        reason = last.stalled.reason.value
        raise BrokenError(f"stalled with {reason} for no cause that is left")


def _stalled_with(record: Record, reason: Reason) -> Settings | None:
    if reason is Reason.LAST_GOOD_FAILING:
        return record.last_good.settings if record.last_good is not None else None
    if record.candidate is not None:
        return record.candidate.revision.settings
    return record.history[0].settings if record.history else None


def _is_tuned(last: Plan, good: Revision, wish: int | None, headroom_bytes: int) -> None:
    """Where nothing failed under this configuration, what is recommended runs."""
    explained = {
        Reason.WOULD_INTERRUPT_SERVING,
        Reason.WAITING_FOR_GPU,
        Reason.COOLING_DOWN,
    }
    if wish is None or last.reason in explained:
        return
    if any(one.fingerprint == good.fingerprint for one in last.record.quarantine):
        return
    some = good.settings
    left = 176 * GIB - float(some.gpu_memory_utilization) * TOTAL - headroom_bytes
    near = abs(some.max_num_seqs - wish) <= 0.14 * max(some.max_num_seqs, wish) + 1
    if not near or not -0.7 * GIB <= left <= 3.2 * GIB:
        raise BrokenError(f"ends untuned, with {last.reason.value}")


def _image(good: Revision) -> str:
    return str(good.template["spec"]["containers"][0]["image"])
