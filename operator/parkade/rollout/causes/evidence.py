"""Bound and clean an engine log, so that it can be kept."""


def excerpt(text: str, max_bytes: int) -> str:
    """Cut a log to what matters, at most ``max_bytes`` of UTF-8, free of secrets."""
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")
