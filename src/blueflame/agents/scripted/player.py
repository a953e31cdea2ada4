"""Play a script as an agent: a separate program, started by a warden like any other agent.

    python player.py PROGRAM.json < prompt

It works in its current folder and prints what it does, one JSON object per line:
`say`, `action`, `usage`, `error` and, at the end, `result`. Standard library only and few imports: it starts at once.

Like any agent, it asks the hook before each step and obeys, unless the step is marked `rogue`.
"""

# ruff: noqa: PTH100, PTH103, PTH107, PTH110, PTH112, PTH114, PTH118, PTH120, PTH123 (pathlib would cost every run some 10 ms)
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

GIT_SETTINGS = ("gc.auto=0", "maintenance.auto=false", "commit.gpgSign=false", "core.editor=true")
GIT_COMMAND = ["git", *(word for setting in GIT_SETTINGS for word in ("-c", setting))]
ASK_TOOL = "mcp__blueflame__ask"  # as in model/policy
FOREVER = 10**9
FLOOD_TEXT = "x" * 1000
FLOOD_LINES = 50  # at once: what reads them is tested, and not how fast they are made
UNQUOTED = "@%+=:,./-_"  # characters that need no quotes in a shell
MAX_REASON = 4000
NOTICES = ("message: ", "limit_near: ")  # refusals that only say something
COMMENT_FORMS = {
    "# {}": (".py", ".sh", ".yaml", ".yml", ".toml", ".cfg", ".rb", ".pl", ".mk"),
    "// {}": (".js", ".ts", ".tsx", ".jsx", ".go", ".rs", ".c", ".h", ".cpp", ".java", ".kt", ".swift", ".cs"),
    "<!-- {} -->": (".md", ".html", ".xml", ".vue", ".svg"),
    "/* {} */": (".css", ".scss"),
    "-- {}": (".sql", ".lua", ".hs"),
}
SHELL_SIGNAL_BASE = 128  # a shell exits with this and the signal that ended its program
ENDING_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGXCPU, signal.SIGXFSZ)  # from outside, and by a limit
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # programs would inherit it


class StepFailed(Exception):
    """A step failed: the agent reports it and ends with an error.

    If a program of it was killed from outside or reached a limit, with the code of that, as a shell does.
    """

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = SHELL_SIGNAL_BASE + _find_signal(code) if _find_signal(code) in ENDING_SIGNALS else 1


def _find_signal(code: int) -> int:
    """The signal that ended a program or what its shell ran."""
    return -code if code < 0 else code - SHELL_SIGNAL_BASE


class StepRefused(Exception):
    """The hook refused: the step is skipped."""


class PlayState:
    """What the steps of one run share."""

    __slots__ = ("calls", "fence", "output", "prompt", "refused", "rogue", "text", "watched")

    def __init__(self, prompt: str, *, watched: bool = True, fence: str = "") -> None:
        self.prompt = prompt
        self.fence = fence  # the program that keeps commands apart from us
        self.watched = watched  # without a hook, every step is refused
        self.rogue: object = False  # of the current step
        self.output: Any = None
        self.text = ""
        self.calls = 0
        self.refused = 0


def emit_line(kind: str, **fields: object) -> None:
    _write_out(_format_line(kind, **fields))


def _format_line(kind: str, **fields: object) -> bytes:
    try:
        line = json.dumps({"type": kind, **fields}, ensure_ascii=False) + "\n"
        return line.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a character
        return json.dumps({"type": kind, **fields}).encode() + b"\n"


