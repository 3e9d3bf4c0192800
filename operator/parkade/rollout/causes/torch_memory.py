"""The figures in torch's out-of-memory text: wanted, free, ours, and somebody else's."""

import re

from parkade.rollout.causes.figures import size

MIN_FREE_SHARE = 0.85
"""Below this share of the card something else holds it, and a smaller fraction is no cure."""

_SIZE = r"[\d.]+ ?[KMGT]?i?B"
_CAPACITY = re.compile(
    rf"(?:has a total capacity of (?P<total>{_SIZE}) of which (?P<free>{_SIZE}) is free"
    rf"|(?P<total_old>{_SIZE}) total capacity;.{{0,120}}? (?P<free_old>{_SIZE}) free)"
)
TRIED = re.compile(rf"Tried to allocate (?P<tried>{_SIZE})")
_OWN = re.compile(rf"this process has (?P<own>{_SIZE}) memory in use")
_ENDED = re.compile(
    rf"(?:is free|out of memory|Tried to allocate {_SIZE})\.?$|in use\b|already allocated"
    r"|reserved by PyTorch|\.\.\.|…"
)


def is_whole(text: str) -> bool:
    """Tell whether a sentence came to its end, or was shortened by a person (``...``)."""
    return bool(_ENDED.search(text.rstrip()))


def held_by_others(text: str) -> bool:
    """Whether more than the allowed share of the card is neither free nor this process's."""
    capacity, own = _CAPACITY.search(text), _OWN.search(text)
    if not capacity or not own:
        return False
    total = size(capacity["total"] or capacity["total_old"])
    free = size(capacity["free"] or capacity["free_old"])
    used = size(own["own"])
    if not total or free is None or not used:
        return False
    return total - free - used > (1 - MIN_FREE_SHARE) * total


def tried_minus_free(text: str) -> int | None:
    """Return by how many bytes an allocation was larger than what was free, if it was."""
    tried, capacity = TRIED.search(text), _CAPACITY.search(text)
    if not tried or not capacity:
        return None
    wanted, free = size(tried["tried"]), size(capacity["free"] or capacity["free_old"])
    return wanted - free if wanted is not None and free is not None and wanted > free else None
