"""Plays a script as an agent: a program of its own, started by a warden like any other agent.

    python player.py PROGRAM.json < prompt

It works in its current folder and says what it does on stdout, one JSON object per line:
`say`, `action`, `usage`, `error` and, at the end, `result`. Stdlib only and few imports, so that it starts at once.
"""

# ruff: noqa: PTH103, PTH107, PTH110, PTH112, PTH114, PTH118, PTH120, PTH123 (pathlib would cost every play some 10 ms)
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
COMMENTS = {
    "# {}": (".py", ".sh", ".yaml", ".yml", ".toml", ".cfg", ".rb", ".pl", ".mk"),
    "// {}": (".js", ".ts", ".tsx", ".jsx", ".go", ".rs", ".c", ".h", ".cpp", ".java", ".kt", ".swift", ".cs"),
    "<!-- {} -->": (".md", ".html", ".xml", ".vue", ".svg"),
    "/* {} */": (".css", ".scss"),
    "-- {}": (".sql", ".lua", ".hs"),
}


class Failed(Exception):
    """A step could not be done: the agent says so and ends with an error."""


class Play:
    """One performance: what the steps share."""

    __slots__ = ("output", "prompt", "text")

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.output: Any = None
        self.text = ""


def emit(kind: str, **fields: object) -> None:
    line = json.dumps({"type": kind, **fields}, ensure_ascii=False) + "\n"
    data = line.encode("utf-8", "surrogateescape")
    while data:
        data = data[os.write(1, data) :]


def acted(tool: str, target: str) -> None:
    emit("action", tool=tool, target=target)


def write(step: Mapping[str, Any]) -> None:
    _put(step["path"], step["text"], "w")
    if step.get("executable"):
        os.chmod(step["path"], 0o755)  # noqa: PTH101, S103 (what the script asks for)
    acted("Write", step["path"])


def append(step: Mapping[str, Any]) -> None:
    _put(step["path"], step["text"], "a")
    acted("Edit", step["path"])


def delete(step: Mapping[str, Any]) -> None:
    for path in step["paths"]:
        if os.path.isdir(path) and not os.path.islink(path):
            _run(["rm", "-rf", "--", path])
        else:
            os.remove(path)
        acted("Delete", path)


def mkdir(step: Mapping[str, Any]) -> None:
    os.makedirs(step["path"], exist_ok=True)


def note(step: Mapping[str, Any]) -> None:
    """A line inside what the task has locked: into a file of ours in a folder, as a comment in a file."""
    path, fresh = _place_for_note(step["locks"], step["file"])
    line = step["text"] if fresh and path.endswith((".md", ".txt")) else _comment(path).format(step["text"])
    _put(path, line + "\n", "w" if step.get("overwrite") else "a")
    acted("Write" if fresh else "Edit", path)


def run(step: Mapping[str, Any]) -> None:
    acted("Bash", step["command"])
    code = _run(["/bin/sh", "-c", step["command"]], timeout=step.get("timeout", 0))
    if code and not step.get("allow_failure"):
        raise Failed(f"run: {step['command']!r} ended with {code}")


def commit(step: Mapping[str, Any]) -> None:
    added = ["add", "-A", *(["--", *step["paths"]] if step.get("paths") else [])]
    if _run(["git", *QUIET_GIT, *added]):
        raise Failed("commit: git add failed")
    empty = ["--allow-empty"] if step.get("allow_empty") else []
    if _run(["git", *QUIET_GIT, "commit", "-q", *empty, "-m", step["message"]]):
        raise Failed(f"commit: git commit failed ({step['message']!r}); was there anything to commit?")
    acted("Bash", "git commit")


def say(play: Play, step: Mapping[str, Any]) -> None:
    emit("say", text=step["text"])
    play.text = step["text"]


def sleep(step: Mapping[str, Any]) -> None:
    if step.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(min(step["seconds"], FOREVER) if step["seconds"] >= 0 else FOREVER)


def usage(step: Mapping[str, Any]) -> None:
    emit("usage", **{name: value for name, value in step.items() if name != "do"})


def answer(play: Play, step: Mapping[str, Any]) -> None:
    """A plan or a verdict: the structured output, or text where a script wants an agent that breaks the form."""
    play.output = step["output"]


def expect(play: Play, step: Mapping[str, Any]) -> None:
    where = step.get("path")
    text = play.prompt if where is None else _text_of(where)
    name = "the prompt" if where is None else where
    if "contains" in step and step["contains"] not in text:
        raise Failed(f"expect: {name} does not contain {step['contains']!r}")
    if "lacks" in step and step["lacks"] in text:
        raise Failed(f"expect: {name} contains {step['lacks']!r}")


def flood(step: Mapping[str, Any]) -> None:
    for _ in range(int(step["megabytes"] * 1000)):
        emit("say", text=CHUNK)


def leave(play: Play, step: Mapping[str, Any]) -> None:
    if step.get("signal"):
        if step["signal"] not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(step["signal"], signal.SIG_DFL)
        os.kill(os.getpid(), step["signal"])
    _finish(play, step["code"])


DEEDS: dict[str, Callable[[Mapping[str, Any]], None]] = {
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
}
WORDS: dict[str, Callable[[Play, Mapping[str, Any]], None]] = {
    "say": say,
    "answer": answer,
    "expect": expect,
    "exit": leave,
}


def main(arguments: list[str]) -> int:
    with open(arguments[0], encoding="utf-8") as file:
        program = json.load(file)
    _enter_in_ledger(program["attempt"], "start")
    play = Play(_read_stdin())
    for step in program["steps"]:
        try:
            _perform(play, step)
        except (Failed, OSError) as e:
            emit("error", text=str(e))
            _finish(play, 1, error=str(e))
    _finish(play, 0)
    return 0


def _perform(play: Play, step: Mapping[str, Any]) -> None:
    if step["do"] in DEEDS:
        DEEDS[step["do"]](step)
    else:
        WORDS[step["do"]](play, step)


def _finish(play: Play, code: int, error: str = "") -> None:
    result: dict[str, object] = {"is_error": bool(code), "result": error or play.text}
    if isinstance(play.output, dict):
        result["structured_output"] = play.output
    elif play.output is not None:
        result["result"] = str(play.output)
    emit("result", **result)
    _enter_in_ledger("", "end")
    os._exit(code)


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
    parts = []
    while part := os.read(0, 1 << 20):
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


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