def _write_out(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def ask_and_show(play: PlayState, tool: str, target: str, tool_input: Mapping[str, Any]) -> None:
    """Ask the hook and print the call. Raises StepRefused. A call that was only held back is asked about again."""
    while _ask_once(play, tool, target, tool_input):
        pass


def _ask_once(play: PlayState, tool: str, target: str, tool_input: Mapping[str, Any]) -> bool:
    """Return whether the call was refused only to say something."""
    play.calls += 1
    call = f"call-{play.calls:04d}"
    refusal = "" if play.rogue in ("unasked", "hidden") else _find_refusal(play, tool, tool_input, call)
    shown: dict[str, object] = {"tool": tool, "target": target, "call": call, "digest": _compute_digest(tool_input)}
    if refusal and not play.rogue:
        emit_line("action", **shown, denied=True, reason=refusal)
        if refusal.startswith(NOTICES):
            return True
        play.refused += 1
        raise StepRefused
    if play.rogue != "hidden":
        emit_line("action", **shown)
    return False


def do_write(play: PlayState, step: Mapping[str, Any]) -> None:
    path = step["path"]
    ask_and_show(play, "Write", path, {"file_path": os.path.abspath(path), "content": step["text"]})
    _write_file(path, step["text"], "w")
    if step.get("executable"):
        os.chmod(path, 0o755)  # noqa: PTH101, S103 (what the script asks for)


def do_delete(play: PlayState, step: Mapping[str, Any]) -> None:
    for path in step["paths"]:
        folder = os.path.isdir(path) and not os.path.islink(path)
        _ask_about_command(play, f"rm {'-r ' if folder else ''}-- {_quote_word(path)}")
        if folder:
            _run_program(["rm", "-rf", "--", path])
        else:
            os.remove(path)


def do_mkdir(play: PlayState, step: Mapping[str, Any]) -> None:
    _ask_about_command(play, f"mkdir -p -- {_quote_word(step['path'])}")
    os.makedirs(step["path"], exist_ok=True)


def do_note(play: PlayState, step: Mapping[str, Any]) -> None:
    """Write a line inside the task's locks: to a new file of a locked folder, or as a comment to a locked file."""
    path, fresh = _find_note_path(step["locks"], step["file"])
    line = step["text"] if fresh and path.endswith((".md", ".txt")) else _find_comment_form(path).format(step["text"])
    if step.get("overwrite"):
        ask_and_show(play, "Write", path, {"file_path": os.path.abspath(path), "content": line + "\n"})
        _write_file(path, line + "\n", "w")
    else:
        _append_to_file(play, path, line + "\n")


def do_run(play: PlayState, step: Mapping[str, Any]) -> None:
    _ask_about_command(play, step["command"])
    fence = [sys.executable, "-I", "-S", "-E", play.fence, "/bin/sh", step["command"]]
    plain = ["/bin/sh", "-c", step["command"]]
    code = _run_program(fence if play.fence else plain, timeout=step.get("timeout", 0))
    if code and not step.get("allow_failure"):
        raise StepFailed(f"run: {step['command']!r} ended with {code}", 1 if step.get("timeout") else code)


def do_commit(play: PlayState, step: Mapping[str, Any]) -> None:
    added = ["add", "-A", *(["--", *step["paths"]] if step.get("paths") else [])]
    committed = ["commit", "-q", *(["--allow-empty"] if step.get("allow_empty") else []), "-m", step["message"]]
    _ask_about_command(
        play, " && ".join(" ".join(_quote_word(word) for word in ["git", *words]) for words in (added, committed))
    )
    if code := _run_program([*GIT_COMMAND, *added]):
        raise StepFailed("commit: git add failed", code)
    if code := _run_program([*GIT_COMMAND, *committed]):
        raise StepFailed(f"commit: git commit failed ({step['message']!r}); was there anything to commit?", code)


def do_say(play: PlayState, step: Mapping[str, Any]) -> None:
    emit_line("say", text=step["text"])
    play.text = step["text"]


def do_ask(play: PlayState, step: Mapping[str, Any]) -> None:
    """Ask the person with the tool of the warden, wait, and print the answer."""
    import socket

    ask_and_show(play, ASK_TOOL, "", step["asked"])
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": step["asked"]}}
    body = json.dumps(call).encode()
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(os.environ["BLUEFLAME_HOOK_PORT"]))) as line:
        line.sendall(head.encode() + body)
        printed = b"".join(iter(lambda: line.recv(1 << 16), b"")).decode("utf-8", "replace")
    found = printed[printed.rfind('{"jsonrpc"') :].partition("\n")[0]
    if not found:
        raise StepFailed("ask: there was no answer")
    do_say(play, {"text": json.loads(found)["result"]["content"][0]["text"]})


