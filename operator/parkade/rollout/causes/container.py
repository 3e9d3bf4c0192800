"""What Kubernetes says of an end, before and after the log is asked.

Old events stay for an hour, so an event counts only where the container's state agrees with it:
a pod that could not be scheduled at first and crashed later did not crash for want of a node.
"""

import re

from parkade.rollout.causes.cause import Blame, CauseClass, ContainerEvidence, RootCause, Stage

SIGKILL, SIGTERM = 137, 143
_STOPPED = frozenset({None, 0, SIGKILL, SIGTERM})
_NATIVE = frozenset({132, 134, 135, 136, 139})

_WAITING = {
    "ImagePullBackOff": CauseClass.IMAGE_PULL,
    "ErrImagePull": CauseClass.IMAGE_PULL,
    "ErrImageNeverPull": CauseClass.IMAGE_PULL,
    "RegistryUnavailable": CauseClass.IMAGE_PULL,
    "ImageInspectError": CauseClass.IMAGE_PULL,
    "SignatureValidationFailed": CauseClass.IMAGE_PULL,
    "InvalidImageName": CauseClass.IMAGE_PULL,
    "CreateContainerConfigError": CauseClass.MISSING_SECRET,
    "CreateContainerError": CauseClass.CONTAINER_START,
    "RunContainerError": CauseClass.CONTAINER_START,
    "PreStartHookError": CauseClass.CONTAINER_START,
    "PostStartHookError": CauseClass.CONTAINER_START,
}
_REASONS = {
    "OOMKilled": CauseClass.HOST_OUT_OF_MEMORY,
    "Evicted": CauseClass.EVICTION,
    "Preempting": CauseClass.EVICTION,
    "Preempted": CauseClass.EVICTION,
    "NodeLost": CauseClass.NODE_LOST,
    "NodeShutdown": CauseClass.NODE_LOST,
    "Terminated": CauseClass.NODE_LOST,
    "Shutdown": CauseClass.NODE_LOST,
    "ContainerStatusUnknown": CauseClass.NODE_LOST,
    "UnexpectedAdmissionError": CauseClass.SCHEDULING,
    "NodeAffinity": CauseClass.SCHEDULING,
    "Unschedulable": CauseClass.SCHEDULING,
    "StartError": CauseClass.CONTAINER_START,
    "ContainerCannotRun": CauseClass.CONTAINER_START,
}
_NEVER_RAN = (
    ("FailedScheduling", "", CauseClass.SCHEDULING),
    ("FailedCreate", "exceeded quota|LimitRange|maximum .* usage per", CauseClass.QUOTA),
    ("ErrImagePull|ImagePullBackOff", "", CauseClass.IMAGE_PULL),
    ("Failed|BackOff", "[Ff]ailed to pull image|pulling image", CauseClass.IMAGE_PULL),
    ("Failed.*", "(?:secret|configmap) .*not found", CauseClass.MISSING_SECRET),
    ("FailedCreate|Failed|FailedMount", "forbidden: .*quota", CauseClass.QUOTA),
)
_ENDED = (
    ("Evicted|EvictionThresholdMet", "", CauseClass.EVICTION),
    ("Preempted|Preempting|TaintManagerEviction", "", CauseClass.EVICTION),
    ("Shutdown|NodeShutdown", "", CauseClass.NODE_LOST),
    ("NodeNotReady|NodeLost|DeletingNode|NodeControllerEviction", "", CauseClass.NODE_LOST),
)
_USERS = frozenset({CauseClass.MISSING_SECRET})
_PROBED = re.compile(
    r"(?:startup|liveness) probe (?:failed|errored)|failed (?:startup|liveness) probe",
    re.IGNORECASE,
)


