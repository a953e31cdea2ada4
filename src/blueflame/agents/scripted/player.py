"""Plays a script as an agent: a program of its own, started by a warden like any other agent.

    python player.py PROGRAM.json < prompt

It works in its current folder and says what it does on stdout, one JSON object per line:
`say`, `action`, `usage`, `error` and, at the end, `result`. Stdlib only and few imports, so that it starts at once.

Before it does anything it asks the hook, as any agent does, and obeys; unless the step is marked `rogue`.
"""

# ruff: noqa: PTH100, PTH103, PTH107, PTH110, PTH112, PTH114, PTH118, PTH120, PTH123 (pathlib would cost every play some 10 ms)
from __future__ import annotations

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

QUIET_GIT = ["-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "commit.gpgSign=false", "-c", "core.editor=true"]
FOREVER = 10**9
CHUNK = "x" * 1000
PLAIN = "@%+=:,./-_"  # what a shell takes as it is
REASON = 2000
COMMENTS = {
    "# {}": (".py", ".sh", ".yaml", ".yml", ".toml", ".cfg", ".rb", ".pl", ".mk"),
    "// {}": (".js", ".ts", ".tsx", ".jsx", ".go", ".rs", ".c", ".h", ".cpp", ".java", ".kt", ".swift", ".cs"),
    "<!-- {} -->": (".md", ".html", ".xml", ".vue", ".svg"),
    "/* {} */": (".css", ".scss"),
    "-- {}": (".sql", ".lua", ".hs"),
}


class Failed(Exception):
    """A step could not be done: the agent says so and ends with an error."""


class Refused(Exception):
    """The hook said no: the step is not done, and the next one is tried."""


class Play:
    """One performance: what the steps share."""

    __slots__ = ("calls", "output", "prompt", "refused", "rogue", "text", "watched")

    def __init__(self, prompt: str, *, watched: bool = True) -> None:
        self.prompt = prompt
        self.watched = watched  # without a hook to ask, nothing may be done
        self.rogue: object = False  # of the step that is being done
        self.output: Any = None
        self.text = ""
        self.calls = 0
        self.refused = 0


def emit(kind: str, **fields: object) -> None:
    line = json.dumps({"type": kind, **fields}, ensure_ascii=False) + "\n"
    data = line.encode("utf-8", "surrogateescape")
    while data:
        data = data[os.write(1, data) :]


def act(play: Play, tool: str, target: str, tool_input: Mapping[str, Any]) -> None:
    """Ask, and show what comes of it. Raises Refused when it must not be done."""
    play.calls += 1
    call = f"call-{play.calls:04d}"
    refusal = "" if play.rogue in ("unasked", "hidden") else _objection(play, tool, tool_input, call)
    shown: dict[str, object] = {"tool": tool, "target": target, "call": call, "digest": _digest(tool_input)}
    if refusal and not play.rogue:
        play.refused += 1
        emit("action", **shown, denied=True, reason=refusal)
        raise Refused
    if play.rogue != "hidden":
        emit("action", **shown)


def write(play: Play, step: Mapping[str, Any]) -> None:
    path = step["path"]
    act(play, "Write", path, {"file_path": os.path.abspath(path), "content": step["text"]})
    _put(path, step["text"], "w")
    if step.get("executable"):
        os.chmod(path, 0o755)  # noqa: PTH101, S103 (what the script asks for)


def append(play: Play, step: Mapping[str, Any]) -> None:
    _edit(play, step["path"], step["text"])


def delete(play: Play, step: Mapping[str, Any]) -> None:
    for path in step["paths"]:
        folder = os.path.isdir(path) and not os.path.islink(path)
        _bash(play, f"rm {'-r ' if folder else ''}-- {_quoted(path)}")
        if folder:
            _run(["rm", "-rf", "--", path])
        else:
            os.remove(path)


def mkdir(play: Play, step: Mapping[str, Any]) -> None:
    _bash(play, f"mkdir -p -- {_quoted(step['path'])}")
    os.makedirs(step["path"], exist_ok=True)


def note(play: Play, step: Mapping[str, Any]) -> None:
    """A line inside what the task has locked: into a file of ours in a folder, as a comment in a file."""
    path, fresh = _place_for_note(step["locks"], step["file"])
    line = step["text"] if fresh and path.endswith((".md", ".txt")) else _comment(path).format(step["text"])
    if step.get("overwrite"):
        act(play, "Write", path, {"file_path": os.path.abspath(path), "content": line + "\n"})
        _put(path, line + "\n", "w")
    else:
        _edit(play, path, line + "\n")


def run(play: Play, step: Mapping[str, Any]) -> None:
    _bash(play, step["command"])
    code = _run(["/bin/sh", "-c", step["command"]], timeout=step.get("timeout", 0))
    if code and not step.get("allow_failure"):
        raise Failed(f"run: {step['command']!r} ended with {code}")


def commit(play: Play, step: Mapping[str, Any]) -> None:
    added = ["add", "-A", *(["--", *step["paths"]] if step.get("paths") else [])]
    committed = ["commit", "-q", *(["--allow-empty"] if step.get("allow_empty") else []), "-m", step["message"]]
    _bash(play, " && ".join(" ".join(_quoted(word) for word in ["git", *words]) for words in (added, committed)))
    if _run(["git", *QUIET_GIT, *added]):
        raise Failed("commit: git add failed")
    if _run(["git", *QUIET_GIT, *committed]):
        raise Failed(f"commit: git commit failed ({step['message']!r}); was there anything to commit?")


def say(play: Play, step: Mapping[str, Any]) -> None:
    emit("say", text=step["text"])
    play.text = step["text"]


def sleep(_: Play, step: Mapping[str, Any]) -> None:
    if step.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(min(step["seconds"], FOREVER) if step["seconds"] >= 0 else FOREVER)


def usage(_: Play, step: Mapping[str, Any]) -> None:
    emit("usage", **{name: value for name, value in step.items() if name != "do"})


def answer(play: Play, step: Mapping[str, Any]) -> None:
    """A plan or a verdict: the structured output, or text where a script wants an agent that breaks the form."""
    if isinstance(step["output"], dict):
        act(play, "StructuredOutput", "", step["output"])
    play.output = step["output"]


def expect(play: Play, step: Mapping[str, Any]) -> None:
    where = step.get("path")
    text = play.prompt if where is None else _text_of(where)
    name = "the prompt" if where is None else where
    if "contains" in step and step["contains"] not in text:
        raise Failed(f"expect: {name} does not contain {step['contains']!r}")
    if "lacks" in step and step["lacks"] in text:
        raise Failed(f"expect: {name} contains {step['lacks']!r}")


def flood(_: Play, step: Mapping[str, Any]) -> None:
    for _n in range(int(step["megabytes"] * 1000)):
        emit("say", text=CHUNK)


def leave(play: Play, step: Mapping[str, Any]) -> None:
    if step.get("signal"):
        if step["signal"] not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(step["signal"], signal.SIG_DFL)
        os.kill(os.getpid(), step["signal"])
    _finish(play, step["code"])


STEPS: dict[str, Callable[[Play, Mapping[str, Any]], None]] = {
    "write": write,
    "append": append,
    "delete": delete,
    "mkdir": mkdir,
    "note": note,
    "run": run,
    "commit": commit,
    "sleep": sleep,
    "usage": usage,
    "flood": flood,
    "say": say,
    "answer": answer,
    "expect": expect,
    "exit": leave,
}


def main(arguments: list[str]) -> int:
    with open(arguments[0], encoding="utf-8") as file:
        program = json.load(file)
    _enter_in_ledger(program["attempt"], "start")
    play = Play(_read_stdin(), watched=program.get("watched") is not False)
    for step in program["steps"]:
        play.rogue = step.get("rogue", False)
        try:
            STEPS[step["do"]](play, step)
        except Refused:
            continue
        except (Failed, OSError) as e:
            emit("error", text=str(e))
            _finish(play, 1, error=str(e))
    _finish(play, 0)
    return 0


def _finish(play: Play, code: int, error: str = "") -> None:
    result: dict[str, object] = {"is_error": bool(code), "result": _last_words(play, error)}
    if isinstance(play.output, dict):
        result["structured_output"] = play.output
    elif play.output is not None:
        result["result"] = str(play.output)
    emit("result", **result)
    _enter_in_ledger("", "end")
    os._exit(code)


def _last_words(play: Play, error: str) -> str:
    text = error or play.text
    if not play.refused:
        return text
    refused = "1 step was refused." if play.refused == 1 else f"{play.refused} steps were refused."
    return f"{text} {refused}".lstrip()


def _edit(play: Play, path: str, more: str) -> None:
    """At the end of a file. Where there is none yet, it is written."""
    place = os.path.abspath(path)
    if os.path.exists(path):
        act(play, "Edit", path, {"file_path": place, "old_string": "", "new_string": more})
    else:
        act(play, "Write", path, {"file_path": place, "content": more})
    _put(path, more, "a")


def _bash(play: Play, command: str) -> None:
    act(play, "Bash", command, {"command": command})


def _quoted(word: str) -> str:
    """As shlex.quote does it; that would bring along what takes longer to load than we live."""
    if word and not word.startswith("~") and all(sign.isascii() and (sign.isalnum() or sign in PLAIN) for sign in word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def _objection(play: Play, tool: str, tool_input: Mapping[str, Any], call: str) -> str:
    """Why the hook refuses it; empty when it allows it. Only exit code 0 does."""
    if not os.environ.get("BLUEFLAME_HOOK_PORT"):
        return "" if not play.watched else "there is no watcher to ask, so nothing may be done"
    hook = os.environ.get("BLUEFLAME_HOOK")
    if not hook:
        return "nobody said which hook to ask, so nothing may be done"
    asked = {
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": tool_input,
        "tool_use_id": call,
        "cwd": os.getcwd(),  # noqa: PTH109
    }
    try:
        code, said = _ask(hook, json.dumps(asked).encode())
    except OSError as e:
        return f"the hook cannot be asked: {e.strerror}"
    return "" if code == 0 else said.decode("utf-8", "replace").strip()[:REASON] or f"the hook ended with {code}"


def _ask(hook: str, question: bytes) -> tuple[int, bytes]:
    """It reads the whole question before it says anything, so neither side can wait for the other."""
    (asked, ask), (answered, answer) = os.pipe(), os.pipe()
    actions = [
        (os.POSIX_SPAWN_DUP2, asked, 0),
        (os.POSIX_SPAWN_DUP2, answer, 2),
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
    ]
    try:
        pid = os.posix_spawn(hook, [hook], os.environ, file_actions=actions)
    except OSError:
        for handle in (asked, ask, answered, answer):
            os.close(handle)
        raise
    os.close(asked)
    os.close(answer)
    _pour(ask, question)
    said = _drain(answered)
    os.close(answered)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


def _pour(handle: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(handle, data) :]
    except BrokenPipeError:
        pass  # it has made up its mind already; its exit code says how
    finally:
        os.close(handle)


def _digest(tool_input: Mapping[str, Any]) -> str:
    """As in model/audit, which cannot be had here: by this the audit log and our output are compared."""
    from hashlib import sha256  # takes as long to load as json: only those who act need it

    text = json.dumps(tool_input, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _enter_in_ledger(attempt: str, what: str) -> None:
    """One line per start and end, in one write: who counts them sees whether anything ran twice."""
    path = os.environ.get("BLUEFLAME_LEDGER")
    if not path:
        return
    name = attempt or os.environ.get("BLUEFLAME_ATTEMPT", "")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(handle, f"{what} {name} {os.getpid()}\n".encode())
    os.close(handle)


def _read_stdin() -> str:
    return _drain(0).decode("utf-8", "replace")


def _drain(handle: int) -> bytes:
    parts = []
    while part := os.read(handle, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _put(path: str, text: str, mode: str) -> None:
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    with open(path, mode, encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        raise Failed(f"expect: {path} does not exist") from None


def _place_for_note(locks: list[str], name: str) -> tuple[str, bool]:
    for lock in locks or ["."]:
        still = lock.split("*", 1)[0].split("?", 1)[0].split("[", 1)[0]
        place = still if still == lock or still.endswith("/") else os.path.dirname(still)
        if not place or place.endswith("/") or os.path.isdir(place):
            return os.path.join(place, name), True
        return place, not os.path.exists(place)
    raise AssertionError("unreachable: there is always one place")


def _comment(path: str) -> str:
    return next((form for form, ends in COMMENTS.items() if path.endswith(ends)), "{}")


def _run(argv: list[str], timeout: float = 0) -> int:
    """Its output goes to our stderr, so that our stdout stays what it is: lines of JSON."""
    actions = [(os.POSIX_SPAWN_DUP2, 2, 1), (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
    try:
        pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions)
    except FileNotFoundError:
        raise Failed(f"{argv[0]} is not on PATH") from None
    if timeout:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, timeout)
    _, status = os.waitpid(pid, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
