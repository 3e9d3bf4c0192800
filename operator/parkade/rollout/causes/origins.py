"""What an exception without a rule of its own says by the place where it was raised.

File names move between versions, packages hardly do: the configuration is checked in
``vllm/config`` and ``vllm/engine/arg_utils.py``, weights come in through ``load_weights`` and
``weight_loader``, and kernels live in libraries that are known by name.
"""

import re

from parkade.rollout.causes.cause import Blame, CauseClass, RootCause, Stage
from parkade.rollout.causes.rules import Finding
from parkade.rollout.causes.stages import Scene

CODE = re.compile(r'\s*File "')
"""A traceback's line that names a file."""

_KERNEL_FILE = re.compile(
    r'File "[^"]{0,400}(?:flashinfer|triton|torch/_inductor|torch_compile_cache'
    r"|_custom_ops\.py|torch/_ops\.py|deep_gemm|flash_attn|cutlass|tilelang|/fla/ops|xformers|_C\."
    r"|/csrc/|\.cuh?\"|tvm_ffi|/aiter/)"
)
_CONFIG_FILE = re.compile(
    r'File "[^"]{0,400}vllm/(?:config/|config\.py|envs\.py|engine/arg_utils\.py|platforms/'
    r"|utils/argparse|entrypoints/(?:openai|cli|serve)/)"
)
_CONFIG_FRAMES = frozenset(
    {"create_engine_config", "create_model_config", "parse_args", "validate_parsed_serve_args"}
)
_ENGINE_FRAMES = frozenset({"run_engine_core", "worker_main", "worker_busy_loop"})
"""In the engine's processes the configuration's modules also judge what was measured."""

_LOADERS = frozenset({"load_weights", "weight_loader", "_load_module"})
_REFUSAL = re.compile(r"(?:[\w.]{1,80}\.)?(?:(?:Value|NotImplemented|Key)Error: |AssertionError)")
_SAID = re.compile(r"(?:[\w.]{1,80}\.)?(?:Value|NotImplemented)Error: ")
_MISMATCH = re.compile(r"KeyError: '[\w.]{1,200}\.\w{1,80}'|AssertionError(?::|$)")
_QUANTIZATION_FILE = re.compile(r'File "[^"]{0,400}vllm/model_executor/layers/quantization/')
_MISSING_TOOL = re.compile(
    r"No such file or directory: '(?:\S{0,200}/)?(?:nvcc|ninja|gcc|g\+\+|cc)'"
)
_NEAR_LINES = 12


def by_origin(finding: Finding, scene: Scene) -> RootCause:
    """Blame nobody, unless the place says enough: a kernel library, the arguments, the weights."""
    stage = scene.stage_at(finding.index)
    text = scene.lines[finding.index].text
    inner = _innermost(finding.index, scene)
    if _KERNEL_FILE.search(inner) or _MISSING_TOOL.search(text):
        return _kernel(stage)
    if scene.served or stage is Stage.RUNTIME:
        return RootCause(CauseClass.UNKNOWN, Blame.UNKNOWN, stage=stage)
    names = scene.frames(finding.index)
    told = _CONFIG_FRAMES & names and _SAID.match(text)
    checked = told or (_CONFIG_FILE.search(inner) and _REFUSAL.match(text))
    if checked and stage in {Stage.INIT, None} and not _ENGINE_FRAMES & names:
        return RootCause(CauseClass.BAD_ARGUMENTS, Blame.USER, stage=Stage.INIT)
    mismatch = _LOADERS & names and _MISMATCH.match(text)
    refused = _QUANTIZATION_FILE.search(inner) and _SAID.match(text) and stage is Stage.LOAD
    if (mismatch or refused) and not scene.ends_within(finding.index):
        return RootCause(CauseClass.UNSUPPORTED_MODEL, Blame.USER, stage=Stage.LOAD)
    return RootCause(CauseClass.UNKNOWN, Blame.UNKNOWN, stage=stage)


def _kernel(stage: Stage | None) -> RootCause:
    cause_class = (
        CauseClass.STARTED_THEN_KERNEL_ERROR_AT_FIRST_REQUEST
        if stage is Stage.RUNTIME
        else CauseClass.KERNEL_ERROR_IN_PROFILE_RUN
    )
    return RootCause(cause_class, Blame.ENVIRONMENT, stage=stage)


def _innermost(index: int, scene: Scene) -> str:
    """Return the file line nearest before an exception, of its own process."""
    process = scene.lines[index].process
    before = (scene.lines[i] for i in range(index - 1, max(-1, index - _NEAR_LINES), -1))
    return next((x.text for x in before if x.process == process and CODE.match(x.text)), "")
