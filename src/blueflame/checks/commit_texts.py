"""Check what commits say besides their subject: whose they are, and what a terminal or a forge would not show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from blueflame.model.changes import Commit
from blueflame.model.verdict import Violation

UNSAFE_MESSAGE: Final = "unsafe_message"
FOREIGN_IDENTITY: Final = "foreign_identity"

MAX_MESSAGE_LENGTH = 50_000
MAX_HEADERS_LENGTH = 50_000  # a signature has a few thousand characters
# Control characters, zero width characters, marks of direction and tags; joiners are part of honest text and emoji.
# One variation selector chooses the form of an emoji or an ideograph; several in a row carry hidden text.
HIDDEN_CHARACTER = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
    r"|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}"
)
IDENTITY_HEADER = re.compile(r"(?m)^(author|committer) (.*) \d+ [+-]\d+$")
ENCODING_HEADER = re.compile(r"(?m)^encoding (?!(?i:utf-?8)$)(.*)$")
# Trailers that say that a person answers for a commit; `git interpret-trailers` takes any letter case and spaces.
TRAILER = re.compile(
    r"(?im)^[ \t]*((?:signed-off|co-authored|co-developed|authored|committed|reviewed|acked|approved|tested)-by)[ \t]*:"
    r"(.*)$"
)
PROGRAM = re.compile(r"(?i)[^<>]*<no-?reply@[^<>@]+>")
AGENT = re.compile(r"(\S+) <\1@agents\.invalid>")  # any agent: a later attempt can build on the commits of an earlier
NAME_CRUD = ".,:;<>\"\\'"  # git strips these from both ends of a name, with spaces and control characters


def check_messages(commits: Sequence[Commit]) -> Iterator[Violation]:
    """Find messages and headers that a terminal or a forge would not show as they are."""
    for commit in commits:
        if why := _explain_unsafe(commit):
            yield Violation(rule=UNSAFE_MESSAGE, path=commit.sha, detail=why)


def _explain_unsafe(commit: Commit) -> str:
    if len(commit.message) > MAX_MESSAGE_LENGTH:
        return f"the message has {len(commit.message)} characters; write at most {MAX_MESSAGE_LENGTH}"
    if len(commit.headers) > MAX_HEADERS_LENGTH:
        return f"the commit has {len(commit.headers)} characters before its message; at most {MAX_HEADERS_LENGTH}"
    if found := ENCODING_HEADER.search(commit.headers):
        return f"the message is encoded as {found[1][:40]!r}; write it in UTF-8"
    if found := HIDDEN_CHARACTER.search(f"{commit.message}\n{commit.author}\n{commit.headers}"):
        return f"the message or the author has the invisible character U+{ord(found[0][0]):04X}; remove it"
    return ""


def check_identities(commits: Sequence[Commit], identities: Sequence[str]) -> Iterator[Violation]:
    """Find commits in the name of others. `identities`, as `Name <address>`, are the agent's and the person's."""
    own = {_normalize(identity) for identity in identities}

    def is_own(identity: str) -> bool:
        plain = _normalize(identity)
        return plain in own or AGENT.fullmatch(plain) is not None

    for commit in commits:
        for role, identity in IDENTITY_HEADER.findall(commit.headers):
            if not is_own(identity):
                detail = f"the {role} is {identity[:100]!r}; agents commit as {', '.join(identities)}"
                yield Violation(rule=FOREIGN_IDENTITY, path=commit.sha, detail=detail)
        for name, identity in TRAILER.findall(commit.message):
            if not is_own(identity) and not _is_program(name, identity):
                detail = f"{name}: {identity.strip()[:100]!r} speaks for another; remove the line"
                yield Violation(rule=FOREIGN_IDENTITY, path=commit.sha, detail=detail)


def _is_program(name: str, identity: str) -> bool:
    """Whether an agent's program names itself as the co-author: `Claude <noreply@anthropic.com>`."""
    return name.casefold() == "co-authored-by" and PROGRAM.fullmatch(identity.strip()) is not None


def _normalize(identity: str) -> str:
    name, _, address = identity.strip().removesuffix(">").rpartition("<")
    return f"{_strip_crud(name)} <{_strip_crud(address)}>".casefold()


def _strip_crud(text: str) -> str:
    return text.strip(NAME_CRUD + "".join(map(chr, range(33)))).replace("<", "").replace(">", "").replace("\n", "")
