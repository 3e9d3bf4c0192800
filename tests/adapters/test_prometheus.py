"""The Prometheus adapter against a real HTTP server: what is sent, and what each answer becomes."""

import math
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parkade.adapters.errors import (
    ForbiddenError,
    InvalidError,
    TooManyRequestsError,
    UnavailableError,
    UnusableAnswerError,
)
from parkade.adapters.prometheus import Prometheus, Server, escape
from support.servers import Reply, serving


def vector(*samples, **more):
    result = [{"metric": labels, "value": [1_700_000_000, value]} for labels, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **more}


def ask(reply, promql="up", **server):
    with serving(lambda _asked: reply) as served:
        prometheus = Prometheus(Server(served.url, **server))
        return prometheus.query(promql, at=1_700_000_000.5), served.asked


def test_sends_the_query_in_the_form_body_with_time_and_time_out():
    _, asked = ask(Reply(body=vector()), promql='sum(up{job="a"})', timeout_seconds=7)
    assert (asked[0].method, asked[0].target) == ("POST", "/api/v1/query")
    assert asked[0].form == {
        "query": 'sum(up{job="a"})',
        "time": "1700000000.500",
        "timeout": "7s",
    }


def test_sends_the_tenant_and_a_token_that_is_read_anew_each_time(tmp_path):
    token = tmp_path / "token"
    token.write_text("one\n")
    with serving(lambda _asked: Reply(body=vector())) as served:
        server = Server(served.url, tenant_header="X-Tenant", tenant="blue", token_file=token)
        prometheus = Prometheus(server)
        prometheus.query("up")
        token.write_text("two")
        prometheus.query("up")
    assert [one.headers["Authorization"] for one in served.asked] == ["Bearer one", "Bearer two"]
    assert served.asked[0].headers["X-Tenant"] == "blue"


def test_a_missing_token_file_is_told_and_nothing_is_sent(tmp_path):
    with serving(lambda _asked: Reply(body=vector())) as served:
        prometheus = Prometheus(Server(served.url, token_file=tmp_path / "gone"))
        with pytest.raises(ForbiddenError, match=r"token file .*gone can't be read"):
            prometheus.query("up")
    assert served.asked == []


def test_reads_labels_values_and_what_the_server_says_of_its_answer():
    body = vector(({"pod": "a", "le": "0.3"}, "2.5"), warnings=["partial"], infos=["not a counter"])
    answer, _ = ask(Reply(body=body))
    assert answer.samples[0].labels == {"pod": "a", "le": "0.3"}
    assert answer.samples[0].value == 2.5
    assert (answer.warnings, answer.infos) == (("partial",), ("not a counter",))


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf"])
def test_values_that_are_no_numbers_are_kept_and_told_apart(text):
    answer, _ = ask(Reply(body=vector(({}, text))))
    assert not answer.samples[0].finite
    assert math.isnan(answer.samples[0].value) or math.isinf(answer.samples[0].value)


def refusal(kind, text="why"):
    return {"status": "error", "errorType": kind, "error": text}


