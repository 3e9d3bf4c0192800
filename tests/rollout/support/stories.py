"""How a story begins, and what engines can be made to do in it."""

from decimal import Decimal

from parkade.api.settings import Settings
from parkade.rollout.actions import Action
from parkade.rollout.causes import Blame, CauseClass, Knob, RootCause, Stage
from rollout.support.driver import Operator, leaves_headroom
from rollout.support.objects import GIB, body
from rollout.support.world import Fate, World

INITIAL = {"maxNumSeqs": 256, "gpuMemoryUtilization": "0.90"}

OUT_OF_MEMORY = RootCause(
    CauseClass.OOM_CUDAGRAPH_CAPTURE,
    Blame.SETTINGS,
    Stage.GRAPHS,
    Knob.HEADROOM,
    "CUDA out of memory while capturing graphs",
    GIB,
)
NO_SUCH_FLAG = RootCause(
    CauseClass.BAD_ARGUMENTS, Blame.USER, message="unrecognized arguments: --nonsense"
)


def started(gpus: int = 2, seqs: int | None = None, **spec) -> Operator:
    """An endpoint whose first revision was promoted."""
    spec = {"tuning": {"initial": INITIAL, **spec.pop("tuning", {})}, **spec}
    operator = Operator(World(gpus), body(spec))
    operator.step()
    operator.until(Action.PROMOTE)
    operator.size = leaves_headroom(seqs)
    operator.run(10)
    return operator


def told(operator: Operator, seconds: float) -> list[tuple[str, str]]:
    return [(one.action.value, one.reason.value) for one in operator.run(seconds)]


def crashes_above(limit: str, cause: RootCause = OUT_OF_MEMORY):
    def fate(some: Settings, _image: str) -> Fate:
        return Fate(10, cause) if some.gpu_memory_utilization > Decimal(limit) else Fate()

    return fate


def image_fails(cause: RootCause | None = NO_SUCH_FLAG, image: str = "broken:1"):
    def fate(_some: Settings, running: str) -> Fate:
        if running != image:
            return Fate()
        return Fate(10, cause, unknown_crash=cause is None)

    return fate