def do_question(play: PlayState, step: Mapping[str, Any]) -> None:
    """End with a question to the person, if no later step says more."""
    do_say(play, {"text": json.dumps(step["asked"])})


def do_sleep(_: PlayState, step: Mapping[str, Any]) -> None:
    if step.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(min(step["seconds"], FOREVER) if step["seconds"] >= 0 else FOREVER)


def do_answer(play: PlayState, step: Mapping[str, Any]) -> None:
    """Answer with a plan or a verdict as structured output, or with text, which a good agent would not."""
    if isinstance(step["output"], dict):
        ask_and_show(play, "StructuredOutput", "", step["output"])
    play.output = step["output"]


def do_expect(play: PlayState, step: Mapping[str, Any]) -> None:
    where = step.get("path")
    text = play.prompt if where is None else _read_file(where)
    name = "the prompt" if where is None else where
    if "contains" in step and step["contains"] not in text:
        raise StepFailed(f"expect: {name} does not contain {step['contains']!r}")
    if "lacks" in step and step["lacks"] in text:
        raise StepFailed(f"expect: {name} contains {step['lacks']!r}")


def do_flood(_: PlayState, step: Mapping[str, Any]) -> None:
    line = _format_line("say", text=FLOOD_TEXT)
    blocks, rest = divmod(int(step["megabytes"] * 1000), FLOOD_LINES)
    for lines in (*[FLOOD_LINES] * blocks, rest):
        _write_out(line * lines)


def do_exit(play: PlayState, step: Mapping[str, Any]) -> None:
    if step.get("signal"):
        if step["signal"] not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(step["signal"], signal.SIG_DFL)
        os.kill(os.getpid(), step["signal"])
    _finish_run(play, step["code"])


STEP_FUNCTIONS: dict[str, Callable[[PlayState, Mapping[str, Any]], None]] = {
    "write": do_write,
    "append": lambda play, step: _append_to_file(play, step["path"], step["text"]),
    "delete": do_delete,
    "mkdir": do_mkdir,
    "note": do_note,
    "run": do_run,
    "commit": do_commit,
    "sleep": do_sleep,
    "usage": lambda _, step: emit_line("usage", **{name: value for name, value in step.items() if name != "do"}),
    "flood": do_flood,
    "say": do_say,
    "ask": do_ask,
    "question": do_question,
    "answer": do_answer,
    "expect": do_expect,
    "exit": do_exit,
}


def main(arguments: list[str]) -> int:
    with open(arguments[0], encoding="utf-8") as file:
        program = json.load(file)
    _write_ledger_line(program["attempt"], "start")
    play = PlayState(
        _read_all(0).decode("utf-8", "replace"),
        watched=program.get("watched") is not False,
        fence=program.get("fence", ""),
    )
    for step in program["steps"]:
        play.rogue = step.get("rogue", False)
        try:
            STEP_FUNCTIONS[step["do"]](play, step)
        except StepRefused:
            continue
        except (StepFailed, OSError) as e:
            emit_line("error", text=str(e))
            _finish_run(play, e.exit_code if isinstance(e, StepFailed) else 1, error=str(e))
    _finish_run(play, 0)
    return 0


def _finish_run(play: PlayState, code: int, error: str = "") -> None:
    result: dict[str, object] = {"is_error": bool(code), "result": _format_result(play, error)}
    if isinstance(play.output, dict):
        result["structured_output"] = play.output
    elif play.output is not None:
        result["result"] = str(play.output)
    emit_line("result", **result)
    _write_ledger_line("", "end")
    os._exit(code)


def _format_result(play: PlayState, error: str) -> str:
    text = error or play.text
    if not play.refused:
        return text
    refused = "1 step was refused." if play.refused == 1 else f"{play.refused} steps were refused."
    return f"{text} {refused}".lstrip()


def _append_to_file(play: PlayState, path: str, more: str) -> None:
    """Append to a file, or create it."""
    place = os.path.abspath(path)
    if os.path.exists(path):
        ask_and_show(play, "Edit", path, {"file_path": place, "old_string": "", "new_string": more})
    else:
        ask_and_show(play, "Write", path, {"file_path": place, "content": more})
    _write_file(path, more, "a")


