"""What only a change of the specification mends: arguments, and models that are not known."""

from parkade.rollout.causes import hub_rules
from parkade.rollout.causes.cause import Blame, CauseClass, RootCause, Stage
from parkade.rollout.causes.origins import by_origin
from parkade.rollout.causes.rules import Finding, Rule, Weight, rule, says
from parkade.rollout.causes.stages import Scene

_REASON_LINES = 8


def _refused(finding: Finding, scene: Scene) -> RootCause | None:
    """Blame the user for a refused configuration, but not before its reason was read.

    Some reasons have rules of their own, and a log may end between headline and reason.
    """
    if "validation error" in finding.match[0]:
        reason = _reason(finding, scene)
        if len(reason) < 2 and not any("[type=" in text for text in reason):
            return None
        if any(other.pattern.search(text) for text in reason for other in hub_rules.RULES):
            return None
    return RootCause(CauseClass.BAD_ARGUMENTS, Blame.USER, stage=Stage.INIT)


def _reason(finding: Finding, scene: Scene) -> list[str]:
    """Return the lines after pydantic's headline, to the one that names the type of the error."""
    reason: list[str] = []
    for line in scene.lines[finding.index + 1 : finding.index + 1 + _REASON_LINES]:
        reason.append(line.text)
        if "[type=" in line.text:
            break
    return reason


def _named(finding: Finding, scene: Scene) -> RootCause:
    """Blame the user for an argument that an error names, unless the log ends in its sentence."""
    if scene.ends_within(finding.index):
        return by_origin(finding, scene)
    return RootCause(CauseClass.BAD_ARGUMENTS, Blame.USER, stage=Stage.INIT)


_NAMES = r"^(?:\w{1,60}\.){0,6}"
_NO_PROMPT = r"(?!.{0,1000}[Pp]rompt)"
_REFUSALS = _NAMES + r"(?:Value|NotImplemented|Type|Key|Assertion|ArgumentType)Error: "
_ARGUMENTS = (
    r"max_num_batched_tokens|max_model_len|tensor_parallel_size|pipeline_parallel_size"
    r"|data_parallel_size|num_speculative_tokens|kv_cache_dtype|block_size|served_model_name"
    r"|enable_\w{3,40}|trust_remote_code|speculative_config|compilation_config|hf_overrides"
)

RULES: tuple[Rule, ...] = (
    rule(
        r"error: (?:unrecognized arguments|argument |the following arguments are required"
        r"|ambiguous option)|expected one argument|invalid choice: ",
        says(CauseClass.BAD_ARGUMENTS, Blame.USER, Stage.INIT),
        at_runtime=False,
    ),
    rule(
        r"User-specified max_model_len|is greater than the derived max_model_len"
        r"|attention heads \(\d+\) must be divisible by|must be divisible by tensor parallel size"
        r"|[Uu]nknown quantization method|does not match the quantization method"
        r"|GPU memory utilization must be less|gpu_memory_utilization.{0,60}should be"
        r"|is not supported for the current GPU\. Minimum capability"
        r"|Bfloat16 is only supported on GPUs|does not support float16"
        r"|World size \(\d+\) is larger than|exceeds available GPUs"
        r"|is smaller than max_model_len \(\d+\)"
        r"|[Cc]hat template .{0,300}(?:path-like|failed to be opened)"
        r"|invalid (?:tool call|reasoning) parser|Too large swap space"
        r"|Selected backend .{0,120} is not valid for this configuration"
        r"|\w{1,20} MoE backend '?\w{1,40}'? does not support the deployment configuration"
        r"|VLLM_\w{1,60}.{0,120}(?:appears to be a URI|must be a valid integer)"
        r"|Invalid value '.{0,120}' (?:for|in) VLLM_|provide the model as a positional argument"
        r"|\d+ is not divisible by (?:min_thread_|weight quantization block_)"
        r"|not aligned with the quantized weight shape|must be divisible by ep_size"
        r"|does not support LoRA|Pipeline parallelism is not supported",
        says(CauseClass.BAD_ARGUMENTS, Blame.USER, Stage.INIT),
        at_runtime=False,
    ),
    rule(
        r"Transformers does not recognize this architecture|are not supported for now"
        r"|architectures? \[?['\"\w, ]{1,200}\]? (?:is|are|was|were) (?:not supported"
        r"|supported in)|has no vLLM implementation|Unrecognized model in "
        r"|Unrecognized configuration class|requires you to execute the configuration file"
        r"|contains custom code which must be executed|No model architectures are specified"
        r"|Tokenizer class \w{1,80} does not exist|did not match any variant of untagged enum"
        r"|There is no module or parameter named|weights were not initialized from checkpoint"
        r"|No compressed-tensors compatible scheme|Unsupported quantization config"
        r"|Cannot find model module|Unknown gguf model_type"
        r"|config file at .{1,300} is not a valid JSON",
        says(CauseClass.UNSUPPORTED_MODEL, Blame.USER, Stage.INIT),
        at_runtime=False,
    ),
    rule(
        r"architectures? .{1,200} failed to be inspected",
        says(CauseClass.UNSUPPORTED_MODEL, Blame.USER, Stage.INIT),
        Weight.PLAIN,
        at_runtime=False,
    ),
    *hub_rules.RULES,
    rule(
        r"validation errors? for \w*(?:Config|Args)\b|argparse\.ArgumentTypeError"
        r"|ArgumentError: ",
        _refused,
        Weight.LIKELY,
        at_runtime=False,
    ),
    rule(
        rf"^\s*(?:Value|Assertion) error, .{{1,2000}}\[type=\w+_error\b|{_REFUSALS}{_NO_PROMPT}"
        r".{0,400}(?<![\w\-])`?--[a-z][\w\-]{2,60}",
        says(CauseClass.BAD_ARGUMENTS, Blame.USER, Stage.INIT),
        Weight.LIKELY,
        at_runtime=False,
    ),
    rule(
        rf"{_NAMES}(?:Value|Key)Error: {_NO_PROMPT}\w{{1,40}}='[^']{{0,80}}' is not supported"
        rf"|{_NAMES}(?:Value|Key)Error: {_NO_PROMPT}.{{0,200}}[.,;] (?:Valid|Supported|Available"
        r"|Allowed|Possible) (?:options|values|backends|choices|types|methods)\b",
        _named,
        Weight.LIKELY,
        at_runtime=False,
    ),
    rule(
        rf"{_NAMES}(?:Value|NotImplemented|Assertion)Error: {_NO_PROMPT}"
        rf".{{0,400}}\b(?:{_ARGUMENTS})\b",
        _named,
        Weight.LIKELY,
        at_runtime=False,
    ),
)
