"""Read the steps of a script, as people write them, into those that the player takes."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Mapping
from typing import Any

from blueflame.agents.scripted.behaviours import BEHAVIOURS, NOTE_FILE, Step
from blueflame.model.schemas import VERDICT_SCHEMA
from blueflame.model.suggestions import suggest

ROGUE = "rogue"
ACTING_STEPS = ("write", "append", "delete", "mkdir", "note", "run", "commit", "ask", "answer")
MARKABLE_STEPS = (*ACTING_STEPS, "plan", "verdict", "play")
TOKEN_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class StepError(Exception):
    """A step is malformed; the message says what would be right."""


def read_step(item: object) -> Step:
    """Read `{verb: argument}`, also with a `rogue` mark, or a verb alone that needs no argument. Raises StepError."""
    if isinstance(item, str):
        item = {item: None}
    verbs = [name for name in item if name != ROGUE] if isinstance(item, Mapping) else []
    if not isinstance(item, Mapping) or len(verbs) != 1:
        raise StepError("a step is written `verb: argument`, one verb each, like `say: hello`")
    verb = verbs[0]
    if verb not in STEP_READERS:
        hint = suggest(str(verb), STEP_READERS, before="; ")
        raise StepError(f"unknown step {verb!r}{hint}; the steps are {', '.join(STEP_READERS)}")
    return {**STEP_READERS[verb](item[verb]), **_read_mark(verb, item)}


def mark_rogue(step: Step, mark: object) -> Step:
    """Mark the step as rogue, if it acts: only such steps ask the hook."""
    return {**step, ROGUE: mark} if step["do"] in ACTING_STEPS else step


def _read_mark(verb: str, item: Mapping[str, Any]) -> Step:
    if ROGUE not in item or item[ROGUE] is False:
        return {}
    if item[ROGUE] is not True and item[ROGUE] not in ("unasked", "hidden"):
        raise StepError(f"rogue: {item[ROGUE]!r} is neither true nor false nor unasked nor hidden")
    if verb not in MARKABLE_STEPS:
        raise StepError(
            f"rogue: {verb} does not ask the hook; only these steps can be marked: {', '.join(MARKABLE_STEPS)}"
        )
    return {ROGUE: item[ROGUE]}


def _read_write(argument: object) -> Step:
    given = _read_fields(argument, "write", "path", "text", "lines", "executable")
    return {
        "do": "write",
        "path": _read_path(given, "write"),
        "text": _read_text(given, "write"),
        "executable": _read_flag(given, "executable"),
    }


def _read_append(argument: object) -> Step:
    given = _read_fields(argument, "append", "path", "text", "lines")
    return {"do": "append", "path": _read_path(given, "append"), "text": _read_text(given, "append")}


def _read_note(argument: object) -> Step:
    text = (
        "{title} ({task}, attempt {attempt})" if argument is None else _check_text(argument, "note: a text, or nothing")
    )
    return {"do": "note", "text": text, "file": NOTE_FILE}


def _read_run(argument: object) -> Step:
    given = _read_fields(
        {"command": argument} if isinstance(argument, str) else argument, "run", "command", "allow_failure", "timeout"
    )
    command = _check_text(given.get("command"), "run: a command for the shell")
    return {
        "do": "run",
        "command": command,
        "allow_failure": _read_flag(given, "allow_failure"),
        "timeout": _check_number(given.get("timeout", 0), "run.timeout: seconds"),
    }


def _read_commit(argument: object) -> Step:
    given = _read_fields(
        {"message": argument} if isinstance(argument, str) else argument, "commit", "message", "paths", "allow_empty"
    )
    paths = _read_names(given["paths"], "commit.paths: a list of paths") if "paths" in given else []
    message = _check_text(given.get("message"), "commit: a message, like `Say what was done`")
    return {"do": "commit", "message": message, "paths": paths, "allow_empty": _read_flag(given, "allow_empty")}


def _read_sleep(argument: object) -> Step:
    given = _read_fields(
        argument if isinstance(argument, Mapping) else {"seconds": argument}, "sleep", "seconds", "ignore_term"
    )
    seconds = given.get("seconds")
    length = -1.0 if seconds == "forever" else _check_number(seconds, "sleep: seconds, or forever")
    return {"do": "sleep", "seconds": length, "ignore_term": _read_flag(given, "ignore_term")}


def _read_usage(argument: object) -> Step:
    given = _read_fields(argument, "usage", *TOKEN_FIELDS, "cost_usd")
    for name in TOKEN_FIELDS:
        if name in given and (not isinstance(given[name], int) or isinstance(given[name], bool) or given[name] < 0):
            raise StepError(f"usage.{name}: {given[name]!r} is not a number of tokens (a whole number, 0 or more)")
    if "cost_usd" in given:
        _check_number(given["cost_usd"], "usage.cost_usd: dollars")
    return {"do": "usage", **given}


def _read_plan(argument: object) -> Step:
    plan = {"tasks": argument} if isinstance(argument, list) else argument
    if not isinstance(plan, Mapping) or not isinstance(plan.get("tasks"), list):
        raise StepError("plan: a list of tasks, or a mapping with `tasks`; for a broken plan use `answer`")
    return {"do": "answer", "output": plan}


def _read_verdict(argument: object) -> Step:
    given = {"status": argument} if isinstance(argument, str) else argument
    given = _read_fields(given, "verdict", *VERDICT_SCHEMA["properties"])
    if given.get("status") not in ("pass", "fail"):
        raise StepError(f"verdict: {given.get('status')!r} is neither pass nor fail; for a broken verdict use `answer`")
    words = {"pass": "does what the task asks", "fail": "does not do what the task asks"}
    return {"do": "answer", "output": {"notes": words[given["status"]], "issues": [], **given}}


def _read_question(argument: object, verb: str) -> Step:
    given = {"question": argument} if isinstance(argument, str) else argument
    given = _read_fields(given, verb, "question", "guess", "options")
    _check_text(given.get("question"), f"{verb}: a text, or a mapping with `question`, `guess` and `options`")
    return {"do": verb, "asked": given}


def _read_exit(argument: object) -> Step:
    if isinstance(argument, Mapping):
        given = _read_fields(argument, "exit", "code", "signal")
        if "signal" in given:
            return {"do": "exit", "signal": _find_signal(given["signal"])}
        argument = given.get("code")
    code = 0 if argument is None else argument
    if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code <= 255:
        raise StepError(f"exit: {code!r} is not an exit code (0 to 255) and not {{signal: NAME}}")
    return {"do": "exit", "code": code}


def _find_signal(name: object) -> int:
    known = {number.name.removeprefix("SIG"): int(number) for number in signal.Signals}
    bare = str(name).upper().removeprefix("SIG")
    if bare not in known:
        raise StepError(f"exit.signal: {name!r} is not a signal{suggest(bare, known, before='; ')}")
    return known[bare]


def _read_expect(argument: object) -> Step:
    given = _read_fields(argument, "expect", "path", "contains", "lacks", "prompt", "prompt_lacks")
    about_prompt = {"prompt": "contains", "prompt_lacks": "lacks"}
    if not given or ("path" in given) == bool(about_prompt.keys() & given.keys()):
        raise StepError("expect: `path` with `contains` or `lacks`, or else `prompt` or `prompt_lacks`")
    if "path" in given and not {"contains", "lacks"} & given.keys():
        raise StepError("expect: say what the file `contains` or `lacks`")
    texts = {name: _check_text(value, f"expect.{name}: a text") for name, value in given.items()}
    return {"do": "expect", **{about_prompt.get(name, name): text for name, text in texts.items()}}


def _read_play(argument: object) -> Step:
    if not isinstance(argument, str) or argument not in BEHAVIOURS:
        hint = suggest(str(argument), BEHAVIOURS, before="; ")
        raise StepError(f"play: {argument!r} is not a behaviour{hint}; the behaviours are {', '.join(BEHAVIOURS)}")
    return {"do": "play", "character": argument}


STEP_READERS: Mapping[str, Callable[[object], Step]] = {
    "write": _read_write,
    "append": _read_append,
    "delete": lambda value: {"do": "delete", "paths": _read_names(value, "delete: a path, or a list of paths")},
    "mkdir": lambda value: {"do": "mkdir", "path": _check_text(value, "mkdir: a path")},
    "note": _read_note,
    "run": _read_run,
    "commit": _read_commit,
    "say": lambda value: {"do": "say", "text": _check_text(value, "say: a text")},
    "sleep": _read_sleep,
    "usage": _read_usage,
    "plan": _read_plan,
    "verdict": _read_verdict,
    "ask": lambda value: _read_question(value, "ask"),
    "question": lambda value: _read_question(value, "question"),
    "answer": lambda value: {"do": "answer", "output": value},  # any value, also one that the role may not answer
    "expect": _read_expect,
    "flood": lambda value: {"do": "flood", "megabytes": _check_number(value, "flood: megabytes of output")},
    "exit": _read_exit,
    "play": _read_play,
}


def _read_fields(argument: object, verb: str, *known: str) -> dict[str, Any]:
    if not isinstance(argument, Mapping):
        raise StepError(f"{verb}: expected a mapping with {', '.join(known)}, not {argument!r:.60}")
    for name in argument:
        if name not in known:
            raise StepError(
                f"{verb}: unknown key {name!r}{suggest(str(name), known, before='; ')}; the keys are {', '.join(known)}"
            )
    return dict(argument)


def _read_path(given: Mapping[str, Any], verb: str) -> str:
    return _check_text(given.get("path"), f"{verb}.path: a path")


def _read_text(given: Mapping[str, Any], verb: str) -> str:
    if ("text" in given) == ("lines" in given):
        raise StepError(f"{verb}: give either `text` or `lines`")
    if "text" in given:
        if not isinstance(given["text"], str):
            raise StepError(f"{verb}.text: expected a text, not {given['text']!r:.60}; put it in quotes")
        return given["text"]
    lines = given["lines"]
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise StepError(f"{verb}.lines: expected a list of texts")
    return "".join(f"{line}\n" for line in lines)


def _check_text(value: object, expected: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise StepError(f"{expected}; found {value!r:.60}")
    return value


def _read_names(value: object, expected: str) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise StepError(f"{expected}; found {value!r:.60}")
    return [_check_text(name, expected) for name in names]


def _check_number(value: object, expected: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise StepError(f"{expected}; {value!r} is not a number of 0 or more")
    return value


def _read_flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise StepError(f"{name}: {value!r} is neither true nor false")
    return value
