"""The engine's cache planner: an architecture and engine options become a capacity."""

from parkade.sizing.planner.capacity import KVCapacity, KVLayout
from parkade.sizing.planner.grouping import CacheGroup
from parkade.sizing.planner.layout import NotPlannable, plan_kv
from parkade.sizing.planner.options import EngineOptions

__all__ = [
    "CacheGroup",
    "EngineOptions",
    "KVCapacity",
    "KVLayout",
    "NotPlannable",
    "plan_kv",
]
