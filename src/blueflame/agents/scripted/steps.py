"""The steps of a script as a person writes them, read into what the player takes."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from blueflame.agents.scripted.behaviours import CHARACTERS, NOTE, Step

ROGUE = "rogue"
ACTS = ("write", "append", "delete", "mkdir", "note", "run", "commit", "answer")
MARKED = (*ACTS, "plan", "verdict", "play")
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class Wrong(Exception):
    """A step is not in a form we know; the message says what would be right."""


def read_step(item: object) -> Step:
    """`{verb: argument}`, perhaps with a mark beside it, or a bare verb that needs no argument. Raises Wrong."""
    if isinstance(item, str):
        item = {item: None}
    verbs = [name for name in item if name != ROGUE] if isinstance(item, Mapping) else []
    if not isinstance(item, Mapping) or len(verbs) != 1:
        raise Wrong("a step is written `verb: argument`, one verb each, like `say: hello`")
    verb = verbs[0]
    if verb not in VERBS:
        raise Wrong(f"unknown step {verb!r}{suggestion(str(verb), VERBS)}; the steps are {', '.join(VERBS)}")
    return {**VERBS[verb](item[verb]), **_mark(verb, item)}


def rogue(step: Step, mark: object) -> Step:
    """The step as somebody would do it who does not obey; what does not act cannot be refused either."""
    return {**step, ROGUE: mark} if step["do"] in ACTS else step


def _mark(verb: str, item: Mapping[str, Any]) -> Step:
    if ROGUE not in item or item[ROGUE] is False:
        return {}
    if item[ROGUE] is not True and item[ROGUE] not in ("unasked", "hidden"):
        raise Wrong(f"rogue: {item[ROGUE]!r} is neither true nor false nor unasked nor hidden")
    if verb not in MARKED:
        raise Wrong(f"rogue: {verb} asks nobody; only these steps can be marked: {', '.join(MARKED)}")
    return {ROGUE: item[ROGUE]}


def suggestion(word: str, known: Any) -> str:  # noqa: ANN401 (any iterable of names)
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _write(argument: object) -> Step:
    given = _fields(argument, "write", "path", "text", "lines", "executable")
    return {
        "do": "write",
        "path": _path(given, "write"),
        "text": _text(given, "write"),
        "executable": _flag(given, "executable"),
    }


def _append(argument: object) -> Step:
    given = _fields(argument, "append", "path", "text", "lines")
    return {"do": "append", "path": _path(given, "append"), "text": _text(given, "append")}


def _delete(argument: object) -> Step:
    return {"do": "delete", "paths": _names(argument, "delete: a path, or a list of paths")}


def _mkdir(argument: object) -> Step:
    return {"do": "mkdir", "path": _one_text(argument, "mkdir: a path")}


def _note(argument: object) -> Step:
    text = (
        "{title} ({task}, attempt {attempt})" if argument is None else _one_text(argument, "note: a text, or nothing")
    )
    return {"do": "note", "text": text, "file": NOTE}


def _run(argument: object) -> Step:
    given = _fields({"command": argument} if isinstance(argument, str) else argument, "run", *RUN)
    command = _one_text(given.get("command"), "run: a command for the shell")
    return {
        "do": "run",
        "command": command,
        "allow_failure": _flag(given, "allow_failure"),
        "timeout": _number(given.get("timeout", 0), "run.timeout: seconds"),
    }


def _commit(argument: object) -> Step:
    given = _fields({"message": argument} if isinstance(argument, str) else argument, "commit", *COMMIT)
    paths = _names(given["paths"], "commit.paths: a list of paths") if "paths" in given else []
    message = _one_text(given.get("message"), "commit: a message, like `feat({task}): what was done`")
    return {"do": "commit", "message": message, "paths": paths, "allow_empty": _flag(given, "allow_empty")}


def _say(argument: object) -> Step:
    return {"do": "say", "text": _one_text(argument, "say: a text")}


def _sleep(argument: object) -> Step:
    given = _fields(argument if isinstance(argument, Mapping) else {"seconds": argument}, "sleep", *SLEEP)
    seconds = given.get("seconds")
    length = -1.0 if seconds == "forever" else _number(seconds, "sleep: seconds, or forever")
    return {"do": "sleep", "seconds": length, "ignore_term": _flag(given, "ignore_term")}


def _usage(argument: object) -> Step:
    given = _fields(argument, "usage", *TOKENS, "cost_usd")
    for name in TOKENS:
        if name in given and (not isinstance(given[name], int) or isinstance(given[name], bool) or given[name] < 0):
            raise Wrong(f"usage.{name}: {given[name]!r} is not a number of tokens (a whole number, 0 or more)")
    if "cost_usd" in given:
        _number(given["cost_usd"], "usage.cost_usd: dollars")
    return {"do": "usage", **given}


def _plan(argument: object) -> Step:
    plan = {"tasks": argument} if isinstance(argument, list) else argument
    if not isinstance(plan, Mapping) or not isinstance(plan.get("tasks"), list):
        raise Wrong("plan: a list of tasks, or a mapping with `tasks`; for a broken plan use `answer`")
    return {"do": "answer", "output": plan}


def _verdict(argument: object) -> Step:
    given = {"status": argument} if isinstance(argument, str) else argument
    given = _fields(given, "verdict", "status", "notes", "issues", "confidence")
    if given.get("status") not in ("pass", "fail"):
        raise Wrong(f"verdict: {given.get('status')!r} is neither pass nor fail; for a broken verdict use `answer`")
    words = {"pass": "does what the task asks", "fail": "does not do what the task asks"}
    return {"do": "answer", "output": {"notes": words[given["status"]], "issues": [], **given}}


def _answer(argument: object) -> Step:
    """Whatever stands there: also what no planner or reviewer should answer."""
    return {"do": "answer", "output": argument}


def _exit(argument: object) -> Step:
    if isinstance(argument, Mapping):
        given = _fields(argument, "exit", "code", "signal")
        if "signal" in given:
            return {"do": "exit", "signal": _signal(given["signal"])}
        argument = given.get("code")
    code = 0 if argument is None else argument
    if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code <= 255:
        raise Wrong(f"exit: {code!r} is not an exit code (0 to 255) and not {{signal: NAME}}")
    return {"do": "exit", "code": code}


def _signal(name: object) -> int:
    known = {number.name.removeprefix("SIG"): int(number) for number in signal.Signals}
    bare = str(name).upper().removeprefix("SIG")
    if bare not in known:
        raise Wrong(f"exit.signal: {name!r} is no signal{suggestion(bare, known)}")
    return known[bare]


def _expect(argument: object) -> Step:
    given = _fields(argument, "expect", "path", "contains", "lacks", "prompt", "prompt_lacks")
    about_prompt = {"prompt": "contains", "prompt_lacks": "lacks"}
    if not given or ("path" in given) == bool(about_prompt.keys() & given.keys()):
        raise Wrong("expect: `path` with `contains` or `lacks`, or else `prompt` or `prompt_lacks`")
    if "path" in given and not {"contains", "lacks"} & given.keys():
        raise Wrong("expect: say what the file `contains` or `lacks`")
    texts = {name: _one_text(value, f"expect.{name}: a text") for name, value in given.items()}
    return {"do": "expect", **{about_prompt.get(name, name): text for name, text in texts.items()}}


def _flood(argument: object) -> Step:
    return {"do": "flood", "megabytes": _number(argument, "flood: megabytes of output")}


def _play(argument: object) -> Step:
    if not isinstance(argument, str) or argument not in CHARACTERS:
        hint = suggestion(str(argument), CHARACTERS)
        raise Wrong(f"play: {argument!r} is no character{hint}; the characters are {', '.join(CHARACTERS)}")
    return {"do": "play", "character": argument}


RUN = ("command", "allow_failure", "timeout")
COMMIT = ("message", "paths", "allow_empty")
SLEEP = ("seconds", "ignore_term")
VERBS: Mapping[str, Callable[[object], Step]] = {
    "write": _write,
    "append": _append,
    "delete": _delete,
    "mkdir": _mkdir,
    "note": _note,
    "run": _run,
    "commit": _commit,
    "say": _say,
    "sleep": _sleep,
    "usage": _usage,
    "plan": _plan,
    "verdict": _verdict,
    "answer": _answer,
    "expect": _expect,
    "flood": _flood,
    "exit": _exit,
    "play": _play,
}


def _fields(argument: object, verb: str, *known: str) -> dict[str, Any]:
    if not isinstance(argument, Mapping):
        raise Wrong(f"{verb}: expected a mapping with {', '.join(known)}, not {argument!r:.60}")
    for name in argument:
        if name not in known:
            raise Wrong(f"{verb}: unknown key {name!r}{suggestion(str(name), known)}; the keys are {', '.join(known)}")
    return dict(argument)


def _path(given: Mapping[str, Any], verb: str) -> str:
    return _one_text(given.get("path"), f"{verb}.path: a path")


def _text(given: Mapping[str, Any], verb: str) -> str:
    if ("text" in given) == ("lines" in given):
        raise Wrong(f"{verb}: give either `text` or `lines`")
    if "text" in given:
        if not isinstance(given["text"], str):
            raise Wrong(f"{verb}.text: expected a text, not {given['text']!r:.60}; put it in quotes")
        return given["text"]
    lines = given["lines"]
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise Wrong(f"{verb}.lines: expected a list of texts")
    return "".join(f"{line}\n" for line in lines)


def _one_text(value: object, expected: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise Wrong(f"{expected}; found {value!r:.60}")
    return value


def _names(value: object, expected: str) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise Wrong(f"{expected}; found {value!r:.60}")
    return [_one_text(name, expected) for name in names]


def _number(value: object, expected: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise Wrong(f"{expected}; {value!r} is not a number of 0 or more")
    return value


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise Wrong(f"{name}: {value!r} is neither true nor false")
    return value
