"""What the documentation says is so: links, commands, reasons, keys, outputs, and Argo's script."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from lupa.lua51 import LuaRuntime
from pydantic import BaseModel

from parkade.adapters import rbac
from parkade.api import names
from parkade.api.reasons import REASONS, ConditionStatus, ConditionType, Reason
from parkade.cli.main import COMMANDS
from parkade.cli.traffic_file import TrafficFile
from parkade.controller.settings import HubSettings, OperatorSettings, PrometheusSettings
from parkade.rollout.events import _DONE, RAN_OUT_OF_MEMORY

ROOT = Path(__file__).parents[1]


def tracked(*patterns):
    """Files of the repository that are there; all files where it is no git checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        paths = [path for one in patterns or ("*",) for path in ROOT.rglob(one)]
    return sorted(path for path in paths if path.is_file())


PAGES = tracked("*.md")
WRITTEN = [path for path in PAGES if path.name not in {"reference.md", "failure-classes.md"}]
TEXT = {path: path.read_text(encoding="utf-8") for path in PAGES}
page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def doc(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


# Links.

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(text):
    """Anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@page
def test_relative_links_lead_somewhere(path):
    for target in LINK.findall(FENCE.sub("", TEXT[path])):
        if target.startswith(("https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        found = (path.parent / name).resolve() if name else path
        assert found.exists(), f"{target} is not there"
        if anchor:
            assert anchor in anchors(found.read_text(encoding="utf-8")), f"{target}: no heading"


@page
def test_every_page_is_reached_from_the_readme(path):
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        here = todo.pop()
        if here in reached or here.suffix != ".md" or not here.is_file():
            continue
        reached.add(here)
        linked = LINK.findall(here.read_text(encoding="utf-8"))
        todo += [
            (here.parent / one.partition("#")[0]).resolve() for one in linked if "://" not in one
        ]
    assert path in reached or path.is_relative_to(ROOT / "tests")


# What can be typed.


@page
def test_make_targets_that_are_named_exist(path):
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^    |&& )make ([a-z0-9-]+)", TEXT[path], re.MULTILINE))
    assert named <= targets


@page
def test_commands_that_are_named_exist(path):
    named = re.findall(r"(?:`|^    |\| |\$ )parkade ([a-z]+)", TEXT[path], re.MULTILINE)
    assert set(named) <= set(COMMANDS)


def test_the_page_of_commands_has_them_all():
    heads = " ".join(re.findall(r"^## (.+)$", doc("command-line.md"), re.MULTILINE))
    assert set(re.findall(r"[a-z]+", heads)) == set(COMMANDS)


SHOWN = re.findall(r"^```console\n\$ (.+)\n((?:.*\n)*?)```", doc("command-line.md"), re.MULTILINE)


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command[:60] for command, _ in SHOWN])
def test_output_is_what_the_command_prints(command, shown):
    words = shlex.split(command)
    assert words[0] == "parkade"
    ran = subprocess.run(
        [sys.executable, "-m", "parkade", *words[1:]],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT / "operator")},
        capture_output=True,
        text=True,
        check=False,
    )
    printed = [line.rstrip() for line in (ran.stdout + ran.stderr).rstrip().splitlines()]
    lines = shown.rstrip().splitlines()
    if lines[-1] == "...":
        lines, printed = lines[:-1], printed[: len(lines) - 1]
    assert printed == lines, f"docs/command-line.md shows an old output of: {command}"


def test_the_readme_shows_the_tested_example():
    example = (ROOT / "examples" / "endpoint.yaml").read_text(encoding="utf-8")
    without_comment = "".join(
        line for line in example.splitlines(keepends=True) if not line.startswith("#")
    )
    assert f"```yaml\n{without_comment}```" in TEXT[ROOT / "README.md"]


def keys(model):
    return {field.alias or name for name, field in model.model_fields.items()}


def test_the_traffic_file_that_is_shown_has_every_key():
    block = re.search(
        r"^```yaml\n(windowSeconds.*?)^```", doc("command-line.md"), re.MULTILINE | re.DOTALL
    )
    shown = yaml.safe_load(block[1])
    assert set(shown) == keys(TrafficFile)
    assert TrafficFile.model_validate(shown)


# The operator's configuration.


def documented_keys():
    """Key and default of every row of the table in docs/install.md."""
    part = doc("install.md").split("## The operator's configuration", 1)[1].split("\n## ", 1)[0]
    return dict(re.findall(r"^\| `([^`]+)` \|\s*([^|]*?)\s*\|", part, re.MULTILINE))


def model_keys(model: type[BaseModel], prefix=""):
    for name, field in model.model_fields.items():
        default = None if field.is_required() or isinstance(field.default, BaseModel) else field
        yield f"{prefix}{field.alias or name}", default


def test_the_documented_keys_are_the_models():
    expected = {
        **dict(model_keys(OperatorSettings)),
        **dict(model_keys(PrometheusSettings, "prometheus[].")),
        **dict(model_keys(HubSettings, "hub.")),
    }
    found = documented_keys()
    assert set(found) == set(expected)
    for key, field in expected.items():
        if field is None:
            continue
        default = [] if field.default == () else field.default
        shown = '""' if default == "" else str(default)
        assert found[key] == f"`{shown}`", key


# The chart.


def leaves(values, prefix=""):
    """Keys of values.yaml; `config` and `resources` are documented as a whole."""
    for key, value in values.items():
        if isinstance(value, dict) and value and f"{prefix}{key}" not in {"config", "resources"}:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def test_the_documented_values_are_the_charts():
    part = doc("install.md").split("## Chart values", 1)[1].split("\n## ", 1)[0]
    first_column = re.findall(r"^\| (`[^|]+) \|", part, re.MULTILINE)
    named = set(re.findall(r"`([^`]+)`", " ".join(first_column)))
    values = yaml.safe_load((ROOT / "charts/parkade/values.yaml").read_text(encoding="utf-8"))
    assert named == set(leaves(values))


def test_the_documented_rights_are_those_that_the_code_uses():
    rows = re.findall(
        r"^\| (?:`([\w.]+)`|core) \| ([a-z/]+)[^|]* \| ([a-z, ]+) \|",
        doc("install.md"),
        re.MULTILINE,
    )
    documented = {(group, plural, frozenset(verbs.split(", "))) for group, plural, verbs in rows}
    assert documented == {(one.group, one.rule, frozenset(one.verbs)) for one in rbac.USED}


# Conditions and reasons.

CAMEL = re.compile(r"`([A-Z][a-z]+(?:[A-Z][A-Za-z]*)?)`")
OTHER_WORDS = {
    *(one.value for one in ConditionType),
    *(one.value for one in ConditionStatus),
    *_DONE.values(),
    RAN_OUT_OF_MEMORY,
    *("Auto", "RecommendOnly", "Allowed", "User", "Tuning", "Revert", "InferenceEndpoint"),
}
PAIR = re.compile(r"\b([A-Z]\w+)=(True|False)/(\w+)|`(True|False|Unknown)/(\w+)`")


@pytest.mark.parametrize("name", ["conditions.md", "troubleshooting.md", "gitops.md"])
def test_reasons_that_are_named_exist(name):
    reasons = {one.value for one in Reason}
    named = set(CAMEL.findall(doc(name)))
    assert named <= reasons | OTHER_WORDS | {names.KIND}


@page
def test_conditions_have_the_reasons_that_are_named_with_them(path):
    for kind, status, reason, _, alone in PAIR.findall(TEXT[path]):
        if not kind:
            assert alone in {one.value for one in Reason}
            continue
        allowed = REASONS[ConditionType(kind)][ConditionStatus(status)]
        assert Reason(reason) in allowed, f"{kind}={status}/{reason}"


def test_the_tour_names_every_reason():
    silent = [
        one.value for one in Reason if not re.search(rf"\b{one.value}\b", doc("conditions.md"))
    ]
    assert not silent


# Argo CD.

SCRIPT = doc("argocd-health.lua")


def test_the_page_quotes_the_health_script():
    block = re.search(
        r"^```yaml\n(resource\.customizations.*?)^```", doc("gitops.md"), re.MULTILINE | re.DOTALL
    )
    ((key, script),) = yaml.safe_load(block[1]).items()
    assert script == SCRIPT
    assert key == f"resource.customizations.health.{names.GROUP}_{names.KIND}"


def resource(*conditions, generation=2, observed=2):
    return {
        "metadata": {"name": "a", "generation": generation},
        "status": {
            "observedGeneration": observed,
            "conditions": [
                {"type": kind, "status": status, "reason": "R", "message": f"{kind} {status}"}
                for kind, status in conditions
            ],
        },
    }


@pytest.mark.parametrize(
    ("obj", "health", "message"),
    [
        pytest.param({"metadata": {"generation": 1}}, "Progressing", "Waiting", id="no status"),
        pytest.param(
            {"metadata": {"generation": 1}, "status": {"observedGeneration": -1}},
            "Progressing",
            "Waiting",
            id="the API server's default status",
        ),
        pytest.param(
            resource(("Ready", "True"), observed=1), "Progressing", "Waiting", id="an older spec's"
        ),
        pytest.param(
            resource(("Ready", "Unknown"), ("Reconciling", "Unknown"), ("Stalled", "Unknown")),
            "Progressing",
            "Ready Unknown",
            id="the first visit",
        ),
        pytest.param(
            resource(("Ready", "True"), ("Reconciling", "True"), ("Stalled", "False")),
            "Progressing",
            "Reconciling True",
            id="a user's change beside pods that serve",
        ),
        pytest.param(
            resource(
                *(("Ready", "True"), ("Reconciling", "False"), ("Stalled", "False")),
                ("SettingsApplied", "False"),
            ),
            "Healthy",
            "Ready True",
            id="tuning, or a rejected candidate of it, is no failure of a sync",
        ),
        pytest.param(
            resource(("Ready", "True"), ("Reconciling", "False"), ("Stalled", "True")),
            "Degraded",
            "Stalled True",
            id="a rejected spec, though the last good one serves",
        ),
        pytest.param(
            resource(("Ready", "False"), ("Reconciling", "False"), ("Stalled", "False")),
            "Progressing",
            "Ready False",
            id="pods that went away for a moment",
        ),
    ],
)
def test_the_health_script_says(obj, health, message):
    lua = LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(obj, recursive=True)
    answer = lua.execute(SCRIPT)
    assert answer["status"] == health
    assert answer["message"].startswith(message)


# What belongs to the place where somebody works, and not into the project.

# With a class in each, so that this file does not match itself.
FOREIGN = re.compile(
    r"(?<![\w.>-])/(?:[w]ork|[r]oot|[h]ome)/[a-z]|[/]opt/wheels|bash[_]jobs"
    r"|pypi[.]org|pythonhosted[.]org|proxy[.]golang[.]org|goproxy[.]"
    r"|\bissue[s] show\b|\bfarm[-](?:bench|studio)\b"
)
DATA = ROOT / "tests" / "data"


def test_no_file_names_a_registry_or_a_place_of_ours():
    found = []
    for path in tracked():
        if path.is_relative_to(DATA):  # recorded logs name the paths of the machines they are from
            continue
        text = path.read_bytes().decode("utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in FOREIGN.finditer(text)]
    assert not found


@pytest.mark.parametrize("path", tracked("requirements/*.txt"), ids=lambda path: path.name)
def test_the_lock_has_hashes_and_names_no_host(path):
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    assert "--hash=sha256:" in text
    assert not re.search(r"^--", text, re.MULTILINE)


def test_the_guard_finds_what_it_is_for():
    path = f"/{'work'}/main"
    assert FOREIGN.search(f"see {path}")
    assert not FOREIGN.search(json.dumps(f"https://example.org{path}"))