def _ask_about_command(play: PlayState, command: str) -> None:
    ask_and_show(play, "Bash", command, {"command": command})


def _quote_word(word: str) -> str:
    """Quote like shlex.quote, whose import takes longer than a run."""
    if (
        word
        and not word.startswith("~")
        and all(sign.isascii() and (sign.isalnum() or sign in UNQUOTED) for sign in word)
    ):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def _find_refusal(play: PlayState, tool: str, tool_input: Mapping[str, Any], call: str) -> str:
    """Ask the hook. Return why it refuses; "" when it allows, which only exit code 0 does."""
    if not os.environ.get("BLUEFLAME_HOOK_PORT"):
        return "" if not play.watched else "no watcher to ask: refused"
    hook = os.environ.get("BLUEFLAME_HOOK")
    if not hook:
        return "BLUEFLAME_HOOK is not set: refused"
    asked = {
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": tool_input,
        "tool_use_id": call,
        "cwd": os.getcwd(),  # noqa: PTH109
    }
    try:
        code, printed = _run_hook(hook, json.dumps(asked).encode())
    except OSError as e:
        return f"the hook cannot be asked: {e.strerror}"
    if _find_signal(code) in (signal.SIGKILL, signal.SIGTERM):
        raise StepFailed(f"the hook was killed ({code})", code)
    return "" if code == 0 else printed.decode("utf-8", "replace").strip()[:MAX_REASON] or f"the hook ended with {code}"


def _run_hook(hook: str, question: bytes) -> tuple[int, bytes]:
    """Run the hook. It reads the whole question before it answers, so there is no deadlock."""
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
    _write_and_close(ask, question)
    printed = _read_all(answered)
    os.close(answered)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), printed


def _write_and_close(handle: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(handle, data) :]
    except BrokenPipeError:
        pass  # it has already decided; its exit code is the decision
    finally:
        os.close(handle)


def _compute_digest(tool_input: Mapping[str, Any]) -> str:
    """Compute what model/audit computes, which cannot be imported here: output and audit log are compared by it."""
    from hashlib import sha256  # as slow to load as json, and only needed for calls

    text = json.dumps(tool_input, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _write_ledger_line(attempt: str, what: str) -> None:
    """Write one line per start and end, in one write: the count shows whether an attempt ran twice."""
    path = os.environ.get("BLUEFLAME_LEDGER")
    if not path:
        return
    name = attempt or os.environ.get("BLUEFLAME_ATTEMPT", "")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(handle, f"{what} {name} {os.getpid()}\n".encode())
    os.close(handle)


def _read_all(handle: int) -> bytes:
    parts = []
    while part := os.read(handle, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _write_file(path: str, text: str, mode: str) -> None:
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    with open(path, mode, encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)


def _read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        raise StepFailed(f"expect: {path} does not exist") from None


def _find_note_path(locks: list[str], name: str) -> tuple[str, bool]:
    """Return a path inside the first lock, and whether it is a new file."""
    lock = locks[0] if locks else "."
    still = lock.split("*", 1)[0].split("?", 1)[0].split("[", 1)[0]
    place = still if still == lock or still.endswith("/") else os.path.dirname(still)
    if not place or place.endswith("/") or os.path.isdir(place):
        return os.path.join(place, name), True
    return place, not os.path.exists(place)


def _find_comment_form(path: str) -> str:
    return next((form for form, ends in COMMENT_FORMS.items() if path.endswith(ends)), "{}")


def _run_program(argv: list[str], timeout: float = 0) -> int:
    """Run it with its output on our stderr: stdout is for lines of JSON."""
    actions = [(os.POSIX_SPAWN_DUP2, 2, 1), (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
    try:
        pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions, setsigdef=IGNORED_BY_PYTHON)
    except FileNotFoundError:
        raise StepFailed(f"{argv[0]} is not on PATH") from None
    if timeout:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, timeout)
    _, status = os.waitpid(pid, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
