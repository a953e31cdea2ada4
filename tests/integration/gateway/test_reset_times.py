"""When a rate-limited call may be retried: every provider reports it differently."""

from __future__ import annotations

import json

import pytest

from blueflame.gateway.model_api.failures import find_reset_time

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "30"}, {}, 30),
        ({"retry-after": "1.5"}, {}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "30"}, {}, 0.25),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:00 GMT"}, {}, 60),
        ({"anthropic-ratelimit-unified-reset": "1800003600"}, {}, 3600),
        ({"anthropic-ratelimit-requests-reset": "2027-01-15T08:02:00Z"}, {}, 120),
        (
            {
                "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:01Z",
                "anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:05:00Z",
                "anthropic-ratelimit-input-tokens-remaining": "0",
            },
            {},
            300,
        ),
        ({"x-ratelimit-reset-requests": "6m0s"}, {}, 360),
        ({"x-ratelimit-reset-tokens": "250ms"}, {}, 0.25),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, {}, 3723.5),
        (
            {
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "0",
            },
            {},
            360,
        ),
        ({}, {"error": {"resets_in_seconds": 90}}, 90),
        ({}, {"error": {"type": "usage_limit_reached", "resets_at": 1800000600}}, 600),
        (
            {},
            {"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "43s"}]}},
            43,
        ),
        ({}, [{"error": {"details": [{"@type": "x/google.rpc.RetryInfo", "retryDelay": "1.5s"}]}}], 1.5),
        ({"retry-after": "Thu, 14 Jan 2027 08:00:00 GMT"}, {}, 0),  # past: now
        ({"retry-after": "999999999999"}, {}, 40 * 86400),
    ],
)
def test_a_reset_time_is_read(headers: dict[str, str], body: object, seconds: float) -> None:
    assert find_reset_time(headers, json.dumps(body).encode(), NOW) == pytest.approx(NOW + seconds)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, b""),
        ({}, b"not json"),
        ({}, b"[]"),
        ({}, b'{"error": "text"}'),
        ({}, b'{"error": {"resets_in_seconds": "soon", "details": [7, {"@type": "RetryInfo", "retryDelay": "x"}]}}'),
        ({"retry-after": "soon"}, b""),
        ({"retry-after": "-5"}, b""),
        ({"anthropic-ratelimit-tokens-reset": "tomorrow", "x-ratelimit-reset-tokens": "1..2s"}, b""),
    ],
)
def test_an_invalid_reset_time_is_ignored(headers: dict[str, str], body: bytes) -> None:
    assert find_reset_time(headers, body, NOW) is None
