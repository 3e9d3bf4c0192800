"""Every rule of the resource with an accepted and a refused example.

Each row runs twice: against the models (what the command line and the operator see), and through
the real API server (what users see).
"""

import pytest

from api.examples import ABSENT, FULL, MINIMAL, changed
from parkade.api import names
from parkade.api.base import VALIDATIONS
from parkade.api.crd import custom_resource_definition
from parkade.api.endpoint import Endpoint, InvalidEndpoint, parse_endpoint

OWNED = "extraArgs may not name a flag that Parkade sets or relies on"
PODS = "args, command, probes and terminationMessagePolicy of the container vllm are Parkade's"
MARKS = "labels and annotations under serving.parkade.dev/ are Parkade's"
NAME = "metadata.name must be a DNS label of at most 50 characters"
NO_HUB = "a model that is not a Hugging Face id"
ONE_OF = "exactly one of engine and targetRef must be given"
IN_RANGE = "initial.maxNumSeqs must lie between maxNumSeqs.min and maxNumSeqs.max"
FIVE = "schedule must be a cron expression of five fields"
CONFIG = {"name": "c", "key": "config.json"}


def accepted(title, **changes):
    return pytest.param(changes, None, id=f"accepted: {title}")


def refused(title, message, **changes):
    return pytest.param(changes, message, id=f"refused: {title}")


def args(*arguments):
    return {"spec.engine.extraArgs": list(arguments)}


def container(**fields):
    return {"spec.engine.podTemplate": {"spec": {"containers": [fields]}}}


def window(**fields):
    base = {"schedule": "0 2 * * *", "durationSeconds": 7200}
    return {"spec.tuning.maintenanceWindows": [base | fields]}


