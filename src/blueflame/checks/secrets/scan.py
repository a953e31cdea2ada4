"""Find secrets in what a result adds, report them without their text, and respect the allow file.

Pure. A finding never has the secret itself: the journal, prompts and screens show its place and kind only.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from hashlib import sha256
from itertools import chain, groupby
from operator import attrgetter
from typing import Final, NamedTuple

from blueflame.checks.secrets.rules import CONFIG_FILE, TAIL, SecretRule, load_rules
from blueflame.lazy_dataclass import dataclass
from blueflame.model.changes import Commit
from blueflame.model.verdict import Violation
from blueflame.paths.globs import BadPattern, Globs

SENSITIVE_CONTENT: Final = "sensitive_content"
MAX_PIECE_CHARACTERS = 1_000_000  # searched at once
OVERLAP_LINES = 40  # searched again with the next piece: a key may be in both
MAX_FINDINGS = 100  # further ones are counted, not listed
PREVIEW_LENGTH = 4
FINGERPRINT = re.compile(r"[0-9a-f]{16}")


class AddedLine(NamedTuple):
    """A line that a commit adds to a file."""

    path: str
    number: int
    text: str
    commit: str = ""  # the commit that has it, if the result itself no longer has it


class Unscanned(NamedTuple):
    """A file that could not be scanned, and why: it does not pass."""

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
    """What a person declared not to be a secret: by fingerprint, by path, or by path and rule."""

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
    """All findings, before the allow list is applied."""

    findings: tuple[SecretFinding, ...] = ()
    unscanned: tuple[Unscanned, ...] = ()


def scan_lines(lines: Iterable[AddedLine | Unscanned], commits: Sequence[Commit] = ()) -> ScanResult:
    """Scan added lines, and the messages and authors of commits."""
    unscanned: list[Unscanned] = []
    findings: list[SecretFinding] = []
    for (path, commit), group in groupby(_separate_unscanned(lines, unscanned), key=attrgetter("path", "commit")):
        written = ((line.number, line.text) for line in group)
        findings += find_secrets(path, chain([(1, path)], written), commit=commit)  # the file's name lands as well
    for each in commits:
        findings += find_secrets(each.sha, enumerate([*each.message.split("\n"), each.author], start=1))
    return ScanResult(findings=tuple(findings), unscanned=tuple(unscanned))


def judge_findings(scanned: ScanResult, allowed: SecretAllowList) -> tuple[Violation, ...]:
    """Return violations; a secret in a file is reported once, at its first place: the result before its history."""
    found: dict[tuple[str, str], SecretFinding] = {}
    for finding in scanned.findings:
        if not allowed.covers(finding.rule, finding.path, finding.fingerprint):
            found.setdefault((finding.path, finding.fingerprint), finding)
    unread = [one for one in scanned.unscanned if not allowed.paths.matches(one.path)]
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
    about = next((rule.about for rule in load_rules().rules if rule.name == finding.rule), "secret")
    detail = f"{about} ({finding.preview}){gone}; rule {finding.rule}, fingerprint {finding.fingerprint}"
    return Violation(rule=SENSITIVE_CONTENT, path=finding.path, line=finding.line, detail=detail)


def _separate_unscanned(lines: Iterable[AddedLine | Unscanned], unscanned: list[Unscanned]) -> Iterator[AddedLine]:
    for line in lines:
        if isinstance(line, Unscanned):
            unscanned.append(line)
        else:
            yield line


# --- searching lines


def find_secrets(path: str, lines: Iterable[tuple[int, str]], *, commit: str = "") -> tuple[SecretFinding, ...]:
    """Return the secrets in lines of one file, in their order; each secret once."""
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
    """Yield line numbers and lines in pieces that can be searched without much memory."""
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
    """Return the short lines at the end; a long line was searched whole, and searching it again would take too long."""
    keep = 0
    while keep < min(OVERLAP_LINES, len(texts) - 1) and len(texts[-keep - 1]) < 1000:
        keep += 1
    return (numbers[-keep:], texts[-keep:]) if keep else ([], [])


def _find_spans(text: str, config: bool) -> list[tuple[int, SecretRule, str]]:
    """Return where secrets begin; if rules match the same text, the more specific one."""
    ranks = load_rules().ranks
    candidates = sorted(
        ((match, rule) for match, rule in _find_matches(text, config) if rule.check(match)),
        key=lambda one: ranks[one[1].name],
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
    folded, table = _lower_in_place(text), load_rules()
    for (anchor, fold), rules in table.anchors.items():
        tried = [rule for rule in rules if config or not rule.config_only]
        for at in _find_anchor(folded if fold else text, anchor):
            for rule in tried:
                if match := rule.pattern.match(text, at):
                    yield match, rule
    endings = tuple(sorted(table.prefixes))
    longest = max(map(len, endings))
    for tail in TAIL.finditer(text):
        end = tail.start() + 1
        before = text[max(0, end - longest) : end]
        for prefix in endings if before.endswith(endings) else ():
            if before.endswith(prefix) and (match := table.prefixes[prefix].pattern.match(text, end - len(prefix))):
                yield match, table.prefixes[prefix]


def _find_anchor(text: str, anchor: str) -> Iterator[int]:
    at = text.find(anchor)
    while at >= 0:
        yield at
        at = text.find(anchor, at + len(anchor))


def _lower_in_place(text: str) -> str:
    """Convert to lower case, keeping the length: the lower case of a few letters has two characters."""
    small = text.lower()
    return small if len(small) == len(text) else "".join(c if len(c.lower()) != 1 else c.lower() for c in text)


# --- the allow file


class BadAllowFile(ValueError):
    """Invalid lines of an allow file; `problems` has one entry for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def parse_allow_file(text: str) -> SecretAllowList:
    """Parse `fingerprint`, `path-glob` or `path-glob:rule`, one on a line; `#` begins a comment. Raise BadAllowFile."""
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


def _find_entry_problem(entry: str, glob: str, rule: str) -> str:
    if ":" in entry and rule not in load_rules().ranks and not rule.startswith("kingfisher."):
        return f"{entry!r} does not end in a known rule; write path-glob:rule, with ? for a colon in the path"
    try:
        Globs((glob,))
    except BadPattern as error:
        return str(error)
    return ""
