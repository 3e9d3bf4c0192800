"""Take secrets out of a text before anything keeps it."""

import re

MASK = "[redacted]"

_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_KEY_ENDS = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY-----")
_KEY_CHARS = 20_000
"""The longest private key with its line prefixes; one without an end is cut by a quarter of it."""
_KNOWN = re.compile(
    r"\b(?:hf_(?:(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{4,}|[a-z]{12,})|api_org_[A-Za-z0-9]{4,}|sk-[A-Za-z0-9_\-]{8,}|nvapi-[\w\-]{8,}"
    r"|gh[pousr]_[A-Za-z0-9]{8,}|github_pat_\w{8,}|glpat-[\w\-]{8,}|xox[a-z]-[\w\-]{8,}"
    r"|AIza[\w\-]{20,}|ya29\.[\w\-]{8,}|dckr_pat_[\w\-]{8,}|npm_[A-Za-z0-9]{16,}"
    r"|pypi-[\w\-]{16,}|dop_v1_\w{16,}|(?:AKIA|ASIA|AROA)[A-Z0-9]{12,}"
    r"|eyJ[\w\-]{6,}\.[\w\-]{4,}(?:\.[\w\-]*)?)"
)
_URL_USER = re.compile(r"\b([a-zA-Z][a-zA-Z0-9+.\-]{0,20}://)[^\s/@'\"]{1,2000}@")
_QUERY = re.compile(
    r"([?&](?:[\w\-.%]{0,60}(?:token|secret|signature|credential|password|api[_-]?key)"
    r"|sig|key|auth|code|se)=)[^&\s'\"]{1,8000}",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"\b(bearer|basic|digest)(\s+)[A-Za-z0-9._~+/=\-]{6,}", re.IGNORECASE)
_HEADER = re.compile(
    r"((?:proxy-)?authorization|x-api-key|api-key|cookie|set-cookie)"
    r"(\\*[\"']?\]?\s*[:=,]\s*\\*(?:[bB](?=[\"']))?[\"']?)[^\r\n\"'}]{1,8000}",
    re.IGNORECASE,
)
_NAMED = re.compile(r"(?<![\w.\-])(?P<name>[\w.\-]+)\\*[\"']?\]?\s{0,4}(?:=>|[=:])\s{0,4}")
_SECRET_NAME = re.compile(
    r"token(?!s|iz|[_-]ids?\b)|secret|passw(?:or)?d|passphrase|credential|pwd|api[_-]?key"
    r"|access[_-]?key|private[_-]?key|auth[_-]?key|\w[_-]key$|[A-Z]KEY$",
    re.IGNORECASE,
)
_EXCEPTION_NAME = re.compile(r"[a-z](?:Error|Exception|Warning)$")
_PASSWORD_NAME = re.compile(r"passw|passphrase|pwd|secret|credential", re.IGNORECASE)
_VALUE = re.compile(
    r"\[[^\]\r\n]{0,4000}\]?|\([^)\r\n]{0,4000}\)?"
    r"|\\*[bB]?\\*\"(?:[^\"\\\r\n]|\\.){0,4000}\\*\"?|\\*[bB]?\\*'(?:[^'\\\r\n]|\\.){0,4000}\\*'?"
    r"|[^\s,;}\])\"']{1,4000}",
)
_FLAG = re.compile(
    r"(--?[\w\-]{0,60}(?:token|secret|password|api-key|api_key|credential)(?!s|iz)[\w\-]{0,20}"
    r"(?:\s+|=))(?!-)(?:\"[^\"]{0,4000}\"?|'[^']{0,4000}'?|[^\s]{1,4000})",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"\W*(?:none|null|true|false|\d{1,12}(?:\.\d{1,6})?|auto)?\W*", re.IGNORECASE
)
_HINT = re.compile(
    r"token|key|secret|passw|pwd|passphrase|credential|auth|cookie|://|[?&]\w*=|bearer|basic|digest"
    r"|hf_|sk-|nvapi|gh[pousr]_|github_pat|glpat|xox|AIza|ya29|dckr|npm_|pypi-|dop_|AKIA|ASIA|AROA"
    r"|eyJ|api_org|PRIVATE",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Return the text with every secret that can be recognised replaced by a mask.

    Recognised are: tokens of known shapes, Authorization and cookie headers, credentials and
    signatures in URLs, private keys, flags and name-value pairs whose name says token, key,
    secret or password (numbers, booleans and None stay: ``max_tokens=8`` is no secret).
    """
    if not _HINT.search(text):
        return text
    text = redact_blocks(text)
    text = _URL_USER.sub(rf"\1{MASK}@", text)
    text = _QUERY.sub(rf"\1{MASK}", text)
    text = _HEADER.sub(rf"\1\2{MASK}", text)
    text = _SCHEME.sub(rf"\1\2{MASK}", text)
    text = _FLAG.sub(rf"\1{MASK}", text)
    return _KNOWN.sub(MASK, _mask_named(text))


def _mask_named(text: str) -> str:
    """Mask the values of names that say secret; a value may itself be a name with a value."""
    parts: list[str] = []
    done = 0
    for found in _NAMED.finditer(text):
        name = found["name"][-200:]
        if found.start() < done or not _SECRET_NAME.search(name) or _EXCEPTION_NAME.search(name):
            continue
        value = _VALUE.match(text, found.end())
        if value and not _is_harmless(found["name"], value[0]):
            parts += [text[done : found.end()], MASK]
            done = value.end()
    return "".join([*parts, text[done:]])


def _is_harmless(name: str, value: str) -> bool:
    """Tell whether a value is no secret: nothing, a switch, or a number (but not a password)."""
    if not _HARMLESS.fullmatch(value):
        return False
    return not any(char.isdigit() for char in value) or not _PASSWORD_NAME.search(name)


def redact_blocks(text: str) -> str:
    """Replace private keys, the secrets that span lines."""
    parts: list[str] = []
    done = 0
    while begins := _KEY_BEGINS.search(text, done):
        ends = _KEY_ENDS.search(text, begins.end(), begins.end() + _KEY_CHARS)
        parts += [text[done : begins.start()], MASK]
        done = ends.end() if ends else min(len(text), begins.end() + _KEY_CHARS // 4)
    return "".join([*parts, text[done:]])
