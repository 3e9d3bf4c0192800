"""The operator's configuration: accepted, refused, and what a refusal says."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from parkade.controller.settings import (
    OperatorSettings,
    SettingsError,
    host_and_port,
    load_settings,
    read_settings,
)


def test_no_file_means_defaults():
    assert load_settings(None) == OperatorSettings()
    assert OperatorSettings().max_concurrent_rollouts == 1


def test_an_empty_file_means_defaults(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("")
    assert load_settings(path) == OperatorSettings()


def test_a_whole_configuration_is_read():
    settings = read_settings(
        yaml.safe_load("""
        prometheus:
          - {name: default, url: "http://p:9090", bearerTokenFile: /t, tenant: blue}
          - {name: other, url: "https://q", caFile: /ca, scrapeIntervalSeconds: 5}
        hub: {url: ""}
        maxConcurrentRollouts: 3
        namespaces: [a, b]
        """)
    )
    server = settings.server("default").server
    assert (str(server.token_file), server.tenant) == ("/t", "blue")
    assert settings.server("other").scope(600, settings.namespaces).scrape_interval_seconds == 5
    assert settings.server("nobody") is None


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        pytest.param({"promteheus": []}, "promteheus: Extra inputs", id="a key that is misspelt"),
        pytest.param([1], "expected keys with values, got list", id="a list"),
        pytest.param(
            {"prometheus": [{"url": "ftp://x"}]}, r"prometheus\.0\.url", id="an address of no kind"
        ),
        pytest.param(
            {"prometheus": [{"url": "http://user:word@x"}]},
            r"prometheus\.0\.url",
            id="a password in an address",
        ),
        pytest.param(
            {"prometheus": [{"url": "http://x"}, {"url": "http://y"}]},
            "the name 'default' stands twice",
            id="two servers of one name",
        ),
        pytest.param({"maxConcurrentRollouts": 0}, "maxConcurrentRollouts", id="no rollout at all"),
        pytest.param({"workers": 10**9}, "workers", id="an absurd number"),
        pytest.param({"evaluationSeconds": float("nan")}, "evaluationSeconds", id="NaN"),
        pytest.param({"namespaces": ["A_b"]}, r"namespaces\.0", id="a name that is no namespace"),
        pytest.param({"healthAddress": "8080"}, "healthAddress", id="an address without a colon"),
        pytest.param({"healthAddress": "::1:8080"}, "healthAddress", id="IPv6 without brackets"),
    ],
)
def test_a_refusal_names_the_field(raw, match):
    with pytest.raises(SettingsError, match=match):
        read_settings(raw)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        pytest.param("a: [", "is not YAML", id="not YAML"),
        pytest.param("\x00", "is not YAML", id="binary"),
        pytest.param("#" * 2_000_000, "larger than", id="far too large"),
        pytest.param("!!python/object/apply:os.system [ls]", "is not YAML", id="code"),
    ],
)
def test_a_file_that_can_not_be_read_is_told(tmp_path, text, match):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=match):
        load_settings(path)


def test_a_missing_file_says_what_to_give(tmp_path):
    with pytest.raises(SettingsError, match=r"Give --config"):
        load_settings(tmp_path / "none")


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_value_is_a_configuration_or_a_refusal(raw):
    try:
        settings = read_settings({"prometheus": raw})
    except SettingsError:
        return
    assert settings.prometheus == ()


@pytest.mark.parametrize(
    ("address", "split"),
    [
        pytest.param("0.0.0.0:8080", ("0.0.0.0", 8080), id="of IPv4"),
        pytest.param("[::1]:8080", ("::1", 8080), id="of IPv6"),
        pytest.param(":8080", ("", 8080), id="all of them"),
    ],
)
def test_an_address_is_split(address, split):
    assert host_and_port(read_settings({"healthAddress": address}).health_address) == split
