"""Which reason of a condition a root cause or a waiting container stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping

from parkade.api.conditions import Reason
from parkade.api.quantity import parse_bytes
from parkade.rollout.causes import CauseClass
from parkade.rollout.observed import PodState

_NAMED: Mapping[CauseClass, Reason] = {
    CauseClass.KV_BELOW_ONE_REQUEST: Reason.DOES_NOT_FIT,
    CauseClass.MAX_LEN_EXCEEDS_KV_TOKENS: Reason.DOES_NOT_FIT,
    CauseClass.OOM_WEIGHTS: Reason.DOES_NOT_FIT,
    CauseClass.BAD_ARGUMENTS: Reason.BAD_ARGUMENTS,
    CauseClass.UNSUPPORTED_MODEL: Reason.UNSUPPORTED_MODEL,
    CauseClass.MISSING_MODEL: Reason.MODEL_UNAVAILABLE,
    CauseClass.LICENCE_OR_HUB: Reason.MODEL_UNAVAILABLE,
    CauseClass.MISSING_SECRET: Reason.MISSING_SECRET,
    CauseClass.IMAGE_PULL: Reason.IMAGE_PULL_FAILED,
    CauseClass.SCHEDULING: Reason.SCHEDULING_FAILED,
    CauseClass.QUOTA: Reason.QUOTA_EXCEEDED,
    CauseClass.EVICTION: Reason.NODE_FAILED,
    CauseClass.NODE_LOST: Reason.NODE_FAILED,
    CauseClass.CUDA_ERROR_IN_ENGINE_INIT: Reason.NODE_FAILED,
    CauseClass.HOST_OUT_OF_MEMORY: Reason.NODE_FAILED,
    CauseClass.DISK_FULL: Reason.NODE_FAILED,
    CauseClass.NCCL_FAILURE: Reason.NODE_FAILED,
    CauseClass.PROBE_KILLED: Reason.PROBE_FAILED,
    CauseClass.START_TIMED_OUT: Reason.START_DEADLINE_EXCEEDED,
}

REASON_OF_CAUSE: Mapping[CauseClass, Reason] = {
    one: _NAMED.get(one, Reason.ENGINE_FAILED) for one in CauseClass
}

BELOW_ONE_REQUEST = (
    CauseClass.KV_BELOW_ONE_REQUEST.value,
    CauseClass.MAX_LEN_EXCEEDS_KV_TOKENS.value,
)
"""No knob of tuning makes these fit: a person must choose a shorter length or less headroom."""


def with_remedy(message: str, remedy: str) -> str:
    """Return an error with what helps against it."""
    return f"{message.rstrip('. ')}. What helps: {remedy}." if remedy else message


_WAITING: Mapping[str, Reason] = {
    "ErrImagePull": Reason.IMAGE_PULL_FAILED,
    "ImagePullBackOff": Reason.IMAGE_PULL_FAILED,
    "InvalidImageName": Reason.IMAGE_PULL_FAILED,
    "ErrImageNeverPull": Reason.IMAGE_PULL_FAILED,
    "ImageInspectError": Reason.IMAGE_PULL_FAILED,
    "RegistryUnavailable": Reason.IMAGE_PULL_FAILED,
    "CreateContainerError": Reason.ENGINE_FAILED,
    "RunContainerError": Reason.ENGINE_FAILED,
    "StartError": Reason.ENGINE_FAILED,
}
"""Of a container that never ran: waiting reasons of the kubelet that time alone does not heal."""


GPU_SCARCE = "Insufficient nvidia.com/gpu"
"""The scheduler's words (kube-scheduler, plugin NodeResourcesFit)."""

ROOM_SCARCE = ("Insufficient ", "anti-affinity", "free ports")
"""The same where pods of other kinds, or other pods of this kind, take what a node has."""

VOLUME_MISSING = "persistentvolumeclaim"
"""The scheduler's words for a claim that is absent or not bound (plugin VolumeBinding)."""


QUOTA_USED_UP = re.compile(r"exceeded quota: .*, used: (?P<used>\S+), limited: (?P<limited>\S+)")
"""The API server's words (kube-apiserver 1.37, plugin ResourceQuota)."""


def quota_takes_one_instead(message: str) -> bool:
    """Tell whether a quota that refuses one more pod takes one in the place of another.

    It does where no more is used than the limit; one that was lowered below what runs does not.
    """
    found = QUOTA_USED_UP.search(message)
    if found is None:
        return False
    used, limited = (_amounts(found[name]) for name in ("used", "limited"))
    return bool(used) and all(
        name in limited and amount <= limited[name] for name, amount in used.items()
    )


def _amounts(text: str) -> dict[str, int]:
    """Return whole units by resource of "a=1,b=2Gi"; empty where one of them can't be read."""
    pairs = [one.rpartition("=") for one in text.split(",")]
    found = {name: amount for name, _, raw in pairs if (amount := parse_bytes(raw)) is not None}
    return found if len(found) == len(pairs) else {}


def unscheduled_reason(pod: PodState) -> Reason:
    """Return why no node takes a pod, from the scheduler's message."""
    if GPU_SCARCE in pod.unschedulable_message:
        return Reason.WAITING_FOR_GPU
    if VOLUME_MISSING in pod.unschedulable_message.lower():
        return Reason.MISSING_VOLUME
    return Reason.SCHEDULING_FAILED


def waiting_reason(pod: PodState) -> Reason | None:
    """Return why a pod's container can't start; None where it is merely on its way."""
    if pod.waiting_reason == "CreateContainerConfigError":
        return _not_configured(pod.waiting_message.lower())
    return _WAITING.get(pod.waiting_reason)


def _not_configured(message: str) -> Reason:
    """Return what the kubelet lacks to make a container; it names the kind where one is absent."""
    if "configmap" in message:
        return Reason.MISSING_CONFIG_MAP
    return Reason.MISSING_SECRET if "secret" in message else Reason.ENGINE_FAILED
