"""What the host, the container and the image do to an engine: disk, ports, memory, libraries.

They are asked before the kernels' rules, since compilers pass an error of the disk on as their own.
"""

from parkade.rollout.causes.cause import Blame, CauseClass, Stage
from parkade.rollout.causes.rules import Rule, Weight, rule, says

RULES: tuple[Rule, ...] = (
    rule(
        r"OCI runtime \w{1,20} failed|could not select device driver|nvidia-container-cli: ",
        says(CauseClass.CONTAINER_START, Blame.ENVIRONMENT, Stage.INIT),
        at_runtime=False,
    ),
    rule(
        r"No space left on device|Errno 28\b|Disk quota exceeded",
        says(CauseClass.DISK_FULL, Blame.ENVIRONMENT),
        Weight.LIKELY,
    ),
    rule(
        r"PermissionError: \[Errno 13\]|PermissionError at |Errno 30\b|Read-only file system"
        r"|Permission denied \(os error 13\)",
        says(CauseClass.PERMISSION_DENIED, Blame.USER),
        Weight.LIKELY,
        at_runtime=False,
    ),
    rule(
        r"error while attempting to bind on address",
        says(CauseClass.ADDRESS_IN_USE, Blame.ENVIRONMENT, Stage.INIT),
        Weight.LIKELY,
    ),
    rule(
        r"[Aa]ddress already in use|Errno 98\b|EADDRINUSE",
        says(CauseClass.ADDRESS_IN_USE, Blame.ENVIRONMENT, Stage.INIT),
        Weight.LIKELY,
        at_runtime=False,
    ),
    rule(
        r"\bMemoryError(?::|$)|killed due to the node running low on memory"
        r"|DefaultCPUAllocator: (?:can't|not enough)|Cannot allocate memory"
        r"|Errno 12\b|std::bad_alloc|unable to (?:mmap|open shared memory object)",
        says(CauseClass.HOST_OUT_OF_MEMORY, Blame.ENVIRONMENT),
        Weight.LIKELY,
    ),
    rule(
        r"^Killed$|line \d+: +\d+ Killed\b|\bOOMKilled\b|oom-kill"
        r"|killed by signal:? (?:9|Killed|SIGKILL)|was sent SIGKILL"
        r"|Out of memory: Killed process|Memory cgroup out of memory"
        r"|(?:exit code: |exitcode[=: ]+|'[\w.\- ]+': )-9\b",
        says(CauseClass.HOST_OUT_OF_MEMORY, Blame.ENVIRONMENT),
        Weight.SYMPTOM,
    ),
    rule(
        r"(?:ImportError|ModuleNotFoundError|OSError): .{0,200}(?:cannot open shared object file"
        r"|undefined symbol|version `\w[\w.]*' not found)|^(?:ImportError|ModuleNotFoundError): "
        r"|AttributeError: module '(?:triton|torch|flashinfer|vllm)[\w.]{0,80}' has no attribute"
        r"|'_OpNamespace' '\w+' object has no attribute|operator \w+::\w+ does not exist"
        r"|exec format error|PackageNotFoundError|GLIBC\w*_[\d.]+' not found"
        r"|compiled using NumPy 1|numpy\.dtype size changed",
        says(CauseClass.BROKEN_BUILD, Blame.ENVIRONMENT),
        Weight.LIKELY,
        only_deadly=True,
    ),
)
