"""The words of requests that say something about their size. English: in other languages only names count."""

from __future__ import annotations

import re
from collections.abc import Mapping

from blueflame.lazy_pattern import compile_later

_VERBS = (
    "accept add adjust allow apply build bump bundle cache change convert correct create cut decouple delete deprecate "
    "design develop disable display drop enable export expose extend extract fix generate give handle hide implement "
    "import improve increase integrate introduce invent let limit load log lower make merge migrate modernise "
    "modernize move normalise normalize offer optimise optimize overhaul parse port prevent print provide publish "
    "raise redesign reduce refactor reject remove rename reorganise reorganize repair replace report restructure "
    "return reuse rewrite round save send set ship show simplify sort speed split stop store support switch sync track "
    "translate trim turn unify update upgrade use validate wire wrap write"
)
VERBS = frozenset(_VERBS.split())
"""What a demand begins with. Testing, documenting and checking accompany one."""

ACCOMPANYING = compile_later(
    r"(?:add|write|create|update|extend|adjust|fix)\s+(?:(?:a|an|the|some|its|unit|regression|matching|missing|new)\s+)*"
    r"(?:tests?|unit tests?|test cases?|docs|documentation|docstrings?|changelog|release notes?)\b",
    re.IGNORECASE,
)

_KINDS = (
    "files|modules|packages|services|endpoints|handlers|components|pages|tests|classes|commands|controllers|models|"
    "views|screens|routes|layers|places|callers|functions|repositories|queries|strings|templates|call sites|usages"
)
WIDE = compile_later(
    r"\b(everywhere|throughout|across|end[- ]to[- ]end|full[- ]stack|from scratch|code ?base[- ]wide|"
    rf"(?:all|every|each)(?: of)?(?: (?:the|our|its))?(?: [\w./-]+){{0,2}} (?:{_KINDS}|"
    r"file|module|package|service|endpoint|handler|component|page|class|command|controller|model|view|screen|route)|"
    r"(?:the )?(?:whole|entire)(?: \w+)? ?(?:code ?base|project|repo(?:sitory)?|app(?:lication)?|system|stack|site))\b",
    re.IGNORECASE,
)

STRUCTURAL = compile_later(
    r"\b(migrat(?:e|ion) (?:\S+ ){0,6}?(?:to|from|off)|"
    r"port (?!in |of |to |from |number|for |on )(?:\S+ ){1,6}?to|rewrite|re-?design|re-?architect|"
    r"restructure|moderni[sz]e|overhaul|decouple|re-?organi[sz]e|split (?:\S+ ){1,6}?into|break (?:\S+ ){1,6}?into|"
    r"refactor|convert (?:\S+ ){1,6}?(?:to|into)|upgrade (?:\S+ ){1,6}?to|switch (?:\S+ ){0,6}?(?:from|to)|"
    r"move (?:\S+ ){1,6}?(?:off|away from))\b",
    re.IGNORECASE,
)

PRODUCT = compile_later(
    r"\b(?:build|create|implement|develop|write|make|introduce|design|add)\s+(?:me\s+)?(?:an?|the|our|my)\s+"
    r"(?:[\w-]+\s+){0,4}?(app|application|web ?site|game|platform|dashboard|admin panel|plugin system|compiler|"
    r"web ?shop|marketplace|microservices?|portal|workflow engine|notification system)\b",
    re.IGNORECASE,
)

