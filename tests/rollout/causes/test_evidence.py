"""What is kept of a log: bounded, clean, free of secrets, and it still says the same."""

from pathlib import Path

import pytest

from parkade.rollout.causes import ContainerEvidence, classify, excerpt, read_startup
from parkade.rollout.causes.redaction import redact

LOGS = sorted((Path(__file__).parents[2] / "data" / "logs").glob("*.log"))
SECRET = "Zq9pLanted7Secret"  # noqa: S105

LEAKS = [
    pytest.param(f"HF_TOKEN={SECRET}", id="environment variable"),
    pytest.param(f"environ({{'OPENAI_API_KEY': '{SECRET}', 'A': 'b'}})", id="environment dump"),
    pytest.param(f"export DB_PASSWORD='{SECRET} with words'", id="quoted, with spaces"),
    pytest.param(f'{{"client_secret": "{SECRET}"}}', id="JSON"),
    pytest.param(f'{{\\"token\\": \\"{SECRET}\\"}}', id="JSON in JSON"),
    pytest.param(f"non-default args: {{'api_key': ['a{SECRET}', '{SECRET}'], 'port': 8000}}",
                 id="the engine's own argument dump"),
    pytest.param(f"vllm serve m --api-key {SECRET} --port 8000", id="flag and value"),
    pytest.param(f"vllm serve m --hf-token={SECRET}", id="flag with equals sign"),
    pytest.param(f"Authorization: Bearer {SECRET}", id="bearer header"),
    pytest.param(f"headers={{'authorization': 'Basic {SECRET}='}}", id="basic header in a dict"),
    pytest.param(f"x-api-key: {SECRET}", id="API key header"),
    pytest.param(f"Cookie: session={SECRET}; other=1", id="cookie"),
    pytest.param(f"https://user:{SECRET}@hub.example/repo", id="URL with a password"),
    pytest.param(f"https://{SECRET}@hub.example/repo", id="URL with a token"),
    pytest.param(f"https://s3.example/x?X-Amz-Signature={SECRET}&a=1", id="signed URL"),
    pytest.param(f"https://h.example/x?access_token={SECRET}", id="token in a query"),
    pytest.param(f"token hf_{SECRET} refused", id="Hugging Face token alone"),
    pytest.param(f"key sk-{SECRET}{SECRET} refused", id="API key alone"),
    pytest.param("id AKIAZQ9PLANTED7SECRE refused", id="AWS access key id"),
    pytest.param(f"aws_secret_access_key = {SECRET}/+x", id="AWS secret"),
    pytest.param(f"ghp_{SECRET}{SECRET}", id="code host's token"),
    pytest.param(f"eyJhbGciOiJIUzI1NiJ9.eyJ{SECRET}.sig", id="JWT"),
    pytest.param(f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
                 id="private key over lines"),
    pytest.param(f"os.environ['VLLM_API_KEY'] = '{SECRET}'", id="assignment to an item"),
    pytest.param(f"ValueError: bad password: {SECRET}", id="in the error itself"),
]  # fmt: skip


def leaks(text: str) -> bool:
    return SECRET in text or "AKIAZQ9PLANTED7SECRE" in text


@pytest.mark.parametrize("planted", LEAKS)
@pytest.mark.parametrize("size", [400, 20_000])
def test_no_secret_is_kept(planted, size):
    line = planted.replace("\n", "\n(EngineCore pid=8) ")
    text = f"{LOGS[0].read_text()}\nERROR 11-29 10:00:00 [a.py:1] {line}\nRuntimeError: {planted}"
    assert not leaks(excerpt(text, size))
    for evidence in (None, ContainerEvidence(exit_code=1, message=planted)):
        cause = classify(text if evidence is None else "", evidence)
        assert not leaks(f"{cause.message}{cause.key_lines}{cause.remedy}")


@pytest.mark.parametrize("planted", LEAKS)
def test_a_secret_in_an_error_is_masked_in_its_message(planted):
    cause = classify(f"RuntimeError: {planted.splitlines()[0]}")
    assert not leaks(f"{cause.message}{cause.key_lines}")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("max_num_batched_tokens (2048) must be >= max_num_seqs (4096)", id="tokens"),
        pytest.param("GPU KV cache size: 883,011 tokens, num_speculative_tokens: 8", id="sizes"),
        pytest.param("tokenizer='tiny', tokenizer_revision=None, hf_token=None", id="tokenizer"),
        pytest.param("bos_token_id=1, eos_token_id: 2, max_tokens=16", id="token ids"),
        pytest.param("KeyError: 'model.layers.0'", id="KeyError"),
    ],
)
def test_figures_stay(text):
    assert redact(text) == text


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in LOGS])
@pytest.mark.parametrize("size", [4_000, 16_000])
def test_an_excerpt_classifies_as_its_log_does(path, size):
    text = path.read_text()
    kept = excerpt(text, size)
    whole, cut = classify(text), classify(kept)
    assert len(kept.encode()) <= size
    assert (cut.cause_class, cut.blame, cut.shortfall_bytes) == (
        whole.cause_class,
        whole.blame,
        whole.shortfall_bytes,
    )


def test_an_excerpt_of_a_long_log_keeps_start_cause_and_end():
    text = next(path for path in LOGS if path.stem == "oom-runtime").read_text()
    at = text.index("(EngineCore pid=88) ERROR")
    noise = 'INFO:     10.0.0.9:50430 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 100_000
    kept = excerpt(text[:at] + noise + text[at:], 16_000)
    assert read_startup(kept) == read_startup(text)
    assert "Tried to allocate 1.50 GiB" in kept
    assert kept.rstrip().endswith("Finished server process [1]")
    assert "lines left out ...]" in kept


def test_an_excerpt_is_clean_text():
    kept = excerpt("\x1b[1;31mERROR\x1b[0m a\x00b\u202ec\ud800 déjà\n", 1000)
    assert kept == "ERROR abc? déjà"


@pytest.mark.parametrize("size", [-1, 0, 1, 2, 3, 10])
def test_a_tiny_bound_holds_and_cuts_no_character(size):
    kept = excerpt("日本語 ValueError: 日本語\n" * 50, size)
    assert len(kept.encode()) <= max(size, 0)
