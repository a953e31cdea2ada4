"""Notes that are kept for long and shown to models and people: one line, without secrets."""

from __future__ import annotations

from collections.abc import Sequence

from blueflame.text.sanitize import shorten_line

SECRET = "(left out: it looks like a secret)"  # noqa: S105


def clean_note(text: str, longest: int) -> str:
    """One sanitized line without secrets."""
    return shorten_line("\n".join(_redact_secrets(text[: 4 * longest].splitlines())), longest)


def clean_notes(entries: Sequence[str], longest: int) -> tuple[str, ...]:
    """One such line for each entry; a secret that spans several entries is left out as well."""
    lines = [clean_note(entry, longest) for entry in entries]
    return tuple(_redact_secrets(lines))


def _redact_secrets(lines: Sequence[str]) -> Sequence[str]:
    from blueflame.checks.secrets.scan import find_secrets  # late: its rules take a while to compile

    secrets = find_secrets("note", enumerate(lines))
    if not secrets:
        return lines
    found = [find_secrets("note", [(1, line)]) for line in lines]
    known = {finding.fingerprint for findings in found for finding in findings}
    if any(secret.fingerprint not in known for secret in secrets):
        return [SECRET]  # it spans several lines, like a private key
    return [SECRET if findings else line for findings, line in zip(found, lines, strict=True)]
