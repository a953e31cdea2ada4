"""Find secrets in what a result adds; report them without repeating them; let through what the allow file names.

Pure. A finding never carries the secret: a reader of the journal, a prompt or a screen learns where it is and what
kind it is, not what it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain, groupby
from operator import attrgetter
from typing import Final, NamedTuple

from blueflame.checks.secrets.rules import (
    CONFIG_FILE,
    KEYWORD_RULES,
    PREFIX_RULES,
    RULE_DESCRIPTIONS,
    RULES,
    TAIL,
    SecretRule,
)
from blueflame.model.changes import Commit
from blueflame.model.verdict import Violation
from blueflame.paths.globs import BadPattern, Globs

SENSITIVE_CONTENT: Final = "sensitive_content"
MAX_PIECE_CHARACTERS = 1_000_000  # characters that are searched at once
OVERLAP_LINES = 40  # lines that are searched with the next piece again: a key may lie across
MAX_FINDINGS = 100  # more than these are counted, not listed
PREVIEW_LENGTH = 4
FINGERPRINT = re.compile(r"[0-9a-f]{16}")
RANKS = {rule.name: rank for rank, rule in enumerate(RULES)}
PREFIXES = {anchor: rule for rule in PREFIX_RULES for anchor in rule.anchors}
PREFIX_ENDINGS = tuple(sorted(PREFIXES))
MAX_PREFIX_LENGTH = max(map(len, PREFIX_ENDINGS))


def _group_by_anchor() -> Mapping[tuple[str, bool], tuple[SecretRule, ...]]:
    """Each anchor is looked for once, whoever needs it."""
    wanted: dict[tuple[str, bool], tuple[SecretRule, ...]] = {}
    for rule in KEYWORD_RULES:
        for anchor in rule.anchors:
            wanted[anchor, rule.fold] = (*wanted.get((anchor, rule.fold), ()), rule)
    return wanted


RULES_BY_ANCHOR = _group_by_anchor()


class AddedLine(NamedTuple):
    """A line that a commit adds to a file."""

    path: str
    number: int
    text: str
    commit: str = ""  # the commit that has it, when the result itself has it no more


class Unscanned(NamedTuple):
    """A file that could not be looked through, and why: never a pass."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFinding:
    rule: str
    path: str
    line: int
    preview: str  # the first letters and the length
    fingerprint: str
    commit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretAllowList:
    """What a person said is no secret: by fingerprint, by path, or by path and rule."""

    fingerprints: frozenset[str] = frozenset()
    paths: Globs = field(default_factory=lambda: Globs(()))
    by_rule: tuple[tuple[str, Globs], ...] = ()

    def covers(self, rule: str, path: str, fingerprint: str) -> bool:
        if fingerprint in self.fingerprints or self.paths.matches(path):
            return True
        return any(name == rule and globs.matches(path) for name, globs in self.by_rule)


