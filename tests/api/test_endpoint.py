"""Reading a resource: a value or one line, whatever stands in it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.examples import FULL, MINIMAL, changed
from parkade.api import names
from parkade.api.endpoint import Endpoint, InvalidEndpoint, parse_endpoint
from parkade.api.flags import OWNED_FLAGS, OWNED_SHORT_FLAGS, names_owned_flag

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=20,
)
FIELDS = st.sampled_from(sorted(FULL["spec"]))


def deep(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({}, "spec.model: Field required", id="nothing"),
        pytest.param({"metadata": [], "spec": []}, "spec.model: Field required", id="lists"),
        pytest.param({"spec": "x"}, "spec: ", id="a text"),
        pytest.param(changed(MINIMAL, {"spec.replicas": float("nan")}), "spec: ", id="NaN"),
        pytest.param(changed(MINIMAL, {"spec.replicas": float("inf")}), "spec: ", id="infinite"),
        pytest.param(
            changed(MINIMAL, {"spec.model.revision": datetime(2026, 1, 1, tzinfo=UTC)}),
            "spec: ",
            id="a date of YAML",
        ),
        pytest.param(
            changed(MINIMAL, {"spec.engine.podTemplate": deep(100_000)}),
            "spec: nested too deeply",
            id="a hundred thousand levels",
        ),
        pytest.param(changed(MINIMAL, {"spec.replicas": 10**30}), "spec.replicas: ", id="huge"),
        pytest.param(
            changed(MINIMAL, {"spec.engine.image": "vllm\u2028x"}),
            "spec.engine.image: ",
            id="a line separator in a name",
        ),
    ],
)
def test_what_does_not_parse_is_one_line(body, message):
    found = parse_endpoint(body)
    assert isinstance(found, InvalidEndpoint)
    assert found.message.startswith(message)
    assert "\n" not in found.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            changed(MINIMAL, {"kind": "Deployment"}),
            "kind: expected InferenceEndpoint",
            id="another kind",
        ),
        pytest.param(
            changed(MINIMAL, {"apiVersion": "serving.parkade.dev/v2"}),
            "kind: expected InferenceEndpoint",
            id="another version",
        ),
        pytest.param(
            changed(MINIMAL, {"spec.tuning.headrom": "6Gi"}),
            "spec.tuning.headrom: unknown field",
            id="a field with a typing error",
        ),
        pytest.param(
            changed(MINIMAL, {"spec.engine.nope": 1, "spec.nope": 2}),
            "spec.engine.nope: unknown field (and 1 more)",
            id="two unknown fields",
        ),
        pytest.param(
            changed(MINIMAL, {"spec.a\nb": 1}), "spec.a b: unknown field", id="a field of two lines"
        ),
    ],
)
def test_strict_reading_refuses_what_kubectl_would(body, message):
    found = parse_endpoint(body, strict=True)
    assert isinstance(found, InvalidEndpoint)
    assert found.message.startswith(message)
    assert isinstance(parse_endpoint(body), Endpoint)


def test_identity_and_annotations():
    metadata = {
        "name": "contracts",
        "namespace": "serving",
        "uid": "u",
        "generation": 7,
        "resourceVersion": "42",
        "annotations": {names.RETRY_ANNOTATION: "ab12 please"},
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    found = parse_endpoint(MINIMAL | {"metadata": metadata, "status": {"replicas": 1}})
    assert (found.key, found.uid, found.generation) == (("serving", "contracts"), "u", 7)
    assert (found.resource_version, found.retry, found.deleting) == ("42", "ab12 please", True)
    assert found.status == {"replicas": 1}


@given(FIELDS, JSON)
def test_any_json_in_a_field_is_a_value_or_one_line(field, value):
    found = parse_endpoint(changed(FULL, {f"spec.{field}": value}))
    assert isinstance(found, Endpoint) or "\n" not in found.message


@given(JSON)
def test_any_json_as_a_body_is_a_value_or_one_line(value):
    body = value if isinstance(value, dict) else {"spec": value, "metadata": value}
    found = parse_endpoint(body, strict=True)
    assert isinstance(found, Endpoint) or "\n" not in found.message


@given(st.sampled_from(OWNED_FLAGS), st.data())
def test_an_owned_flag_is_found_in_every_spelling(flag, data):
    spelled = flag[: data.draw(st.integers(3, len(flag)))]
    if data.draw(st.booleans()):
        spelled = "--" + spelled[2:].replace("-", "_")
    assert names_owned_flag(spelled + data.draw(st.sampled_from(["", "=1", ".key", "=a=b", " 1"])))


@pytest.mark.parametrize("flag", OWNED_SHORT_FLAGS)
def test_an_owned_short_flag_is_found(flag):
    assert names_owned_flag(flag)
    assert names_owned_flag(f"{flag}=2")


@pytest.mark.parametrize(
    "flag",
    [
        *("--max-num-batched-tokens", "--max-num-scheduled-tokens", "--max-num-queued-reqs"),
        *("--kv-cache-dtype-skip-layers", "--kv-cache-metrics", "--kv-transfer-config"),
        *("--model-impl", "--model-loader-extra-config", "--config-format", "--code-revision"),
        *("--tokenizer-revision", "--served-model-name", "--enable-prefix-caching"),
        *("--no-enable-prefix-caching", "--block-size", "--mamba-block-size", "--enforce-eager"),
        *("--disable-hybrid-kv-cache-manager", "--disable-log-requests", "--quantization", "-q"),
        *("-O3", "-cc", "-ac", "-dc", "-ep", "--hf-overrides", "--api-key", "--root-path"),
        *("--device-ids", "--port-file-of-mine", "x", "", "-", "--", "--max-num-seqs-of-mine"),
    ],
)
def test_other_flags_are_left_to_the_user(flag):
    assert not names_owned_flag(flag)