ROWS = [
    accepted("the smallest resource"),
    # metadata.name
    accepted("a name of 50 characters", **{"metadata.name": "a" * 50}),
    refused("a name of 51 characters", NAME, **{"metadata.name": "a" * 51}),
    accepted("a name of one letter", **{"metadata.name": "a"}),
    refused("a name that begins with a digit", NAME, **{"metadata.name": "7b"}),
    refused("a name with a dot", NAME, **{"metadata.name": "a.b"}),
    # engine or targetRef
    refused("neither engine nor targetRef", ONE_OF, **{"spec.engine": ABSENT}),
    refused("both engine and targetRef", ONE_OF, **{"spec.targetRef": {"name": "qwen"}}),
    accepted("targetRef alone", **{"spec.engine": ABSENT, "spec.targetRef": {"name": "qwen"}}),
    # model
    accepted("a hub id without an owner", **{"spec.model.name": "gpt2"}),
    accepted(
        "a path with config.json and size",
        **{
            "spec.model.name": "/models/qwen",
            "spec.model.configMapKeyRef": CONFIG,
            "spec.model.weightsSize": "20Gi",
        },
    ),
    refused(
        "a path without size",
        NO_HUB,
        **{"spec.model.name": "/models/qwen", "spec.model.configMapKeyRef": CONFIG},
    ),
    refused(
        "a path without config.json",
        NO_HUB,
        **{"spec.model.name": "/models/qwen", "spec.model.weightsSize": "20Gi"},
    ),
    refused("an address without either", NO_HUB, **{"spec.model.name": "s3://bucket/qwen"}),
    refused("a name that is a flag", "spec.model.name", **{"spec.model.name": "--host"}),
    refused("no length", "maxModelLen", **{"spec.model.maxModelLen": ABSENT}),
    # quantities and fractions
    accepted("a quantity in bytes as a number", **{"spec.model.weightsSize": 21474836480}),
    accepted("a quantity with a point", **{"spec.accelerator.memory": "178.35Gi"}),
    refused("a negative quantity", "weightsSize", **{"spec.model.weightsSize": "-1Gi"}),
    refused("a negative number of bytes", "weightsSize", **{"spec.model.weightsSize": -1}),
    refused("a quantity with an unknown unit", "headroom", **{"spec.tuning.headroom": "6GB"}),
    refused("a quantity that is a float", "headroom", **{"spec.tuning.headroom": 6.5}),
    accepted(
        "a fraction as a decimal text",
        **{"spec.tuning.initial": {"maxNumSeqs": 8, "gpuMemoryUtilization": "0.9521"}},
    ),
    refused(
        "a fraction as a float",
        "gpuMemoryUtilization",
        **{"spec.tuning.initial": {"maxNumSeqs": 8, "gpuMemoryUtilization": 0.95}},
    ),
    refused(
        "a fraction of nothing",
        "gpuMemoryUtilization",
        **{"spec.tuning.initial": {"maxNumSeqs": 8, "gpuMemoryUtilization": "0.000"}},
    ),
    refused(
        "a fraction above one",
        "gpuMemoryUtilization",
        **{"spec.tuning.initial": {"maxNumSeqs": 8, "gpuMemoryUtilization": "1.01"}},
    ),
    # headroom against the card
    accepted(
        "a headroom below the card's memory",
        **{"spec.accelerator.memory": "178Gi", "spec.tuning.headroom": "100G"},
    ),
    refused(
        "a headroom as large as the card",
        "tuning.headroom must be less than accelerator.memory",
        **{"spec.accelerator.memory": "6Gi"},
    ),
    refused(
        "a headroom larger than the card, both in bytes",
        "tuning.headroom must be less than accelerator.memory",
        **{"spec.accelerator.memory": 1000, "spec.tuning.headroom": 1001},
    ),
    # arguments
    accepted("an argument with a value", **args("--max-num-batched-tokens", "8192")),
    accepted("a flag that an owned one begins", **args("--kv-cache-dtype-skip-layers", "1")),
    accepted("another flag that begins alike", **args("--model-impl=auto")),
    accepted("a short flag that is not owned", **args("-q", "fp8", "-O3", "-dc", "{}")),
    accepted("a value that looks like a flag's name", **args("--chat-template", "max-num-seqs")),
    *(
        refused(f"the argument {argument}", OWNED, **args("--enforce-eager", argument))
        for argument in (
            *("--max-num-seqs", "--max-num-seqs=8", "--max_num_seqs", "--max_num_seqs=8"),
            *("--max-num-s", "--gpu-memory-utilization", "--device-memory-utilization=0.9"),
            *("--kv-cache-memory-bytes", "--kv-cache-memory=1", "--kv-cache-mem", "--kv_cache_mem"),
            *("--max-num-active-seqs", "--model", "--revision=main", "--max-model-len=8"),
            *("--kv-cache-dtype=fp8", "--tensor-parallel-size", "-tp", "-tp=2", "-t", "-pp"),
            *("--speculative-config={}", "--speculative-config.method", "-sc", "--spec-tokens"),
            *("-dp", "--data-parallel-size=2", "-n", "-n2", "--host", "--port=80", "--config"),
            *("--num-gpu-blocks-override", "--disable-log-stats", "--ssl-certfile", "--uds"),
            *("--max-num-seqs 8", "--m"),
        )
    ),
    refused("an empty argument", "extraArgs", **args("")),
    refused("a number as an argument", "extraArgs", **args(8)),
    # environment
    accepted("a variable", **{"spec.engine.env": [{"name": "A", "value": "1"}]}),
    refused("a variable without a name", "name", **{"spec.engine.env": [{"value": "1"}]}),
    refused("a variable twice", "uplicate", **{"spec.engine.env": [{"name": "A"}, {"name": "A"}]}),
    refused(
        "a pull secret twice",
        "imagePullSecrets",
        **{"spec.engine.imagePullSecrets": [{"name": "a"}, {"name": "a"}]},
    ),
    # pod template
    accepted("resources of the engine", **container(name="vllm", resources={"limits": {"cpu": 1}})),
    accepted("arguments of a sidecar", **container(name="proxy", args=["-v"], livenessProbe={})),
    refused("arguments of the engine's container", PODS, **container(name="vllm", args=["-v"])),
    refused("a command of the engine's container", PODS, **container(name="vllm", command=["sh"])),
    refused("a probe of the engine's container", PODS, **container(name="vllm", livenessProbe={})),
    refused("a container without a name", "name", **container(image="proxy")),
    accepted("labels", **{"spec.engine.podTemplate": {"metadata": {"labels": {"team": "a"}}}}),
    refused(
        "a label of Parkade's",
        MARKS,
        **{"spec.engine.podTemplate": {"metadata": {"labels": {names.ENDPOINT_LABEL: "x"}}}},
    ),
    refused(
        "an annotation of Parkade's",
        MARKS,
        **{"spec.engine.podTemplate": {"metadata": {"annotations": {f"{names.GROUP}/x": "1"}}}},
    ),
    # image, product
    refused("an image with a space", "image", **{"spec.engine.image": "vllm v1"}),
    refused("a product that is no label", "product", **{"spec.accelerator.product": "NVIDIA B200"}),
    # assumed lengths
    accepted(
        "assumed lengths that fill the context",
        **{"spec.workload.assumed": {"promptTokens": 32000, "outputTokens": 768}},
    ),
    refused(
        "assumed lengths beyond the context",
        "workload.assumed.promptTokens + outputTokens may not exceed model.maxModelLen",
        **{"spec.workload.assumed": {"promptTokens": 32000, "outputTokens": 769}},
    ),
    # objectives
    accepted("one objective", **{"spec.objectives": {"minOutputTokensPerSecond": 100}}),
    refused(
        "objectives that ask for nothing",
        "objectives needs minOutputTokensPerSecond or maxTimeToFirstTokenSeconds",
        **{"spec.objectives": {"attainmentPercent": 90}},
    ),
    # tuning
    accepted("a range of one value", **{"spec.tuning.maxNumSeqs": {"min": 8, "max": 8}}),
    refused(
        "a range upside down",
        "maxNumSeqs.min may not be larger than maxNumSeqs.max",
        **{"spec.tuning.maxNumSeqs": {"min": 9, "max": 8}},
    ),
    refused(
        "initial settings above the range",
        IN_RANGE,
        **{
            "spec.tuning.maxNumSeqs": {"max": 128},
            "spec.tuning.initial": {"maxNumSeqs": 256, "gpuMemoryUtilization": "0.90"},
        },
    ),
    refused(
        "initial settings below the range",
        IN_RANGE,
        **{
            "spec.tuning.maxNumSeqs": {"min": 8},
            "spec.tuning.initial": {"maxNumSeqs": 7, "gpuMemoryUtilization": "0.90"},
        },
    ),
    refused("a mode in lower case", "mode", **{"spec.tuning.mode": "auto"}),
    accepted(
        "interruption in windows without windows", **{"spec.tuning.interruption": "InWindows"}
    ),
    accepted("a window", **window()),
    refused("a schedule of four fields", FIVE, **window(schedule="0 22 * * ")),
    refused("a schedule of six fields", FIVE, **window(schedule="0 0 2 * * *")),
    refused("a schedule by nickname", FIVE, **window(schedule="@midnight")),
    refused("a window of no length", "durationSeconds", **window(durationSeconds=0)),
    refused("a path as time zone", "timeZone", **window(timeZone="../etc/passwd")),
    # types
    refused("a number as text", "replicas", **{"spec.replicas": "1"}),
    refused("a truth value as a number", "suspend", **{"spec.suspend": 1}),
    accepted("zero replicas", **{"spec.replicas": 0}),
    refused("negative replicas", "replicas", **{"spec.replicas": -1}),
    refused("no spec", "spec", spec=ABSENT),
    refused("an unknown field", "tunning", **{"spec.tunning": {}}),
    accepted("null for what is optional", **{"spec.objectives": None}),
    accepted(
        "null for what has a default",
        **{"spec.tuning": None, "spec.workload": {"minRequests": None}},
    ),
    refused("null for what is required", "maxModelLen", **{"spec.model.maxModelLen": None}),
    refused("null in a list", "extraArgs", **args(None)),
]
OPERATOR_ROWS = [
    refused("an hour that is none", "valid cron expression", **window(schedule="0 25 * * *")),
    refused("30 February", "comes true at some time", **window(schedule="0 0 30 2 *")),
    refused("an unknown time zone", "timeZone", **window(timeZone="Asia/Atlantis")),
]