_VALUES = (
    "version|timeout|limit|default|constant|port|number|url|link|links|colou?r|title|label|year|copyright|log level|"
    "threshold|caption|placeholder|message|text|wording|heading|headline|value|name|email|address|date|date format"
)
SMALL: Mapping[str, re.Pattern[str]] = {
    "a typo": compile_later(
        r"\b(?:typos?|spelling|miss?-?spell(?:ed|ing|t)|grammar|re-?word|rephrase)\b", re.IGNORECASE
    ),
    "one value": compile_later(
        rf"\b(?:bump|raise|lower|increase|decrease|reduce|set|change|update|correct|fix)\b(?:\s+\S+){{0,5}}?\s+(?:{_VALUES})\b",
        re.IGNORECASE,
    ),
    "one value for another": compile_later(
        r"\b(?:bump|raise|lower|increase|decrease|set|change|replace|update)\b[^.;\n]{1,80}?\b(?:from\b[^.;\n]{1,40}\bto|to|with)\s+"
        r"[`'\"]?v?\d[\w.]*",
        re.IGNORECASE,
    ),
    "a removal": compile_later(
        r"\b(?:remove|delete|drop)\b(?:\s+\S+){0,3}?\s+(?:unused|dead|stray|debug|commented[- ]out|trailing|obsolete|"
        r"leftover|duplicate|redundant)\b",
        re.IGNORECASE,
    ),
    "a note in the code": compile_later(
        r"\b(?:add|fix|correct|update|remove)\b(?:\s+\S+){0,3}?\s+(?:docstring|comment|newline|licen[cs]e header|badge|"
        r"type hints?|type annotations?|whitespace|indentation|import|semicolon|trailing comma)\b",
        re.IGNORECASE,
    ),
    "a line": compile_later(r"\badd\b(?:\s+\S+){1,5}?\s+to\s+(?:the\s+)?\S*ignore\b", re.IGNORECASE),
    "a new name": compile_later(
        r"\brename\b(?:\s+\S+){0,2}?\s+(?:local\s+)?(?:variable|parameter|argument|constant|heading|title|label)\b",
        re.IGNORECASE,
    ),
}
"""Obvious changes, and what to call them."""

RENAMING = compile_later(r"\b(?:rename|replace all|replace every|search and replace)\b", re.IGNORECASE)

VAGUE = compile_later(
    r"\b(improv\w+|better|nicer|cleaner|clean(?:ing)?[ -]?up|tidy(?: up)?|optimi[sz]\w*|performance|faster|speed up|"
    r"slow|robust\w*|investigate|look into|figure out|find out|explore|somehow|something|flaky|sometimes|"
    r"intermittent\w*|randomly|leak\w*|race condition|deadlock\w*|polish|quality|maintainab\w*|scalab\w*|"
    r"production[- ]ready|user[- ]friendl\w*|and so on|etc|whatever|maybe|should we|what about|why)\b",
    re.IGNORECASE,
)

FIXING = compile_later(
    r"\b(fix(?:es|ed)?|bug|crash(?:es|ed|ing)?|fails?|failing|failure|traceback|exception|regression|broken|"
    r"wrong(?:ly)?|incorrect(?:ly)?|instead of|off[- ]by[- ]one|does not|doesn'?t|cannot|can'?t)\b",
    re.IGNORECASE,
)

ADDITION = compile_later(
    r"\b(?:add|support|accept|allow|expose|return|print|log|show|display|validate|reject|raise|write|implement|give|"
    r"create|provide|introduce)\b(?:\s+\S+){0,5}?\s+(options?|flags?|switch|parameter|argument|field|column|property|"
    r"attribute|method|function|helper|tests?|test case|endpoint|route|subcommand|environment variable|env var|"
    r"setting|header|validation|log line|log message|button|tooltip|link|index|alias|shortcut|metric|example|"
    r"section|paragraph)\b",
    re.IGNORECASE,
)

DOMAINS: Mapping[str, re.Pattern[str]] = {
    name: compile_later(rf"\b(?:{words})\b", re.IGNORECASE)
    for name, words in {
        "frontend": r"front-?end|ui|user interface|pages?|react|vue|svelte|angular|css|screens?|"
        r"buttons?|web client|forms?|web app|tab",
        "backend": r"back-?end|apis?|endpoints?|servers?|services?|routes?|handlers?|workers?|queues?|controllers?",
        "database": r"databases?|db|schemas?|migrations?|tables?|sql|postgres(?:ql)?|mysql|mongodb|sqlite|columns?",
        "command line": r"cli|command[- ]line|subcommands?",
        "operations": r"ci|pipelines?|docker\w*|kubernetes|k8s|deploy\w*|terraform|helm|github actions?",
        "mobile": r"ios|android|mobile",
    }.items()
}
"""Parts that different people usually work on."""
