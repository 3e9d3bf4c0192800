"""`parkade plan` from files to an exit status, as a user runs it."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from parkade.api.status import EndpointStatus
from parkade.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "acceptance"
PAGE = ROOT / "tests" / "data" / "engine" / "metrics-0.32.0.txt"
CONFIG = str(EXAMPLES / "config.json")
SHORT = ("-f", str(EXAMPLES / "short.yaml"), "--model-config", CONFIG)
TRAFFIC = ("--traffic", str(EXAMPLES / "short.traffic.yaml"))


@pytest.fixture
def plan(capsys):
    def run(*args):
        status = main(["plan", *args])
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def resource(tmp_path):
    """A changed copy of the short endpoint, as arguments of plan."""

    def write(old="", new="", text=None):
        source = (EXAMPLES / "short.yaml").read_text()
        assert old in source
        path = tmp_path / "endpoint.yaml"
        path.write_text(source.replace(old, new) if text is None else text)
        return ("-f", str(path), "--model-config", CONFIG)

    return write


@pytest.fixture
def traffic(tmp_path):
    def write(old="", new="", text=None):
        source = (EXAMPLES / "short.traffic.yaml").read_text()
        assert old in source
        path = tmp_path / "traffic.yaml"
        path.write_text(source.replace(old, new) if text is None else text)
        return ("--traffic", str(path))

    return write


def refused(result, *words):
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for word in words:
        assert word in err


class TestFormats:
    def test_text_is_plain_and_fits_80_columns(self, plan):
        status, out, _ = plan(*SHORT, *TRAFFIC)
        assert status == 0
        assert "\x1b" not in out
        assert max(len(line) for line in out.splitlines()) <= 80
        for words in ("256 -> 40", "limited by Speed", "0.9521", "KV cache", "Prompts against"):
            assert words in out
        assert re.search(r"^ > +speed +42\.3", out, re.MULTILINE)

    def test_lengths_are_held_against_the_pool_as_the_engine_allocates(self, plan):
        """By tokens 74.8 prompts of 50,000 would fit, but each needs its state beside them."""
        _, out, _ = plan(*SHORT, *TRAFFIC)
        row = re.search(r"20,000 to 50,000 .* ([\d.]+) fit at a time", out)
        assert float(row[1]) < 45
        least = re.search(r"0 to 1,000 .* ([\d.]+) fit at a time", out)
        assert 80 < float(least[1]) < 100

    @pytest.mark.parametrize("name", ["json", "yaml"])
    def test_data_has_the_keys_of_status(self, plan, name):
        status, out, _ = plan(*SHORT, *TRAFFIC, "-o", name)
        data = json.loads(out) if name == "json" else yaml.safe_load(out)
        assert status == 0
        assert data["recommendation"]["maxNumSeqs"] == 40
        assert data["recommendation"]["gpuMemoryUtilization"] == "0.9521"
        assert data["recommendation"]["limitedBy"] == "Speed"
        parsed = EndpointStatus.model_validate({key: data[key] for key in data})
        assert parsed.memory.total is not None
        assert parsed.workload.requests == 20400

    def test_a_page_stands_alone(self, plan):
        status, out, _ = plan(*SHORT, *TRAFFIC, "-o", "html")
        assert status == 0
        assert out.startswith("<!doctype html>")
        assert "0.9521" in out
        assert not re.search(r"(src|href)=|<script|@import", out)

    def test_manifests_carry_the_recommended_settings(self, plan):
        status, out, _ = plan(*SHORT, *TRAFFIC, "--manifests")
        deployment, service = yaml.safe_load_all(out)
        args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        assert status == 0
        assert args[args.index("--max-num-seqs") + 1] == "40"
        assert args[args.index("--gpu-memory-utilization") + 1] == "0.9521"
        assert service["kind"] == "Service"
        assert "ownerReferences" not in deployment["metadata"]

    def test_manifests_as_json_are_a_list(self, plan):
        _, out, _ = plan(*SHORT, *TRAFFIC, "--manifests")
        status, listed, _ = plan(*SHORT, *TRAFFIC, "--manifests", "-o", "json")
        assert status == 0
        assert json.loads(listed)["items"] == list(yaml.safe_load_all(out))
        refused(plan(*SHORT, *TRAFFIC, "--manifests", "-o", "html"), "YAML or JSON")


class TestTraffic:
    def test_without_traffic_the_initial_settings_stay(self, plan):
        status, out, _ = plan(*SHORT, "-o", "json")
        data = json.loads(out)
        assert status == 0
        assert data["recommendation"]["maxNumSeqs"] == 256
        assert data["conditions"][0]["reason"] == "NoTraffic"

    def test_few_requests_decide_nothing(self, plan, traffic):
        text = "windowSeconds: 60\nrequests: 3\npromptTokens: {sum: 30, buckets: {'20': 3}}\n"
        text += "outputTokens: {sum: 30, buckets: {'20': 3}}\n"
        status, out, _ = plan(*SHORT, *traffic(text=text), "-o", "json")
        assert status == 0
        assert json.loads(out)["conditions"][0]["reason"] == "InsufficientRequests"

    def test_a_saved_metrics_page(self, plan, resource):
        args = resource("  tuning:", "  workload: {minRequests: 1}\n  tuning:")
        status, out, err = plan(*args, "--traffic", str(PAGE), "-o", "json")
        assert (status, err) == (0, "")
        assert json.loads(out)["workload"]["requests"] > 0

    def test_the_difference_of_two_pages(self, plan, resource, tmp_path):
        page = PAGE.read_text()
        later = tmp_path / "later.txt"
        later.write_text(re.sub(r"(_(?:bucket|count|sum){[^}]*}) (\S+)", _doubled, page))
        args = resource("  tuning:", "  workload: {minRequests: 1}\n  tuning:")
        status, out, _ = plan(*args, "--traffic", str(PAGE), str(later), "-o", "json")
        one = json.loads(plan(*args, "--traffic", str(PAGE), "-o", "json")[1])
        assert status == 0
        assert json.loads(out)["workload"]["requests"] == one["workload"]["requests"]

    def test_a_page_does_not_say_in_what_time(self, plan, resource):
        args = resource("  tuning:", "  workload: {minRequests: 1}\n  tuning:")
        _, out, _ = plan(*args, "--traffic", str(PAGE))
        assert "6 requests, in a time that is not known" in out
        _, out, _ = plan(*args, "--traffic", str(PAGE), "-o", "json")
        assert "windowSeconds" not in json.loads(out)["workload"]

    def test_a_page_of_which_only_vllms_lines_were_kept(self, plan, resource, tmp_path):
        page = tmp_path / "page.txt"
        page.write_text("".join(re.findall(r"^vllm:.*\n", PAGE.read_text(), re.MULTILINE)))
        args = resource("  tuning:", "  workload: {minRequests: 1}\n  tuning:")
        status, out, _ = plan(*args, "--traffic", str(page), "-o", "json")
        assert (status, json.loads(out)["workload"]["requests"]) == (0, 6)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            pytest.param(
                lambda text: text.replace("1.79597446498e+09", "1.8e+09"),
                "two runs of the engine",
                id="a restart that the counts do not show",
            ),
            pytest.param(
                lambda text: re.sub(r"(prompt_tokens_sum{[^}]*}) \S+", r"\1 1", text),
                "counts less",
                id="a sum that fell",
            ),
            pytest.param(
                lambda text: text.replace('le="500.0"', 'le="512.0"'),
                "other buckets",
                id="another max_model_len",
            ),
        ],
    )
    def test_two_pages_that_do_not_belong_together(self, plan, tmp_path, change, words):
        later = tmp_path / "later.txt"
        later.write_text(
            change(re.sub(r"(_(?:bucket|count|sum){[^}]*}) (\S+)", _doubled, PAGE.read_text()))
        )
        refused(plan(*SHORT, "--traffic", str(PAGE), str(later)), words)

    def test_the_pods_of_the_endpoint_share_its_peak(self, plan, resource):
        args = resource("spec:", "spec:\n  replicas: 4")
        _, out, _ = plan(*args, *TRAFFIC)
        assert "Peak on one pod: 2 requests/s / 4 pods = 0.5 requests/s." in out

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            pytest.param('{"100": 2040', "{100: 2040", id="an edge without quotes"),
            pytest.param("queuedPercent: 12", "queuedPercent:", id="an optional key left empty"),
            pytest.param('"20000": 19380, "50000"', '"20000": 19380, "+Inf"', id="an open bucket"),
        ],
    )
    def test_what_people_write(self, plan, traffic, old, new):
        status, out, _ = plan(*SHORT, *traffic(old, new), "-o", "json")
        assert (status, json.loads(out)["recommendation"]["maxNumSeqs"]) == (0, 40)

    def test_entries_of_one_concurrency_are_runs_of_it(self, plan, traffic):
        again = "  - {concurrency: 32, outputTokensPerSecondPerRequest: [121, 119]}\n"
        _, out, _ = plan(*SHORT, *traffic("speed:\n", f"speed:\n{again}"))
        assert "Measured at 32: 1000 / 120 tok/s = 8.333 ms per token (median of 7" in out

    def test_pages_in_the_wrong_order_are_named(self, plan, tmp_path):
        later = tmp_path / "later.txt"
        later.write_text(
            re.sub(r"(_(?:bucket|count|sum){[^}]*}) (\S+)", _doubled, PAGE.read_text())
        )
        refused(plan(*SHORT, "--traffic", str(later), str(PAGE)), "earlier page first")


def _doubled(found):
    return f"{found[1]} {2 * float(found[2])}"


class TestCannotSize:
    @pytest.mark.parametrize(
        ("old", "new", "extra", "words"),
        [
            pytest.param("headroom: 6Gi", "headroom: 170Gi", (), "DoesNotFit", id="no room"),
            pytest.param(
                "memory: 178.35Gi",
                "memory: 178.35Gi",
                ("--gpu-free-gib", "5"),
                "a larger card, more GPUs, or a smaller model would fit",
                id="no headroom is small enough",
            ),
            pytest.param(
                "headroom: 6Gi",
                "headroom: 60Gi",
                ("--gpu-free-gib", "59"),
                "lower tuning.headroom to at most",
                id="a headroom above what is free",
            ),
            pytest.param("    weightsSize: 20Gi\n", "", (), "weightsSize", id="weights unknown"),
            pytest.param("20Gi", "900Gi", (), "DoesNotFit", id="a model beyond the card"),
            pytest.param("fp8", "made_up", (), "not modelled", id="an unknown KV format"),
        ],
    )
    def test_the_reason_is_one_line_with_status_1(self, plan, resource, old, new, extra, words):
        status, out, err = plan(*resource(old, new), *TRAFFIC, *extra)
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert words in err

    def test_a_model_that_is_not_understood_is_refused_by_name(self, plan, tmp_path):
        config = tmp_path / "config.json"
        config.write_text('{"architectures": ["FooForCausalLM"], "model_type": "foo"}')
        status, _, err = plan("-f", str(EXAMPLES / "short.yaml"), "--model-config", str(config))
        assert status == 1
        assert "FooForCausalLM" in err


class TestBadResource:
    @pytest.mark.parametrize(
        ("old", "new", "words"),
        [
            pytest.param("headroom", "hedroom", "hedroom", id="an unknown field"),
            pytest.param("spec:", "sepc:", "sepc", id="an unknown part"),
            pytest.param("InferenceEndpoint", "Pod", "found: Pod", id="another kind"),
            pytest.param("v1alpha1", "v9", "apiVersion", id="another version"),
            pytest.param("namespace: serving", "namespace: A b", "namespace", id="a namespace"),
            pytest.param(
                "weightsSize: 20Gi", 'weightsSize: "0"', "model.weightsSize", id="nothing"
            ),
            pytest.param(
                "kvCacheDtype: fp8",
                'kvCacheDtype: fp8\n    extraArgs: ["--max-num-batched-tokens=x"]',
                "not a whole number",
                id="an argument that is no number",
            ),
            pytest.param("name: short", "name: Not_A_Label", "DNS label", id="an impossible name"),
            pytest.param("maxModelLen: 245760", "maxModelLen: -1", "maxModelLen", id="negative"),
            pytest.param("245760", ".nan", "not a finite number", id="NaN"),
            pytest.param(
                "kvCacheDtype: fp8",
                'kvCacheDtype: fp8\n    extraArgs: ["--kv-cache-memory=38842097664"]',
                "only for the exact run",
                id="the engine's hint typed in",
            ),
            pytest.param(
                "kvCacheDtype: fp8",
                'kvCacheDtype: fp8\n    extraArgs: ["--max-num-seqs=9"]',
                "extraArgs",
                id="a flag that is Parkade's",
            ),
        ],
    )
    def test_is_refused_in_one_line(self, plan, resource, old, new, words):
        refused(plan(*resource(old, new)), words)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            pytest.param("", "empty", id="an empty file"),
            pytest.param("- 1\n", "not a list", id="a list"),
            pytest.param("a: [b", "not YAML", id="broken YAML"),
            pytest.param("[" * 5000, "not YAML", id="thousands of levels"),
            pytest.param("x: 2026-99-99\n", "not usable YAML", id="an impossible date"),
            pytest.param("x: &a [*a]\n", "found: no kind", id="a list inside itself"),
            pytest.param("x: " + "9" * 5000, "not usable YAML", id="a number of 5,000 digits"),
        ],
    )
    def test_a_file_that_is_no_resource(self, plan, resource, text, words):
        refused(plan(*resource(text=text)), words)

    def test_a_file_that_is_not_there(self, plan):
        refused(plan("-f", "nowhere.yaml", "--model-config", CONFIG), "nowhere.yaml")

    def test_a_file_that_is_too_large(self, plan, resource):
        refused(plan(*resource(text="#" * (17 * 2**20))), "larger than 16 MiB")


class TestOpenQuestions:
    def test_a_list_as_kubectl_prints_it(self, plan, resource):
        body = yaml.safe_load((EXAMPLES / "short.yaml").read_text())
        text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [body]})
        assert plan(*resource(text=text), *TRAFFIC) == plan(*SHORT, *TRAFFIC)

    def test_a_target_is_sized_with_the_engines_defaults_and_that_is_said(self, plan, resource):
        body = yaml.safe_load((EXAMPLES / "short.yaml").read_text())
        del body["spec"]["engine"]
        body["spec"]["targetRef"] = {"name": "qwen"}
        args = resource(text=yaml.safe_dump(body))
        status, _, err = plan(*args, *TRAFFIC)
        assert status == 0
        assert "defaults are taken" in err
        refused(plan(*args, "--manifests"), "only advised on")

    @pytest.mark.parametrize(
        ("length", "words"),
        [
            pytest.param("10000", "30.0 % of the prompts are longer", id="some are too long"),
            pytest.param("5000", "60.0 % of the prompts", id="most are too long"),
        ],
    )
    def test_prompts_that_the_engine_refuses_are_said(self, plan, resource, length, words):
        status, _, err = plan(*resource("maxModelLen: 245760", f"maxModelLen: {length}"), *TRAFFIC)
        assert status == 0
        assert words in err

    def test_a_tag_without_a_version_is_said(self, plan, resource):
        status, _, err = plan(*resource("v0.32.0", "latest"), *TRAFFIC)
        assert status == 0
        assert "rules of 0.32.0 are taken" in err


class TestBadTraffic:
    @pytest.mark.parametrize(
        ("old", "new", "words"),
        [
            pytest.param("requests: 20400", "requests: -5", "requests", id="a negative count"),
            pytest.param("requests: 20400", "requests: 100", "more than", id="too few requests"),
            pytest.param("8160,", "18160,", "counts fall", id="cumulative counts that fall"),
            pytest.param("14400", ".nan", "windowSeconds is nan", id="NaN"),
            pytest.param("14400", ".inf", "windowSeconds is inf", id="infinite"),
            pytest.param("queuedPercent", "queudPercent", "queudPercent", id="an unknown field"),
            pytest.param("sum: 161160000", "sum: 1", "does not go", id="a sum that can't be"),
            pytest.param("requests: 20400", "requests: many", "requests", id="words for numbers"),
            pytest.param("255, 263", "-255, 263", "speed.0", id="a negative speed"),
            pytest.param("windowSeconds: 14400\n", "", "missing", id="a field that is missing"),
            pytest.param(
                "windowSeconds: 14400", "windowSeconds:", "missing", id="a field left empty"
            ),
            pytest.param("requests: 20400", "requests: 1e300", "requests", id="absurdly many"),
            pytest.param("windowSeconds: 14400", "windowSeconds: 1e18", "window", id="for ever"),
            pytest.param('"50000": 20400', '"1e300": 20400', "above 1e+15", id="an absurd edge"),
            pytest.param('"50000": 20400', '"5_0000": 20400', "upper edge", id="an odd edge"),
            pytest.param(
                "peakRequestsPerSecond: 2.0", "peakRequestsPerSecond: 1e18", "peak", id="rate"
            ),
            pytest.param("concurrency: 8,", "concurrency: 1e18,", "concurrency", id="concurrency"),
            pytest.param(
                "queuedPercent: 12",
                "inFlight: {running: 1000, kvUsage: 0.01, poolTokens: 10}",
                "holds at least one",
                id="less than a token for each request",
            ),
            pytest.param(
                "queuedPercent: 12",
                "timePerOutputToken: {sum: 1000, buckets: {'0.01': 600}}",
                "does not go",
                id="a sum of times that can't be",
            ),
            pytest.param(
                "windowSeconds", "a: 1\n---\nwindowSeconds", "2 documents", id="two documents"
            ),
        ],
    )
    def test_is_refused_in_one_line(self, plan, traffic, old, new, words):
        refused(plan(*SHORT, *traffic(old, new)), words)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            pytest.param(lambda text: text[:2000], "has no vllm:", id="a page without lengths"),
            pytest.param(
                lambda text: re.sub(r'(tokens_bucket{[^}]*le="5.0"[^}]*}) \S+', r"\1 NaN", text),
                "not a number",
                id="NaN on a page",
            ),
            pytest.param(lambda text: text + "\n{{{\n", "cannot be read", id="a broken page"),
            pytest.param(lambda _: "<html>404</html>", "HTML", id="a page of a browser"),
            pytest.param(
                lambda text: text.replace('le="500.0"', 'le="abc"'), "le='abc'", id="an odd edge"
            ),
        ],
    )
    def test_a_page_that_is_no_page(self, plan, traffic, change, words):
        refused(plan(*SHORT, *traffic(text=change(PAGE.read_text()))), words)

    def test_a_file_and_a_page_do_not_mix(self, plan):
        refused(plan(*SHORT, *TRAFFIC, str(PAGE)), "two metrics pages")


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(("--gpu-free-gib", "500"), id="more free than there is"),
        pytest.param(("--gpu-free-gib", "nan"), id="NaN"),
        pytest.param(("--gpu-total-gib", "-3"), id="negative"),
        pytest.param(("--weights-size", "20Q"), id="an unknown unit"),
        pytest.param(("--weights-size", ""), id="an empty size"),
        pytest.param(("-o", "xml"), id="an unknown format"),
        pytest.param(("--nonsense",), id="an unknown option"),
        pytest.param(("--min-output-tokens-per-second", "50"), id="an option of --deployment"),
    ],
)
def test_bad_options_are_refused_in_one_line(plan, extra):
    refused(plan(*SHORT, *TRAFFIC, *extra))


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("", id="empty, as an unset variable is"),
        pytest.param("ftp://host", id="another protocol"),
        pytest.param("http://[::1", id="half an address"),
        pytest.param("http://host:99999", id="an impossible port"),
        pytest.param(f"http://{'a' * 300}:9090", id="an impossible name"),
        pytest.param("http://127.0.0.1:1", id="nobody there"),
    ],
)
def test_a_server_that_cannot_be_asked(plan, url):
    refused(plan(*SHORT, "--prometheus", url), "--prometheus")


def test_nothing_said_is_said_once(plan):
    _, out, _ = plan(*SHORT)
    assert out.count("No traffic was given") == 2  # in the notes and in the arithmetic


def test_a_resource_from_standard_input(plan, monkeypatch):
    """As in `kubectl get iep short -o yaml | parkade plan -f -`."""
    text = (EXAMPLES / "short.yaml").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert plan("-f", "-", "--model-config", CONFIG, *TRAFFIC) == plan(*SHORT, *TRAFFIC)


def piped(tmp_path, *words, out=subprocess.PIPE, **env):
    """Run the command as a process, since a test's standard output is not a real one."""
    return subprocess.run(
        [sys.executable, "-m", "parkade.cli.main", "plan", *SHORT, *TRAFFIC, *words],
        stdout=out,
        stderr=subprocess.PIPE,
        env={**os.environ, **env},
        cwd=tmp_path,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", ["text", "json", "yaml", "html"])
def test_a_locale_without_the_signs_gets_all_numbers(tmp_path, name):
    done = piped(tmp_path, "-o", name, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode("ascii")
    if name == "json":
        assert "178.35 GiB total × 0.9521" in json.loads(text)["recommendation"]["explanation"][1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said_in_one_line(tmp_path):
    with Path("/dev/full").open("wb") as full:
        done = piped(tmp_path, out=full)
    assert done.returncode == 2
    assert done.stderr.decode() == (
        "parkade plan: cannot write the output: No space left on device\n"
    )


class Unforeseen:
    """A command that fails in a way that nobody thought of."""

    @staticmethod
    def add_arguments(parser):
        pass

    @staticmethod
    def run(_args):
        raise KeyError("of a kind\nnobody knew")


def test_what_nobody_foresaw_is_one_line_too(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "unforeseen", Unforeseen)
    monkeypatch.setitem(COMMANDS, "history", ("unforeseen", "fails"))
    assert main(["history"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "KeyError" in said
    assert "test_plan" in said
    monkeypatch.setenv("PARKADE_DEBUG", "1")
    with pytest.raises(KeyError):
        main(["history"])
