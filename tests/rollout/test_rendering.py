"""Rules of the rendered template: what is ours stays ours, hashes tell what changed."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parkade.rollout import template
from parkade.rollout.arguments import engine_version
from parkade.rollout.merge import merged
from parkade.rollout.render import render_revision
from parkade.rollout.revision import inputs_hash, revision_hash, tuning_hash, without_knobs
from rollout.support.objects import endpoint, settings


def container(revision) -> dict:
    return next(one for one in revision.template["spec"]["containers"] if one["name"] == "vllm")


def test_both_knobs_reach_the_engine_the_annotation_and_the_hash() -> None:
    one = render_revision(endpoint(), settings(32, "0.9543"))
    args = container(one)["args"]
    assert args[args.index("--max-num-seqs") + 1] == "32"
    assert args[args.index("--gpu-memory-utilization") + 1] == "0.9543"
    notes = one.template["metadata"]["annotations"]
    assert notes["serving.parkade.dev/settings"] == (
        '{"maxNumSeqs":32,"gpuMemoryUtilization":"0.9543"}'
    )
    assert one.template["metadata"]["labels"]["serving.parkade.dev/revision"] == one.hash


@pytest.mark.parametrize(
    ("spec", "same_fingerprint"),
    [
        pytest.param({"engine": {"image": "other:1"}}, False, id="image"),
        pytest.param({"model": {"revision": "abc"}}, False, id="model revision"),
        pytest.param({"model": {"maxModelLen": 1000}}, False, id="length"),
        pytest.param({"engine": {"kvCacheDtype": "auto"}}, False, id="KV dtype"),
        pytest.param({"engine": {"extraArgs": ["--enforce-eager"]}}, False, id="an argument"),
        pytest.param({"engine": {"env": [{"name": "A", "value": "1"}]}}, False, id="a variable"),
        pytest.param({"accelerator": {"product": "NVIDIA-H200"}}, False, id="GPU product"),
        pytest.param({"engine": {"tensorParallelSize": 2}}, False, id="number of GPUs"),
        pytest.param(
            {"engine": {"podTemplate": {"metadata": {"labels": {"a": "b"}}}}}, True, id="a label"
        ),
        pytest.param({"rollout": {"startDeadlineSeconds": 900}}, True, id="the start deadline"),
    ],
)
def test_the_fingerprint_covers_what_memory_depends_on(spec, same_fingerprint: bool) -> None:
    before = render_revision(endpoint(), settings())
    after = render_revision(endpoint(spec), settings())
    assert (before.fingerprint == after.fingerprint) is same_fingerprint
    assert before.hash != after.hash
    assert before.inputs != after.inputs


def test_the_knobs_change_the_revision_and_not_the_fingerprint() -> None:
    one, other = (render_revision(endpoint(), settings(each)) for each in (32, 64))
    assert one.fingerprint == other.fingerprint
    assert one.inputs == other.inputs
    assert len({one.hash, other.hash}) == len({one.quarantine_key, other.quarantine_key}) == 2


def test_a_new_renderer_changes_the_revision_and_neither_inputs_nor_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = render_revision(endpoint(), settings())
    monkeypatch.setattr(template, "RENDERER_VERSION", "2")
    after = render_revision(endpoint(), settings())
    assert (before.inputs, before.fingerprint) == (after.inputs, after.fingerprint)
    assert before.hash != after.hash


def test_the_hash_leaves_its_own_place_out() -> None:
    one = render_revision(endpoint(), settings())
    assert revision_hash(one.template) == one.hash


def test_tuning_inputs_are_told_apart_from_the_scale() -> None:
    base = endpoint().spec
    assert tuning_hash(base) == tuning_hash(endpoint({"replicas": 9}).spec)
    assert tuning_hash(base) != tuning_hash(endpoint({"tuning": {"headroom": "7Gi"}}).spec)
    assert tuning_hash(base) == tuning_hash(endpoint({"tuning": {"headroom": "6144Mi"}}).spec)
    assert inputs_hash(base) == inputs_hash(endpoint({"replicas": 9}).spec)


def test_defaults_written_out_are_no_change() -> None:
    spelled = endpoint({"engine": {"tensorParallelSize": 1, "extraArgs": []}})
    assert inputs_hash(spelled.spec) == inputs_hash(endpoint().spec)


def test_a_pod_template_cannot_take_what_is_ours() -> None:
    greedy = {
        "metadata": {
            "labels": {
                "serving.parkade.dev/endpoint": "other",
                "serving.parkade.dev/revision": "mine",
            },
            "annotations": {"serving.parkade.dev/settings": "{}"},
        },
        "spec": {"containers": [{"name": "vllm", "resources": {"limits": {"memory": "1Gi"}}}]},
    }
    ours = render_revision(endpoint(), settings())
    made = template._with_ours_on_top(
        merged(ours.template, greedy), copy.deepcopy(dict(ours.template))
    )
    assert made["metadata"]["labels"]["serving.parkade.dev/endpoint"] == "contracts"
    assert made["metadata"]["annotations"]["serving.parkade.dev/settings"] != "{}"
    engine = made["spec"]["containers"][0]
    assert engine["args"] == container(ours)["args"]
    assert engine["resources"]["limits"] == {"nvidia.com/gpu": "1", "memory": "1Gi"}


def test_a_startup_probe_outlasts_the_start_deadline() -> None:
    probe = container(
        render_revision(endpoint({"rollout": {"startDeadlineSeconds": 1800}}), settings())
    )["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > 1800


@pytest.mark.parametrize(
    ("image", "version", "drains"),
    [
        pytest.param("vllm/vllm-openai:v0.32.0", (0, 32), True, id="a tag says it"),
        pytest.param("vllm/vllm-openai:v0.17.1", (0, 17), False, id="too old to drain"),
        pytest.param("vllm/vllm-openai:nightly", None, False, id="a tag that says nothing"),
        pytest.param("host:5000/vllm", None, False, id="a port is no tag"),
        pytest.param("host:5000/vllm:0.33.0-cu130@sha256:abc", (0, 33), True, id="tag and digest"),
    ],
)
def test_version_of_the_image(image: str, version, drains: bool) -> None:
    one = endpoint({"engine": {"image": image}})
    assert engine_version(one.spec.engine) == version
    assert ("--shutdown-timeout" in container(render_revision(one, settings()))["args"]) is drains


@pytest.mark.parametrize(
    ("args", "left"),
    [
        pytest.param(["m", "--max-num-seqs", "8", "--x"], ["m", "--x"], id="two words"),
        pytest.param(["m", "--max-num-seqs=8", "--x"], ["m", "--x"], id="one word"),
        pytest.param(["m", "--max-num-seqs-like", "8"], ["m", "--max-num-seqs-like", "8"], id="no"),
    ],
)
def test_arguments_without_the_knobs(args, left) -> None:
    assert without_knobs(args) == left


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_merging_a_thing_into_itself_changes_nothing_but_nulls(thing) -> None:
    once = merged(thing, thing)
    assert merged(once, once) == once


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_merging_changes_neither_side(thing) -> None:
    before = copy.deepcopy(thing)
    merged(thing, {"a": {"b": 1}, **thing})
    assert thing == before


@pytest.mark.parametrize(
    ("ours", "theirs", "result"),
    [
        pytest.param({"a": 1}, {"a": None}, {}, id="null removes"),
        pytest.param({"a": [1]}, {"a": [2]}, {"a": [2]}, id="plain lists are replaced"),
        pytest.param(
            {"c": [{"name": "x", "v": 1}]},
            {"c": [{"name": "x", "w": 2}, {"name": "y"}]},
            {"c": [{"name": "x", "v": 1, "w": 2}, {"name": "y"}]},
            id="named lists merge by name",
        ),
        pytest.param(
            {"volumeMounts": [{"name": "shm", "mountPath": "/here"}]},
            {"volumeMounts": [{"name": "shm", "mountPath": "/there"}]},
            {
                "volumeMounts": [
                    {"name": "shm", "mountPath": "/here"},
                    {"name": "shm", "mountPath": "/there"},
                ]
            },
            id="mounts merge by path",
        ),
        pytest.param({"a": {"b": 1}}, {"a": 3}, {"a": 3}, id="another kind of value replaces"),
    ],
)
def test_merge(ours, theirs, result) -> None:
    assert merged(ours, theirs) == result