def problem(body) -> str | None:
    parsed = parse_endpoint(body, strict=True)
    return parsed.message if isinstance(parsed, InvalidEndpoint) else None


@pytest.mark.parametrize(("changes", "message"), [*ROWS, *OPERATOR_ROWS])
def test_the_models_say(changes, message):
    found = problem(changed(MINIMAL, changes))
    assert found is None if message is None else found is not None and message in found
    assert found is None or "\n" not in found


def test_the_example_with_every_field_is_accepted():
    endpoint = parse_endpoint(FULL, strict=True)
    assert isinstance(endpoint, Endpoint)
    assert endpoint.spec.engine.speculative_config.model_extra == {"use_local": True}


def test_every_rule_has_a_refused_example():
    def messages(schema):
        yield from (rule["message"] for rule in schema.get(VALIDATIONS, []))
        for child in (*schema.get("properties", {}).values(), schema.get("items", {})):
            yield from messages(child) if child else ()

    schema = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    told = [row.values[1] for row in ROWS if row.values[1]]
    untold = [rule for rule in messages(schema) if not any(one in rule for one in told)]
    assert not untold


@pytest.mark.controlplane
@pytest.mark.parametrize(("changes", "message"), ROWS)
def test_the_api_server_says(crd, namespace, changes, message):
    answer = create(crd, namespace, changed(MINIMAL, changes), dry_run=True)
    if message is None:
        assert answer.is_success, answer.json()["message"]
    else:
        assert answer.status_code in (400, 422)
        assert message in answer.json()["message"]


@pytest.mark.controlplane
@pytest.mark.parametrize(("changes", "message"), OPERATOR_ROWS)
def test_the_api_server_accepts_what_only_the_operator_can_judge(crd, namespace, changes, message):
    assert create(crd, namespace, changed(MINIMAL, changes), dry_run=True).is_success


@pytest.mark.controlplane
def test_the_api_server_accepts_every_field(crd, namespace):
    answer = create(crd, namespace, FULL)
    assert answer.is_success, answer.json()["message"]
    stored = answer.json()["spec"]
    assert stored == FULL["spec"], "the API server pruned or changed something"


@pytest.mark.controlplane
def test_the_api_server_fills_in_the_models_defaults(crd, namespace):
    stored = create(crd, namespace, MINIMAL).json()
    assert stored["status"] == {"observedGeneration": -1}
    assert stored["spec"]["tuning"]["maxNumSeqs"] == {"min": 1, "max": 1024}
    assert stored["spec"]["workload"]["prometheusRef"] == {"name": "default"}
    plain, filled = parse_endpoint(MINIMAL), parse_endpoint(stored)
    assert plain.spec == filled.spec


def create(control_plane, namespace, body, *, dry_run=False):
    """Create as kubectl does: unknown fields are errors."""
    query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
    place = f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}"
    return control_plane.http.post(place, json=body, params=query)
