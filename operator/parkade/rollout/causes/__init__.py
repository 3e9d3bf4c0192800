"""Root causes: why an engine's container ended, and whom that blames.

``classify`` is the one classifier that the judge and the command line share. It is pure: a log
and what Kubernetes says go in, a ``RootCause`` comes out, and no input raises.
"""

from parkade.rollout.causes.cause import (
    Blame,
    CauseClass,
    ContainerEvidence,
    Knob,
    RootCause,
    Stage,
)
from parkade.rollout.causes.classification import classify
from parkade.rollout.causes.evidence import excerpt
from parkade.rollout.causes.startup import StartupReport, read_startup

__all__ = [
    "Blame",
    "CauseClass",
    "ContainerEvidence",
    "Knob",
    "RootCause",
    "Stage",
    "StartupReport",
    "classify",
    "excerpt",
    "read_startup",
]