def compute_fingerprint(rule: str, secret: str) -> str:
    return sha256(f"{rule}\0{secret}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def format_preview(secret: str) -> str:
    shown = "".join(letter if letter.isprintable() else "?" for letter in secret[:PREVIEW_LENGTH])
    return f"{shown}..., {len(secret)} characters"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """All that was found, before anybody says that some of it is no secret."""

    findings: tuple[SecretFinding, ...] = ()
    unscanned: tuple[Unscanned, ...] = ()


def scan_lines(lines: Iterable[AddedLine | Unscanned], commits: Sequence[Commit] = ()) -> ScanResult:
    """Through added lines and through what the commits say of themselves."""
    unscanned: list[Unscanned] = []
    findings = (*_scan_files(lines, unscanned), *_scan_messages(commits))
    return ScanResult(findings=findings, unscanned=tuple(unscanned))


def judge_findings(looked: ScanResult, allowed: SecretAllowList) -> tuple[Violation, ...]:
    """One secret in one file is told once, where it is seen first: in the result rather than in its history."""
    found: dict[tuple[str, str], SecretFinding] = {}
    for finding in looked.findings:
        if not allowed.covers(finding.rule, finding.path, finding.fingerprint):
            found.setdefault((finding.path, finding.fingerprint), finding)
    unread = [one for one in looked.unscanned if not allowed.paths.matches(one.path)]
    return (
        *(Violation(rule=SENSITIVE_CONTENT, path=one.path, detail=one.reason) for one in unread),
        *build_violations(found.values()),
    )


def build_violations(findings: Iterable[SecretFinding]) -> tuple[Violation, ...]:
    ordered = sorted(findings, key=lambda one: (one.path, one.line, one.rule, one.fingerprint))
    listed = [_build_violation(finding) for finding in ordered[:MAX_FINDINGS]]
    if len(ordered) > MAX_FINDINGS:
        left = ordered[MAX_FINDINGS]
        detail = f"and {len(ordered) - MAX_FINDINGS} more secrets, from here on"
        listed.append(Violation(rule=SENSITIVE_CONTENT, path=left.path, line=left.line, detail=detail))
    return tuple(listed)


def _build_violation(finding: SecretFinding) -> Violation:
    gone = f", added by {finding.commit[:12]} and still in the history" if finding.commit else ""
    about = RULE_DESCRIPTIONS.get(finding.rule, "secret")
    detail = f"{about} ({finding.preview}){gone}; rule {finding.rule}, fingerprint {finding.fingerprint}"
    return Violation(rule=SENSITIVE_CONTENT, path=finding.path, line=finding.line, detail=detail)


def _scan_files(lines: Iterable[AddedLine | Unscanned], unscanned: list[Unscanned]) -> Iterator[SecretFinding]:
    for (path, commit), group in groupby(_separate_unscanned(lines, unscanned), key=attrgetter("path", "commit")):
        written = ((line.number, line.text) for line in group)
        yield from find_secrets(path, chain([(1, path)], written), commit=commit)  # a name lands as well as its lines


def _separate_unscanned(lines: Iterable[AddedLine | Unscanned], unscanned: list[Unscanned]) -> Iterator[AddedLine]:
    for line in lines:
        if isinstance(line, Unscanned):
            unscanned.append(line)
        else:
            yield line


def _scan_messages(commits: Sequence[Commit]) -> Iterator[SecretFinding]:
    for commit in commits:
        text = enumerate([*commit.message.split("\n"), commit.author], start=1)
        yield from find_secrets(commit.sha, text)


# --- looking through lines


def find_secrets(path: str, lines: Iterable[tuple[int, str]], *, commit: str = "") -> tuple[SecretFinding, ...]:
    """Every secret in some lines of one file, in the order of the lines; one that stands there twice is told once."""
    config = CONFIG_FILE.search(path) is not None
    found: dict[str, SecretFinding] = {}
    for numbers, texts in _split_pieces(lines):
        text = "\n".join(texts)
        at = seen = 0
        for begin, rule, secret in _find_spans(text, config):
            at, seen = at + text.count("\n", seen, begin), begin
            mark, shown = compute_fingerprint(rule.name, secret), format_preview(secret)
            finding = SecretFinding(
                rule=rule.name, path=path, line=numbers[at], preview=shown, fingerprint=mark, commit=commit
            )
            found.setdefault(mark, finding)
    return tuple(found.values())


def _split_pieces(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[list[int], list[str]]]:
    """Line numbers and lines, no more at once than can be searched without taking much memory."""
    numbers: list[int] = []
    texts: list[str] = []
    size = 0
    for number, text in lines:
        numbers.append(number)
        texts.append(text)
        size += len(text) + 1
        if size >= MAX_PIECE_CHARACTERS:
            yield numbers, texts
            numbers, texts = _keep_overlap(numbers, texts)
            size = 0
    if size:
        yield numbers, texts


def _keep_overlap(numbers: list[int], texts: list[str]) -> tuple[list[int], list[str]]:
    """The short lines at the end; a long one was seen whole, and seeing it over and over would take for ever."""
    keep = 0
    while keep < min(OVERLAP_LINES, len(texts) - 1) and len(texts[-keep - 1]) < 1000:
        keep += 1
    return (numbers[-keep:], texts[-keep:]) if keep else ([], [])


def _find_spans(text: str, config: bool) -> list[tuple[int, SecretRule, str]]:
    """Where secrets begin; of rules that see the same letters, the one that knows more."""
    candidates = sorted(
        ((match, rule) for match, rule in _find_matches(text, config) if rule.check(match)),
        key=lambda one: RANKS[one[1].name],
    )
    taken: list[tuple[int, int]] = []  # sorted, and no two of them overlap
    kept: list[tuple[int, SecretRule, str]] = []
    for match, rule in candidates:
        begin, end = match.span("secret")
        at = bisect_right(taken, (begin, end))
        free = (at == 0 or taken[at - 1][1] <= begin) and (at == len(taken) or end <= taken[at][0])
        if free:
            taken.insert(at, (begin, end))
            kept.append((begin, rule, match["secret"]))
    return sorted(kept, key=lambda one: one[0])


def _find_matches(text: str, config: bool) -> Iterator[tuple[re.Match[str], SecretRule]]:
    folded = _lower_in_place(text)
    for (anchor, fold), rules in RULES_BY_ANCHOR.items():
        tried = [rule for rule in rules if config or not rule.config_only]
        for at in _find_anchor(folded if fold else text, anchor):
            for rule in tried:
                if match := rule.pattern.match(text, at):
                    yield match, rule
    for tail in TAIL.finditer(text):
        end = tail.start() + 1
        before = text[max(0, end - MAX_PREFIX_LENGTH) : end]
        for prefix in PREFIX_ENDINGS if before.endswith(PREFIX_ENDINGS) else ():
            if before.endswith(prefix) and (match := PREFIXES[prefix].pattern.match(text, end - len(prefix))):
                yield match, PREFIXES[prefix]


def _find_anchor(text: str, anchor: str) -> Iterator[int]:
    at = text.find(anchor)
    while at >= 0:
        yield at
        at = text.find(anchor, at + len(anchor))


def _lower_in_place(text: str) -> str:
    """In small letters, every letter in its place: a few letters become two when they are made small."""
    small = text.lower()
    return small if len(small) == len(text) else "".join(c if len(c.lower()) != 1 else c.lower() for c in text)


# --- the allow file


class BadAllowFile(ValueError):
    """Lines of an allow file that mean nothing; `problems` has one entry for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def parse_allow_file(text: str) -> SecretAllowList:
    """`fingerprint`, `path-glob` or `path-glob:rule`, one on a line; `#` begins a comment. Raises BadAllowFile."""
    fingerprints: set[str] = set()
    paths: list[str] = []
    by_rule: dict[str, list[str]] = {}
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        entry = re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip()
        if FINGERPRINT.fullmatch(entry):
            fingerprints.add(entry)
        elif entry:
            glob, _, rule = entry.rpartition(":") if ":" in entry else (entry, "", "")
            problem = _find_entry_problem(entry, glob, rule)
            if problem:
                problems.append(f"line {number}: {problem}")
            else:
                (by_rule.setdefault(rule, []) if rule else paths).append(glob)
    if problems:
        raise BadAllowFile(problems)
    return SecretAllowList(
        fingerprints=frozenset(fingerprints),
        paths=Globs(tuple(paths)),
        by_rule=tuple((rule, Globs(tuple(globs))) for rule, globs in sorted(by_rule.items())),
    )


RULE_NAME = re.compile(r"[a-z0-9]+([-.][a-z0-9]+)*")


def _find_entry_problem(entry: str, glob: str, rule: str) -> str:
    if ":" in entry and rule not in RULE_DESCRIPTIONS and not rule.startswith("kingfisher."):
        return f"{entry!r} ends in no rule that we know; write path-glob:rule, with ? for a colon in the path"
    try:
        Globs((glob,))
    except BadPattern as error:
        return str(error)
    return ""
