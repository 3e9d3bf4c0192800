"""The CPU backend's words for want of memory (``vllm/v1/worker/cpu_worker.py``, 0.20 to 0.33).

There ``gpu_memory_utilization`` is a share of the host's memory, which others use too.
"""

from parkade.rollout.causes.cause import Blame, CauseClass, Knob, RootCause, Stage
from parkade.rollout.causes.figures import number
from parkade.rollout.causes.memory_rules import difference, free_memory
from parkade.rollout.causes.rules import Finding, Rule, rule
from parkade.rollout.causes.stages import Scene

_NODE = r"Available memory on node \d+ \((?P<free>[\d.]{1,15})/(?P<total>[\d.]{1,15}) ?GiB\) on "


def _used_up(finding: Finding, scene: Scene) -> RootCause:
    """Say that weights and runtime are larger than the share."""
    _ = scene
    return RootCause(
        CauseClass.NO_CACHE_BLOCKS,
        Blame.SETTINGS,
        stage=Stage.KV,
        shortfall_bytes=difference(finding.match["used"], finding.match["reserved"]),
    )


def _pool(finding: Finding, scene: Scene) -> RootCause:
    """Tell a pool that was asked for in bytes, a setting, from one that follows from the share.

    The latter is short because others use the memory, unless the share is used up already.
    """
    _ = scene
    match = finding.match
    requested = number(match["requested"])
    if requested is not None and requested <= 0:
        return RootCause(CauseClass.NO_CACHE_BLOCKS, Blame.SETTINGS, stage=Stage.KV)
    asked = requested is not None and match["share"] is None
    return RootCause(
        CauseClass.FREE_MEMORY_BELOW_UTILIZATION,
        Blame.SETTINGS if asked else Blame.ENVIRONMENT,
        stage=Stage.KV,
        knob=Knob.HEADROOM if asked else None,
        shortfall_bytes=difference(match["requested"], match["free"]),
    )


RULES: tuple[Rule, ...] = (
    rule(
        _NODE + r"startup is less than(?: desired CPU memory utilization "
        r"\([\d.]+, (?P<requested>[\d.]{1,15}) GiB)?",
        free_memory,
        at_runtime=False,
    ),
    rule(
        _NODE + r"kv cache allocation is less than(?: requested memory for kv "
        r"\((?P<requested>-?[\d.]{1,15})(?P<share>/[\d.]{1,15})? GiB)?",
        _pool,
        at_runtime=False,
    ),
    rule(
        r"The worker already uses (?P<used>[\d.]{1,15}) GiB.{0,60}more than the "
        r"(?P<reserved>[\d.]{1,15}) GiB",
        _used_up,
        at_runtime=False,
    ),
)
