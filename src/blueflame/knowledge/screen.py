"""Refuse entries that are no lessons: instructions to a model, secrets, paths outside, commands, hidden text.

For text of agents, imports and mirrors; a person's own words are not screened. It is no wall: what passes still reaches
a model only as data. It keeps the files readable, and a poisoned memory from spreading from session to session.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from blueflame.checks.secrets.entropy import HEX, is_random
from blueflame.checks.secrets.scan import find_secrets
from blueflame.lazy_dataclass import dataclass
from blueflame.lazy_pattern import compile_later
from blueflame.model.memory import Lesson
from blueflame.text.sanitize import shorten_line

MAX_ENTRY_CHARS = 1_200  # longer ones are cut
MAX_READ_CHARS = 10_000  # longer ones are refused unread
MAX_SUBJECT = 40  # paths and symbols
INVISIBLE = compile_later("[\xad\u180e\u200b-\u200f\u2060-\u2064\ufeff\ufe00-\ufe0e]")
HIDDEN = compile_later(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u206f\U000e0000-\U000e007f\ufff9-\ufffb]"
)
LOOKALIKES = str.maketrans("аеорсухіѕјԁԛԝһоαεοιρτυκνАВЕКМНОРСТХІЅ", "aeopcyxisjdqwhoaeoiptukvabekmhopctxis")
MARKS = compile_later("[*_`~\"'\u2018-\u201f]+")


class Rule(NamedTuple):
    name: str
    reason: str
    pattern: re.Pattern[str]


def _rule(name: str, reason: str, *patterns: str) -> Rule:
    return Rule(name, reason, compile_later("|".join(f"(?:{each})" for each in patterns)))


_AI = r"(?:ai|llm|language model|chatbot|claude|gpt|gemini|copilot|codex)(?: (?:model|agent|assistant))?s?"
_ORDERS = r"(?:instruction|guideline|directive|guardrail|system prompt|system message|safety (?:rule|polic|check))s?"
_EARLIER = r"(?:previous|prior|earlier|preceding|above|foregoing|your|system|safety)"
_SECRETS = r"(?:(?:api|secret|ssh|private) keys?|credentials|passwords|environment variables|env vars|\.env\b)"
_UNLESS_FORBIDDEN = r"(?<!not )(?<!dont )(?<!never )(?<!must )"  # "never send credentials" is a lesson

# On text in lower case, on one line, without quotes and emphasis, with look-alike letters replaced.
RULES = (
    _rule(
        "instruction",
        "it reads like an instruction to a model",
        rf"\b(?:ignore|disregard|forget|override|bypass|discard|do not follow|stop following)\b[^.]{{0,40}}"
        rf"(?:\b(?:all|any)\b[^.]{{0,25}}\b{_ORDERS}|\b{_EARLIER}\b[^.]{{0,25}}\b(?:{_ORDERS}|rules?|prompt)\b"
        rf"|\b{_ORDERS} (?:above|before|so far|given|you))",
        r"\b(?:new|updated|real|actual) (?:system )?instructions?\s*:",
        r"\byou are (?:now|no longer|in (?:developer|dan|god|admin) mode)\b|\b(?:dan|god) mode (?:on|enabled)\b",
        r"\byou(?: are|re) (?:an? )?(?:unrestricted|jailbroken|evil)\b|\bpretend (?:to be|that you|you)\b",
        r"\bfrom now on,? (?:you|act|answer|respond|always|ignore)\b",
        r"\b(?:act|behave|respond|answer) as (?:if you|an? (?:unrestricted|admin|root|system|different))\b",
        r"\b(?:reveal|print|repeat|output|show|leak|send|disclose|post)\b[^.]{0,30}\b"
        r"(?:your (?:system )?prompt|your instructions)\b",
        rf"\b{_UNLESS_FORBIDDEN}(?:reveal|leak|disclose|exfiltrate|upload|send)\b[^.]{{0,30}}{_SECRETS}",
        rf"\b(?:note|message|attention|important|instructions?) (?:to|for) (?:the |all |any )?{_AI}\s*[:,!]",
        rf"\b(?:as an?|dear|hey|any|every|all) {_AI}(?: that| who)?(?: reads?| reading| must| should| shall|,)",
        rf"\b(?:{_AI}|(?:validator|reviewer|judge)s?) (?:must|should|shall|has to|will) "
        r"(?:always |now |immediately |silently )?(?:approve|accept) ",
        r"\b(?:do not|dont|never) tell (?:the )?(?:user|person|human|operator|reviewer)\b",
        r"\bwithout (?:asking|telling|informing|notifying) (?:the |a )?(?:person|human|operator|reviewer)\b",
        r"\b(?:always|automatically|silently|just) (?:approve|accept|merge|land) (?:all|any|every|this|the)\b",
        r"\b(?:answer|return|give|vote|set|mark)\b[^.]{0,25}\bverdict\b[^.]{0,12}\bpass\b",
        rf"\b{_UNLESS_FORBIDDEN}(?:disable|turn off|switch off|circumvent|escape)\b (?:the )?"
        r"(?:sandbox|watcher|gateway|postcheck|guardrails)(?=[.,;!]|$| (?:before|when|to|first|and|for|so|during)\b)",
    ),
    _rule(
        "role",
        "it has the marker of a role in a conversation",
        r"<\|[a-z_ ]{1,40}\|>|\[/?inst\]|<</?sys>>|</user>",
        r"</?(?:system|assistant|human|developer|instructions?)(?:-[a-z]+)?\s*/?>",
        r"(?:^|[.!?:;\n] *|\n)#* *(?:system|assistant|human|developer) ?(?:prompt|message)?: ",
        r"(?:^|\s)#{2,6} *(?:system|instructions?|assistant|human|new task)\b",
        r"\b(?:begin|start|end) (?:of )?(?:system|assistant|developer) (?:prompt|message|instructions?)\b",
        r"role: ?(?:system|assistant|developer)\b",
    ),
    _rule(
        "tool-call",
        "it has the form of a tool call",
        r"</?(?:antml:)?(?:function_?calls?|functioncalls?|invoke|tool_?use|tool_?calls?|tool_?result|toolcall|tooluse|parameter)\b",
        r"\b(?:tool_?calls?|function_?call|tool_?use|toolcalls?|functioncall|tooluse): ?[\[{]",
        r"type: ?(?:tool_?use\b|function,? ?(?:name|function): ?)",
        r"\{ ?name: ?[\w.]+, ?(?:input|arguments|parameters): ?\{",
        r"\b(?:use|call|invoke) (?:the |your )?(?:bash|write|edit|shell|web_?fetch|webfetch|task|computer) tool\b",
    ),
    _rule(
        "command",
        "it has a command that fetches or destroys",
        r"\b(?:curl|wget|fetch|iwr|invoke-webrequest)\b[^|;&]{0,200}\|\s*(?:sudo )?(?:\w*sh|python3?|perl|node|ruby)\b",
        r"\b(?:curl|wget)\b[^|;&]{0,80}?\b(?:https?|ftp)://(?!localhost|127\.|0\.0\.0\.0|\[::1\])",
        r"\b(?:ba|z|da)?sh (?:-c )?<\(|\beval ?[\"$(]+ ?(?:curl|wget|base64)|\$\((?:curl|wget)\b",
        r"\brm -(?:rf|fr|r -f|f -r)\w* +(?:--no-preserve-root +)?(?:/|\$\w*|\.\.|\*)(?!\w)",
        r"\b(?:base64|openssl|xxd)\b[^|]{0,30} -(?:d|r|-decode)\b[^|]{0,60}\|",
        r"/dev/(?:tcp|udp)/|\b(?:nc|ncat|netcat)\b .{0,40}-\w*[ec]\b|\bmkfs\.?\w* /dev|\bdd if=\S+ of=/dev",
        r":\(\) ?\{|\bchmod (?:-r )?777 /",
        r"\bpowershell\b[^.]{0,40}-e(?:nc|ncodedcommand)?\b|\biex ?\(",
        r"\bpython3? -c [^.]{0,40}\b(?:exec|eval|b64decode|socket|urlopen)\b",
        r"\b(?:pip|npm|gem|cargo|go) (?:install|i|get)\b[^.]{0,40}\b(?:git\+)?https?://",
        r"\bgit (?:push|remote add|config)\b[^.]{0,60}(?:https?://|core\.?(?:hookspath|fsmonitor|sshcommand))",
    ),
    _rule(
        "outside-path",
        "it names a path outside of the repository",
        r"(?:^|[\s(=:<>,\[|])/(?:etc|root|home|proc|sys|boot|var/(?:run|lib|spool|log|mail))/",
        r"(?:^|[\s(=:<>,\[|])/dev/(?:k?mem|sd[a-z]|nvme\w+|disk)\b",
        r"(?:\.\.[/\\]){3}|\.\.%2f|%2e%2e|file://|\b[a-z]:\\(?:users|windows)\b",
        r"\$\{?(?:home|userprofile|appdata|xdg\w+)\}?[/\\]",
        r"(?:^|[\s(=:,])/(?:[a-z]+/)*\.(?:ssh|aws|gnupg|kube|docker|netrc|npmrc|pypirc|bashrc|zshrc|profile|config)\b",
    ),
    _rule(
        "delimiter",
        "it has a delimiter of prompts",
        r"[-=#<>~]{3} ?(?:begin|start|end)(?: of)? "
        r"(?:data|memory|context|prompt|document|user|input|file|notes|lessons|prior)\b",
        r"</(?:data|context|memory|documents?)>|</?(?:untrusted|lessons?|knowledge|prior-context|system-reminder)[ >/]",
        r"<!--",
        r"\b(?:end|begin)[ -]?(?:of[ -])?data[ -][0-9a-f]{8,}",
    ),
    _rule(
        "markup",
        "it has markup that loads or runs something",
        r"!\[[^\]]{0,100}\]\( ?(?:https?:|//|data:)|\]\( ?(?:javascript|data|vbscript):",
        r"<(?:img|script|iframe|object|embed|svg|link|style|video|audio|form|meta|base|a)\b[^>]{0,200}(?:src|href|on\w+|action|rel|>)",
        r"\bdata:[\w/+.-]{1,60};base64,",
        r"\b(?:https?|ftp)://[^\s/@:]{1,100}:[^\s/@]{1,100}@",
    ),
)
QUOTABLE = ("command", "outside-path", "blob")
PRIVATE_KEY = compile_later(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY")
HOME = compile_later(r"(?:^|[\s(=:,\"`'])~\w*/\.|(?:^|[\s(=:,])(?:~\w*/\w|/Users/\w)")  # '~/x' in quotes: an alias
BLOB = compile_later(r"[A-Za-z0-9+/_-]{48,}={0,2}|(?:[A-Za-z0-9+/]{20,}={0,2}\s+){2,}[A-Za-z0-9+/]{16,}={0,2}")
LONG_HEX = compile_later(
    r"[0-9a-fA-F]{130,}|(?:\\x[0-9a-fA-F]{2}){6,}|(?:\\u[0-9a-fA-F]{4}){6,}|(?:&#x?[0-9a-fA-F]+;){6,}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a text is no lesson. It has no part of the text: a screen that shows it would spread it."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    text: str
    cut: bool = False  # some of it was left out


def screen_text(text: str, longest: int = MAX_ENTRY_CHARS, *, quotes: bool = False) -> Passed | Refusal:
    """Return the text on one clean line, or why it is refused; one that quotes output may have commands and paths."""
    if len(text) > MAX_READ_CHARS:
        return Refusal(rule="size", reason=f"it has {len(text):,} characters, at most {MAX_READ_CHARS:,} are read")
    if HIDDEN.search(text):
        return Refusal(rule="hidden", reason="it has characters that hide or reorder text")
    visible = INVISIBLE.sub("", text)
    if not visible.strip():
        return Refusal(rule="empty", reason="it has no words")
    refusal = next((each for each in _find_refusals(visible) if not quotes or each.rule not in QUOTABLE), None)
    if refusal is not None:
        return refusal
    line = shorten_line(visible, longest)
    return Passed(text=line, cut=visible != text or len(" ".join(visible.split())) > longest)


def _find_refusals(text: str) -> Iterator[Refusal]:
    folded = _fold(text)
    for rule in RULES:
        if rule.pattern.search(folded):
            yield Refusal(rule=rule.name, reason=rule.reason)
    if HOME.search(text):
        yield Refusal(rule="outside-path", reason="it names a path outside of the repository")
    if LONG_HEX.search(text) or any(map(_is_blob, BLOB.findall(text))):
        yield Refusal(rule="blob", reason="it has encoded data, which a person cannot read")
    if PRIVATE_KEY.search(text) or find_secrets("lesson", enumerate(text.splitlines(), start=1)):
        yield Refusal(rule="credential", reason="it looks like a secret")


def _fold(text: str) -> str:
    """What a model would read it as: one line, lower case, without quotes and emphasis, look-alikes replaced."""
    plain = unicodedata.normalize("NFKC", text).casefold().translate(LOOKALIKES)
    return " ".join(MARKS.sub("", plain).split())


def _is_blob(found: str) -> bool:
    parts = [part for part in found.split() if not HEX.fullmatch(part)]
    return len("".join(parts)) >= 48 and is_random("".join(parts))


def screen_lesson(lesson: Lesson) -> Lesson | Refusal:
    """Return the lesson with its text on one clean line, or why it is refused: its words, or its subject."""
    passed = screen_text(lesson.text)
    if isinstance(passed, Refusal):
        return passed
    subject = (*lesson.origin.files[:MAX_SUBJECT], *lesson.symbols[:MAX_SUBJECT], lesson.domain)
    if any(map(_is_outside, (*lesson.origin.files, lesson.domain))):
        return Refusal(rule="outside-path", reason="its subject is a path outside of the repository")
    named = screen_text("\n".join(subject)) if any(subject) else None
    if isinstance(named, Refusal):
        return replace(named, reason=f"in its subject {named.reason}")
    origin = replace(lesson.origin, files=tuple(shorten_line(path, 200) for path in lesson.origin.files[:MAX_SUBJECT]))
    symbols = tuple(shorten_line(symbol, 200) for symbol in lesson.symbols[:MAX_SUBJECT])
    return replace(lesson, text=passed.text, origin=origin, symbols=symbols)


def drop_poisoned_subject(lesson: Lesson) -> Lesson:
    """A person's words stay; what they are about was named by agents."""
    files = tuple(path for path in lesson.origin.files if is_clean(path) and not _is_outside(path))
    return lesson if files == lesson.origin.files else replace(lesson, origin=replace(lesson.origin, files=files))


def is_clean(text: str) -> bool:
    """Whether words of an agent may stand beside those of a person."""
    return isinstance(screen_text(text), Passed)


def _is_outside(path: str) -> bool:
    parts = path.replace("\\", "/").split("/")
    return path.startswith(("/", "~", "\\")) or ".." in parts or "://" in path or path[1:2] == ":"
