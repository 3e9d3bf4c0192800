"""What only a change of the specification mends: arguments, model, licence."""

from parkade.rollout.causes.cause import Blame, CauseClass, RootCause, Stage
from parkade.rollout.causes.rules import Finding, Rule, Weight, rule, says
from parkade.rollout.causes.stages import Scene


def _hub(finding: Finding, scene: Scene) -> RootCause:
    """Blame the user for a refusal, the environment for an outage."""
    _ = scene
    refused = finding.match["refused"] is not None
    return RootCause(
        CauseClass.LICENCE_OR_HUB, Blame.USER if refused else Blame.ENVIRONMENT, stage=Stage.INIT
    )


def _refused(finding: Finding, scene: Scene) -> RootCause | None:
    """Blame the user for a refused configuration, but not before its reason was read.

    Some reasons have rules of their own, and a log may end between headline and reason.
    """
    after = scene.lines[finding.index + 1 : finding.index + 3]
    if "validation error" in finding.match[0] and not any("[type=" in x.text for x in after):
        told = len(scene.lines) > finding.index + 2
        return RootCause(CauseClass.BAD_ARGUMENTS, Blame.USER, stage=Stage.INIT) if told else None
    return RootCause(CauseClass.BAD_ARGUMENTS, Blame.USER, stage=Stage.INIT)


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
        r"|is smaller than max_model_len \(\d+\)",
        says(CauseClass.BAD_ARGUMENTS, Blame.USER, Stage.INIT),
        at_runtime=False,
    ),
    rule(
        r"Transformers does not recognize this architecture|are not supported for now"
        r"|architectures? \[?['\"\w, ]{1,200}\]? (?:is|are|failed|was|were) (?:not supported"
        r"|to be inspected|supported in)|has no vLLM implementation|Unrecognized model in "
        r"|Unrecognized configuration class|requires you to execute the configuration file"
        r"|Cannot find model module",
        says(CauseClass.UNSUPPORTED_MODEL, Blame.USER, Stage.INIT),
        at_runtime=False,
    ),
    rule(
        r"(?P<refused>GatedRepoError|Access to model .{0,200} is restricted|gated repo"
        r"|403 (?:Client Error|Forbidden)|Invalid user token|Invalid username or password"
        r"|[Tt]oken is required|awaiting a review from the repo|not in the authorized list"
        r"|Invalid credentials in Authorization header)",
        _hub,
        Weight.LIKELY,
        at_runtime=False,
    ),
    rule(
        r"Repository Not Found|RepositoryNotFoundError|RevisionNotFoundError"
        r"|(?<!Local)EntryNotFoundError"
        r"|404 Client Error|Invalid repository ID or local directory|is not a local folder"
        r"|Incorrect path_or_model_id|is not a valid model identifier"
        r"|does not appear to have a file named|Cannot find any "
        r"model weights"
        r"|HFValidationError|Repo id must (?:be|use)|is not a valid git identifier"
        r"|(?:FileNotFoundError|NotADirectoryError): .{0,200}(?:model|config\.json|\.safetensors|/)"
        r"|(?:Error no file|No such file).{0,100}(?:config\.json|safetensors|tokenizer)"
        r"|SafetensorError|Error while deserializing header",
        says(CauseClass.MISSING_MODEL, Blame.USER, Stage.INIT),
        Weight.LIKELY,
        at_runtime=False,
    ),
    rule(
        r"(?P<refused>401 Client Error|401 Unauthorized)",
        _hub,
        Weight.PLAIN,
        at_runtime=False,
    ),
    rule(
        r"(?P<refused>(?!))|LocalEntryNotFoundError|(?:We c|C)ouldn't connect to 'https?://"
        r"|OfflineModeIsEnabled|outgoing traffic has been disabled|HfHubHTTPError"
        r"|(?:429|50\d) (?:Client|Server) Error|Max retries exceeded with url"
        r"|Failed to resolve '|Name or service not known|Temporary failure in name resolution"
        r"|(?:ReadTimeout|ConnectTimeout|ConnectError|SSLError|ConnectionError): .{0,300}"
        r"(?:hugging|hf\.co|modelscope|HTTPSConnectionPool)",
        _hub,
        Weight.LIKELY,
        at_runtime=False,
    ),
    rule(
        r"validation errors? for \w*(?:Config|Args)\b|argparse\.ArgumentTypeError"
        r"|ArgumentError: ",
        _refused,
        Weight.LIKELY,
        at_runtime=False,
    ),
)
