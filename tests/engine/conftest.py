"""What the tests with the real engine share: vLLM on a CPU, installed once, and tiny models."""

import json
from pathlib import Path

import pytest

from parkade.cli.main import main
from testbed.cluster.errors import TestbedError
from testbed.vllm.environment import ensure_vllm
from testbed.vllm.models import write_model
from testbed.vllm.server import failed_start, served

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("engine")
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def vllm():
    """The environment; the first time, installing it takes minutes and tells its progress."""
    try:
        return ensure_vllm()
    except TestbedError as error:
        pytest.fail(f"This tier cannot run: {error}", pytrace=False)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Write a tiny model by name; returns its folder."""

    def written(name):
        return write_model(name, tmp_path_factory.getbasetemp() / "models" / name)

    return written


@pytest.fixture
def serve(vllm, model, tmp_path):
    """Start the engine with a tiny model, for the length of a `with` block."""
    return lambda name, *arguments: served(vllm, model(name), *arguments, folder=tmp_path)


@pytest.fixture
def fail_to_start(vllm, tmp_path):
    """Start the engine where that must fail; returns the path of its log."""

    def start(folder, *arguments):
        code, log = failed_start(vllm, folder, *arguments, folder=tmp_path)
        assert code != 0, log
        return log

    return start


@pytest.fixture
def parkade(capsys):
    """Run the command line; returns what it prints as JSON."""

    def run(*words):
        assert main([*map(str, words), "-o", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run
