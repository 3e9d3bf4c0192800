"""Where the model comes from: the hub, a bucket, a volume; what is missing, refused or away."""

from parkade.rollout.causes.cause import Blame, CauseClass, Stage
from parkade.rollout.causes.rules import Rule, Weight, rule, says

_NO_CACHE = (
    r"(?!.*(?:\.triton|torchinductor|torch_extensions|_cache/|'/(?:tmp|proc|dev|sys)/"
    r"|/(?:psm|torch|sem)[_.]|/bin/|\.(?:so|lock|sock|tmp|cu|cubin|pyi?)\b))"
)
"""Files of the system, of compilers and of shared memory are no models."""

_URL = r"for url:? '?https?://"

RULES: tuple[Rule, ...] = (
    rule(
        r"GatedRepoError|Access to model .{0,200} is restricted|gated repo"
        r"|403 (?:Client Error|Forbidden)|Invalid user token|Invalid username or password"
        r"|[Tt]oken is required|awaiting a review from the repo|not in the authorized list"
        r"|Invalid credentials in Authorization header"
        r"|NoCredentialsError|PartialCredentialsError|\((?:AccessDenied|InvalidAccessKeyId"
        r"|SignatureDoesNotMatch|ExpiredToken|InvalidToken|403)\) when calling",
        says(CauseClass.LICENCE_OR_HUB, Blame.USER, Stage.INIT),
        Weight.LIKELY,
        at_runtime=False,
    ),
    rule(
        r"Repository Not Found|RepositoryNotFoundError|RevisionNotFoundError"
        r"|(?<!Local)EntryNotFoundError"
        r"|404 Client Error|Client error '404 |Invalid repository ID or local directory"
        r"|is not a local folder"
        r"|Incorrect path_or_model_id|is not a valid model identifier"
        r"|does not appear to have a file named|Cannot find any (?:of the )?"
        r"model weights|OSError: Can't load (?:the configuration|tokenizer|image processor"
        r"|feature extractor|the model|config) (?:of|for) "
        r"|HFValidationError|Repo id must (?:be|use)|is not a valid git identifier"
        rf"|(?:FileNotFoundError|NotADirectoryError): {_NO_CACHE}.{{0,200}}"
        r"(?:model|config\.json|\.safetensors|/)"
        r"|(?:Error no file|No such file).{0,100}(?:config\.json|safetensors|tokenizer)"
        r"|SafetensorError|Error while deserializing header"
        r"|\((?:NoSuchBucket|NoSuchKey|404)\) when calling|Could not detect config format",
        says(CauseClass.MISSING_MODEL, Blame.USER, Stage.INIT),
        Weight.LIKELY,
        at_runtime=False,
    ),
    rule(
        rf"401 Client Error|401 Unauthorized|Client error '(?:401|403) .{{0,60}}{_URL}",
        says(CauseClass.LICENCE_OR_HUB, Blame.USER, Stage.INIT),
        Weight.PLAIN,
        at_runtime=False,
    ),
    rule(
        r"LocalEntryNotFoundError|(?:We c|C)ouldn't connect to 'https?://"
        r"|OfflineModeIsEnabled|outgoing traffic has been disabled|HfHubHTTPError"
        rf"|(?:429|50\d) (?:Client|Server) Error"
        rf"|(?:Client|Server) error '(?:429|50\d) .{{0,60}}{_URL}"
        r"|HTTP status (?:client|server) error \((?:429|50\d)|Max retries exceeded with url"
        r"|Failed to resolve '|Name or service not known|Temporary failure in name resolution"
        r"|CERTIFICATE_VERIFY_FAILED|Cannot connect to proxy|Network is unreachable"
        r"|EndpointConnectionError|httpx\.(?:Connect|Read|Proxy|Network|RemoteProtocol)\w*: "
        r"|(?:ReadTimeout|ConnectTimeout|ConnectError|SSLError|ConnectionError|ProxyError): "
        r".{0,300}(?:hugging|hf\.co|modelscope|HTTPSConnectionPool)",
        says(CauseClass.LICENCE_OR_HUB, Blame.ENVIRONMENT, Stage.INIT),
        Weight.LIKELY,
        at_runtime=False,
    ),
)
