"""Credentials on the warden's stdin: read once, whole, and never repeated in an error."""

from __future__ import annotations

import os

import pytest

from blueflame.warden.services import read_secrets


def ear(data: bytes) -> int:
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    return reader


def test_secrets_are_taken_once() -> None:
    handle = ear(b'{"anthropic": "sk-1", "openai": "sk-2"}')

    assert read_secrets(handle) == {"anthropic": "sk-1", "openai": "sk-2"}
    assert read_secrets(handle) == {}
    os.close(handle)


def test_a_closed_stdin_means_no_secrets() -> None:
    closed = ear(b"")
    os.close(closed)

    assert read_secrets(closed) == {}
    with open("/dev/null", "rb") as nothing:  # noqa: PTH123 (its number is all we want)
        assert read_secrets(nothing.fileno()) == {}


@pytest.mark.parametrize("data", [b'{"a": "sk-geheim"', b'["sk-geheim"]', b'{"a": {"b": "sk-geheim"}}'])
def test_what_makes_no_sense_is_not_repeated(data: bytes) -> None:
    handle = ear(data)
    with pytest.raises(ValueError, match="no JSON object of strings") as refused:
        read_secrets(handle)
    os.close(handle)

    assert "geheim" not in str(refused.value)
