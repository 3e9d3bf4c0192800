"""What engines and nodes really do in a random life. The operator does not know it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from parkade.api.settings import Settings
from parkade.rollout.causes import Blame, CauseClass, Knob, RootCause, Stage
from rollout.support.objects import TOTAL
from rollout.support.world import Fate

GOOD_IMAGES = ("vllm/vllm-openai:v0.32.0", "vllm/vllm-openai:v0.33.0")
BAD_IMAGE = "vllm/vllm-openai:v0.34.0"
"""Refuses an argument."""
ODD_IMAGE = "vllm/vllm-openai:v0.35.0"
"""Ends, and does not say why."""

OUT_OF_MEMORY = "CUDA out of memory while capturing graphs"
NO_SUCH_FLAG = RootCause(CauseClass.BAD_ARGUMENTS, Blame.USER, message="no such flag")
SAMPLER = RootCause(
    CauseClass.OOM_SAMPLER_WARMUP,
    Blame.SETTINGS,
    Stage.WARMUP,
    Knob.MAX_NUM_SEQS,
    "out of memory when warming up the sampler",
)
SICK_NODE = RootCause(CauseClass.NCCL_FAILURE, Blame.ENVIRONMENT, message="NCCL: unhandled error")

WINDOW = {"schedule": "30 */6 * * *", "durationSeconds": 7200}


def window_is_open(now: datetime) -> bool:
    """The same window, reckoned by hand."""
    return 30 <= (now.hour % 6) * 60 + now.minute < 150


@dataclass
class Truth:
    """What an engine of some settings will do at present."""

    max_utilization: float = 0.97
    max_seqs: int = 1024
    load_seconds: float = 20.0
    stuck: bool = False
    sick: bool = False
    """Nodes fail whatever starts."""
    unknown: bool = False
    soak_crash_seconds: float | None = None
    soak_crash: RootCause | None = None

    def fate(self, settings: Settings, image: str) -> Fate:
        if self.stuck:
            return Fate(stuck=True)
        if self.sick or image == BAD_IMAGE:
            return Fate(5, SICK_NODE if self.sick else NO_SUCH_FLAG)
        if image == ODD_IMAGE or self.unknown:
            return Fate(5, unknown_crash=True)
        over = float(settings.gpu_memory_utilization) - self.max_utilization
        if over > 0:
            return Fate(10, _out_of_memory(int(over * TOTAL)))
        if settings.max_num_seqs > self.max_seqs:
            return Fate(10, SAMPLER)
        return Fate(
            self.load_seconds, crash_after_seconds=self.soak_crash_seconds, late=self.soak_crash
        )

    def serves(self, settings: Settings, image: str) -> bool:
        """Whether an engine with these comes up and stays."""
        fate = self.fate(settings, image)
        fails = fate.stuck or fate.unknown_crash or fate.crash is not None
        return not fails and fate.crash_after_seconds is None


def _out_of_memory(shortfall_bytes: int) -> RootCause:
    return RootCause(
        CauseClass.OOM_CUDAGRAPH_CAPTURE,
        Blame.SETTINGS,
        Stage.GRAPHS,
        Knob.HEADROOM,
        OUT_OF_MEMORY,
        shortfall_bytes,
    )
