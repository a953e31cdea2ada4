"""How a project words the first lines of its commits, found in its history, and a new line in the same style."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from blueflame.checks.postcheck import MAX_SUBJECT_LENGTH
from blueflame.lazy_dataclass import dataclass

CONVENTIONAL, COMPONENT, TICKET, PLAIN = "conventional", "component", "ticket", "plain"
TYPES = "feat fix docs chore refactor test tests perf build ci style revert deps"
FORMS: dict[str, re.Pattern[str]] = {
    CONVENTIONAL: re.compile(rf"(?P<type>{TYPES.replace(' ', '|')})(\((?P<scope>[^)]*)\))?!?: (?P<words>.+)"),
    TICKET: re.compile(r"(?P<open>\[?)(?P<ticket>[A-Z][A-Z0-9]+-\d+)(?P<close>\]?:? )(?P<words>.+)"),
    COMPONENT: re.compile(r"(?P<scope>[a-z][\w./-]*): (?P<words>.+)"),
    PLAIN: re.compile(r"(?P<words>.+)", re.DOTALL),
}
"""By the first of them that most commits have. Each has the words of the subject in the group `words`."""
IGNORED = re.compile(r"(Merge|Revert) |(fixup|squash|amend)! |Bump \S+ from |v?\d+(\.\d+)+\S*$")
TASK_SCOPE = re.compile(r"task-\d+")
TASK_IDS = re.compile(r"task-\d+(,\s*task-\d+)*")
TASK_PREFIX = re.compile(rf"\w+\({TASK_IDS.pattern}\)!?: ")
TICKET_ID = re.compile(r"\b[A-Z][A-Z0-9]+-\d+\b")
TYPE_OF_VERB = {
    "fix": "fix", "correct": "fix", "repair": "fix", "document": "docs", "explain": "docs", "describe": "docs",
    "test": "test", "refactor": "refactor", "rename": "refactor", "move": "refactor", "simplify": "refactor",
}  # fmt: skip
MAX_EXAMPLES = 3
MAX_EXAMPLE_CHARS = 100
SUBJECT_LENGTHS = (400, 100, 72, 50)  # tried one after the other: a pattern may limit the length


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStyle:
    kind: str = PLAIN
    scoped: bool = False  # conventional commits have a scope in brackets
    capital: bool = True  # the words begin with a capital letter
    period: bool = False  # they end with a period
    around: tuple[str, str] = ("", ": ")  # what is written around a ticket
    examples: tuple[str, ...] = ()  # the newest subjects in this style


PLAIN_STYLE = CommitStyle()


def detect_commit_style(subjects: Iterable[str]) -> CommitStyle:
    """Detect the style that most of the subjects have, newest first; merges, reverts and version bumps do not count."""
    own = [subject.strip() for subject in subjects if subject.strip() and not IGNORED.match(subject)]
    if not own:
        return PLAIN_STYLE
    matches = {kind: [match for subject in own if (match := form.fullmatch(subject))] for kind, form in FORMS.items()}
    kind, found = next((kind, found) for kind, found in matches.items() if _is_most(found, own))
    if kind == PLAIN:  # in a mixed history, a line without a prefix is written like the others without one
        prefixed = {match[0] for other, lines in matches.items() if other != PLAIN for match in lines}
        found = [match for match in found if match[0] not in prefixed] or found
    words = [match["words"] for match in found]
    lettered = [each for each in words if each[0].isalpha()]
    scopes = [match["scope"] or "" for match in found] if kind == CONVENTIONAL else []
    return CommitStyle(
        kind=kind,
        scoped=_is_most([scope for scope in scopes if scope and not TASK_SCOPE.match(scope)], own),
        capital=_is_most([each for each in lettered if each[0].isupper()], lettered) or not lettered,
        period=_is_most([each for each in words if each.endswith(".")], words),
        around=(found[0]["open"], found[0]["close"]) if kind == TICKET else ("", ": "),
        examples=tuple(match[0] for match in found if len(match[0]) <= MAX_EXAMPLE_CHARS)[:MAX_EXAMPLES],
    )


def _is_most(some: Sequence[object], every: Sequence[object]) -> bool:
    return bool(every) and len(some) * 5 >= len(every) * 3


def format_subject(style: CommitStyle, title: str, *, written: str = "", scope: str = "", ticket: str = "") -> str:
    """Write a title as the first line of a commit. `written` is an agent's own first line, which may have a type."""
    words = _fit_words(style, " ".join(title.split()).rstrip("."))
    return PREFIXES[style.kind](style, title, written, scope, ticket) + words