def before_the_log(evidence: ContainerEvidence) -> RootCause | None:
    """Return what Kubernetes decides alone: no log can say more, or there is none."""
    if evidence.exit_code is None and (found := _WAITING.get(evidence.waiting_reason)):
        return _cause(found, _waiting_message(evidence), evidence.waiting_reason)
    if found := _REASONS.get(evidence.reason) or _resource_reason(evidence.reason):
        return _cause(found, evidence.message or evidence.reason, evidence.reason)
    if evidence.exit_code is None:
        return _from_events(evidence, _NEVER_RAN) or _from_events(evidence, _ENDED)
    if evidence.exit_code in _STOPPED:
        return _from_events(evidence, _ENDED)
    return None


def stopped(evidence: ContainerEvidence) -> bool:
    """Tell whether the end was asked for and looks like it."""
    return evidence.deletion_requested and evidence.exit_code in _STOPPED


def probe_killed(evidence: ContainerEvidence) -> RootCause | None:
    """Return that a probe ended it: the kubelet says so, and the exit code agrees."""
    texts = [message for _, message in evidence.events if _PROBED.search(message)]
    killing = any(
        reason == "Killing" and _PROBED.search(message) for reason, message in evidence.events
    )
    if evidence.exit_code in {SIGKILL, SIGTERM} and texts:
        return _probe(evidence, texts[-1])
    return _probe(evidence, texts[-1]) if killing and evidence.exit_code in _STOPPED else None


def after_the_log(evidence: ContainerEvidence) -> RootCause | None:
    """Return what the exit code alone says, when the log said nothing."""
    code = evidence.exit_code
    if killed := probe_killed(evidence):
        return killed
    if code == SIGTERM:
        return _probe(
            evidence, "the container ended on SIGTERM that nobody is known to have asked for"
        )
    if code in _NATIVE and code is not None:
        return _cause(CauseClass.NATIVE_CRASH, f"the container ended with signal {code - 128}")
    if code == 2:
        return _cause(CauseClass.BAD_ARGUMENTS, "the engine refused its arguments (exit code 2)")
    if code in {126, 127, 128}:
        return _cause(
            CauseClass.CONTAINER_START, f"the command could not be run (exit code {code})"
        )
    return None


def exit_message(evidence: ContainerEvidence) -> str:
    """Return a sentence on an exit code that explains nothing."""
    match evidence.exit_code:
        case None:
            return ""
        case 0:
            return "the server ended with exit code 0, which is a crash too: a server does not end"
        case 137:
            return "the container was killed (exit code 137); nothing says by whom"
        case code:
            return f"the container ended with exit code {code}"


def _from_events(
    evidence: ContainerEvidence, table: tuple[tuple[str, str, CauseClass], ...]
) -> RootCause | None:
    for reason, message in reversed(evidence.events):
        for reasons, words, cause_class in table:
            if re.fullmatch(reasons, reason) and re.search(words, message[:4000]):
                return _cause(cause_class, message or reason, reason)
    return None


def _cause(cause_class: CauseClass, message: str, reason: str = "") -> RootCause:
    user = cause_class is CauseClass.BAD_ARGUMENTS or cause_class in _USERS
    blame = Blame.USER if user or reason == "InvalidImageName" else Blame.ENVIRONMENT
    return RootCause(cause_class, blame, message=message, key_lines=(message,) if message else ())


def _probe(evidence: ContainerEvidence, message: str) -> RootCause:
    return RootCause(
        CauseClass.PROBE_KILLED,
        Blame.ENVIRONMENT,
        stage=Stage.RUNTIME if evidence.ready_before else None,
        message=message,
        key_lines=(message,),
    )


def _resource_reason(reason: str) -> CauseClass | None:
    """Return the class of the kubelet's admission reasons (OutOfcpu, OutOfnvidia.com/gpu)."""
    return CauseClass.SCHEDULING if reason.startswith("OutOf") else None


def _waiting_message(evidence: ContainerEvidence) -> str:
    telling = [
        m for r, m in evidence.events if r in {"Failed", "FailedMount", "InspectFailed"} and m
    ]
    return evidence.message or (telling[-1] if telling else evidence.waiting_reason)
