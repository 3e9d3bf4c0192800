"""How the planner's parts say that the engine would not start."""


class Refusal(Exception):  # noqa: N818 - a stated outcome: plan_kv turns it into a NotPlannable
    """The engine refuses this combination; the message says why in one line."""