@pytest.mark.parametrize(
    ("reply", "error", "match"),
    [
        pytest.param(
            Reply(400, refusal("bad_data", "parse error")),
            InvalidError,
            "bad_data: parse error",
            id="a query that does not parse will not parse the next time",
        ),
        pytest.param(
            Reply(422, refusal("execution", "too many samples")),
            InvalidError,
            "too many samples",
            id="a query that is too large stays so",
        ),
        pytest.param(
            Reply(503, refusal("timeout")), UnavailableError, "timeout", id="a time-out may pass"
        ),
        pytest.param(
            Reply(200, refusal("unavailable")),
            UnavailableError,
            "unavailable",
            id="an error with status 200 is an error",
        ),
        pytest.param(Reply(500, "oops"), UnavailableError, "HTTP 500: oops", id="a broken gateway"),
        pytest.param(Reply(401, "no"), ForbiddenError, "HTTP 401", id="a wrong token"),
        pytest.param(Reply(403, refusal("denied")), ForbiddenError, "denied", id="a wrong tenant"),
        pytest.param(
            Reply(429, "slow down", {"Retry-After": "7"}),
            TooManyRequestsError,
            "429",
            id="too many requests",
        ),
        pytest.param(
            Reply(200, "<html>login</html>"),
            UnusableAnswerError,
            "not an answer of a Prometheus; check its URL",
            id="a login page",
        ),
        pytest.param(
            Reply(302, "", {"Location": "http://elsewhere.example/"}),
            UnusableAnswerError,
            "HTTP 302",
            id="a redirect is not followed, since the token would go along",
        ),
        pytest.param(Reply(200, "[]"), UnusableAnswerError, "not an answer", id="JSON of no kind"),
        pytest.param(
            Reply(200, {"status": "success", "data": {"resultType": "matrix", "result": []}}),
            UnusableAnswerError,
            "expected a vector, got 'matrix'",
            id="a matrix",
        ),
        pytest.param(
            Reply(200, {"status": "success", "data": None}),
            UnusableAnswerError,
            "expected a vector",
            id="no data at all",
        ),
        pytest.param(
            Reply(200, vector(({}, "many"))),
            UnusableAnswerError,
            "a sample can't be read",
            id="a value that is a word",
        ),
    ],
)
def test_each_refusal_has_its_error(reply, error, match):
    with pytest.raises(error, match=match):
        ask(reply)


def test_says_how_long_to_wait_where_the_server_does():
    with pytest.raises(TooManyRequestsError) as caught:
        ask(Reply(429, "slow down", {"Retry-After": "7"}))
    assert caught.value.retry_after_seconds == 7


def test_a_server_that_does_not_answer_in_time_is_unavailable():
    stall = threading.Event()
    with serving(lambda _asked: Reply(body=vector(), stall=stall)) as served:
        prometheus = Prometheus(Server(served.url, timeout_seconds=0.2))
        with pytest.raises(UnavailableError):
            prometheus.query("up")
        stall.set()


def test_nobody_listening_is_unavailable():
    with serving(lambda _asked: Reply()) as served:
        url = served.url
    with pytest.raises(UnavailableError):
        Prometheus(Server(url)).query("up")


def test_the_proxy_of_the_environment_is_not_used(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    answer, _ = ask(Reply(body=vector(({}, "1"))))
    assert answer.samples[0].value == 1


@given(st.text())
def test_an_escaped_label_value_never_ends_its_string(value):
    escaped = escape(value)
    assert "\n" not in escaped
    unescaped = escaped.replace("\\\\", "").replace('\\"', "")
    assert '"' not in unescaped


WORDS = "eyJhbGciOi-first"


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(f"{WORDS}\nsecond".encode(), id="two lines"),
        pytest.param(f"{WORDS}\r\nsecond".encode(), id="of another system"),
        pytest.param(f"{WORDS} second".encode(), id="two words"),
        pytest.param(f"\ufeff{WORDS}".encode(), id="a byte order mark"),
        pytest.param(f"“{WORDS}”".encode(), id="quotes of a word processor"),
        pytest.param(WORDS.encode("utf-16"), id="another encoding"),
        pytest.param(b"", id="empty"),
    ],
)
def test_a_token_file_that_holds_no_token_is_told_without_its_words(tmp_path, held):
    file = tmp_path / "token"
    file.write_bytes(held)
    with serving(lambda _asked: Reply(body=vector())) as served:
        prometheus = Prometheus(Server(served.url, token_file=file))
        with pytest.raises(ForbiddenError, match="does not hold one line of a token") as error:
            prometheus.query("up")
    assert "eyJ" not in str(error.value)
    assert served.asked == []


def test_an_answer_that_trickles_ends_in_time():
    began = time.monotonic()
    with (
        serving(lambda _asked: Reply(body=" " * 10_000, trickles=True)) as served,
        pytest.raises(UnavailableError, match="did not end in time"),
    ):
        Prometheus(Server(served.url, timeout_seconds=0.3)).query("up")
    assert time.monotonic() - began < 5
