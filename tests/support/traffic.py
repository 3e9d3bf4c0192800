"""What a reading of Prometheus holds of a busy pod."""

from parkade.adapters.traffic import PodTraffic


def served(at, running, milliseconds, requests=300.0):
    """What a pod reports that held so many requests, each at that time per token."""
    seconds, lengths = milliseconds / 1000, {1000.0: requests, float("inf"): requests}
    return PodTraffic(
        {
            **{f"{what}_sum": 500 * requests for what in ("prompt", "output")},
            **{f"{what}_count": requests for what in ("prompt", "output")},
            "token_time_sum": requests * seconds,
            "token_time_count": requests,
            "running_sum": running * 200.0,
            "running_squares": running**2 * 200.0,
            "usage_sum": 20.0,
            "busy_steps": 200.0,
            "all_steps": 240.0,
            "scrapes": 240.0,
            "newest": at.timestamp(),
        },
        {
            "prompt_buckets": dict(lengths),
            "output_buckets": dict(lengths),
            "token_time_buckets": {
                edge: requests if edge >= seconds else 0.0
                for edge in (0.01, 0.025, 0.05, float("inf"))
            },
        },
        {"kv_cache_size_tokens": "2100000"},
    )
