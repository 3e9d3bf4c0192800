"""What a machine lacks is named in one line, with what to do about it."""

import os
import sys

import pytest

from testbed.cluster import packages
from testbed.cluster.errors import TestbedError
from testbed.cluster.packages import find_program, require, require_root_on_linux

MISSING = {"parkade-no-such-program": "parkade-no-such-package"}


@pytest.fixture
def ordinary_user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def test_programs_that_are_there_need_nothing():
    require({"sh": "dash"})


def test_an_ordinary_user_is_told_what_to_install(ordinary_user, monkeypatch):
    monkeypatch.setattr(packages, "_which", lambda name: name if name == "apt-get" else None)
    with pytest.raises(TestbedError, match=r"with: sudo apt-get install parkade-no-such-package$"):
        require(MISSING)


def test_a_machine_without_apt_is_told_the_names(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(packages, "ADMINISTRATION", ())
    with pytest.raises(TestbedError, match=r"Missing: parkade-no-such-package .*no apt-get"):
        require(MISSING)


def test_missing_cni_plugins_are_named(ordinary_user, monkeypatch):
    monkeypatch.setattr(packages, "CNI_FOLDERS", ())
    with pytest.raises(TestbedError, match="containernetworking-plugins"):
        require({}, cni=True)


def test_a_single_missing_program_is_named():
    with pytest.raises(TestbedError, match="'parkade-no-such-program' is missing"):
        find_program("parkade-no-such-program")


def test_a_node_needs_root(ordinary_user, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(TestbedError, match="A real node needs root"):
        require_root_on_linux("A real node")


def test_a_node_needs_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(TestbedError, match="needs Linux; this is darwin"):
        require_root_on_linux("A real node")