def _fit_words(style: CommitStyle, words: str) -> str:
    first, rest = words[:1], words[1:]
    # JWT, HttpClient, parse_lock: the letters of a name stay as they are
    is_name = rest[:1].isupper() or "_" in words.split(" ", maxsplit=1)[0]
    fitted = words if is_name else (first.upper() if style.capital else first.lower()) + rest
    return fitted + ("." if style.period else "")


def _build_type(style: CommitStyle, title: str, written: str, scope: str, _ticket: str) -> str:
    kind = find_type(written, title)
    return f"{kind}({scope}): " if style.scoped and scope else f"{kind}: "


def find_type(written: str, *titles: str) -> str:
    """The type of a conventional commit: as it is written, else by the verb of the first title that has one."""
    if found := FORMS[CONVENTIONAL].match(written):
        return found["type"]
    verbs = (title.split(" ", maxsplit=1)[0].lower() for title in titles)
    return next((TYPE_OF_VERB[verb] for verb in verbs if verb in TYPE_OF_VERB), "feat")


def _build_ticket(style: CommitStyle, _title: str, _written: str, _scope: str, ticket: str) -> str:
    return f"{style.around[0]}{ticket}{style.around[1]}" if ticket else ""


PREFIXES: dict[str, Callable[[CommitStyle, str, str, str, str], str]] = {
    CONVENTIONAL: _build_type,
    TICKET: _build_ticket,
    COMPONENT: lambda _style, _title, _written, scope, _ticket: f"{scope}: " if scope else "",
    PLAIN: lambda *_all: "",
}


def find_ticket(*texts: str) -> str:
    """Return the first ticket that one of the texts names, as ABC-123."""
    return next((found[0] for text in texts if (found := TICKET_ID.search(text))), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRule:
    """What the first lines of commits look like: as a pattern says where one is written, else as the project's do."""

    style: CommitStyle = PLAIN_STYLE
    pattern: str = ""
    example: str = ""  # of the pattern
    tasks: str = ""  # their ids, for patterns that ask for them
    title: str = ""  # for a commit without words
    written: str = ""  # an agent's own first line, which may have a type
    scope: str = ""
    ticket: str = ""

    def is_kept(self, subject: str) -> bool:
        if self.pattern:
            return len(subject) <= MAX_SUBJECT_LENGTH and re.search(self.pattern, subject) is not None
        in_style = FORMS[self.style.kind].fullmatch(subject) is not None and not TASK_PREFIX.match(subject)
        return in_style or IGNORED.match(subject) is not None


def reword_message(rule: SubjectRule, message: str) -> str:
    """Give a commit message a first line that keeps the rule, with the same words, or return it unchanged."""
    head, _, body = message.strip("\n").partition("\n\n")
    subject = " ".join(head.split())
    fitted = fit_subject(rule, subject)
    if fitted == subject:
        return message
    whole = _find_words(subject).rstrip(".").casefold()
    cut = () if whole in fitted.casefold() else (subject,)
    return "\n\n".join(part for part in (fitted, *cut, body) if part) + "\n"


def fit_subject(rule: SubjectRule, subject: str) -> str:
    """Return the subject, or the first rewording of it that keeps the rule; the same if none does."""
    if rule.is_kept(subject):
        return subject
    return next((each for each in _list_rewordings(rule, subject) if rule.is_kept(each)), subject)


def _list_rewordings(rule: SubjectRule, subject: str) -> Iterator[str]:
    words = _find_words(subject) or rule.title
    kind = find_type(rule.written or subject, words, rule.title)
    first = format_subject(rule.style, words, written=f"{kind}: {words}", scope=rule.scope, ticket=rule.ticket)
    plain = words.rstrip(".")
    cases = dict.fromkeys((words, plain, plain[:1].lower() + plain[1:], plain[:1].upper() + plain[1:]))
    starts = (f"{kind}({rule.tasks}): ", f"{kind}: ", f"{rule.ticket}: ", f"{rule.ticket} ", "", *_list_starts(rule))
    lines = (first, *(start + each for start in starts for each in cases))
    yield from (_shorten(line, length) for length in SUBJECT_LENGTHS for line in lines)


def _find_words(subject: str) -> str:
    """A subject without its type, component or ticket."""
    return next(found["words"] for form in FORMS.values() if (found := form.fullmatch(subject))) if subject else ""


def _list_starts(rule: SubjectRule) -> Iterator[str]:
    """How the example may begin, shortest first. A ticket of the example would be a false one."""
    example = TASK_IDS.sub(rule.tasks, rule.example)
    if TICKET_ID.search(example) and not rule.ticket:
        return
    example = TICKET_ID.sub(rule.ticket, example)
    yield from (example[: found.end()] for found in re.finditer(r"\s+", example))


def _shorten(line: str, length: int) -> str:
    return line if len(line) <= length else line[: length + 1].rsplit(" ", 1)[0][:length].rstrip(" .,:;")
