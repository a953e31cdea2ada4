"""Runs Claude Code on a terminal, inside the sandbox: pastes the prompt, prints the conversation, asks for the result.

    python terminal_driver.py PROGRAM.json

Standard input is the agent's terminal, which the warden holds and people connect to; claude runs on a second one, and
this program relays between them. It pastes the prompt when claude has switched on bracketed paste and raw mode, presses
Enter when the paste is on the screen, and takes the turn as ended when claude's Stop hook has run: none of this depends
on fixed waiting times. New entries of claude's transcript are printed to stdout in the format of print mode, so that
every call can be compared with the audit log and live views show what it does.

Standard library only and few imports, like the scripted player.
"""

# ruff: noqa: PTH103, PTH118, PTH123, S606 (pathlib would cost every start some 10 ms; no shell on purpose)
from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import sys
import termios
import time
import tty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType
    from typing import Any, NoReturn

NOTES_FOLDER = ".blueflame-talk"  # in HOME: written by claude's hooks
PASTE_MODE_ON = b"\x1b[?2004h"
PASTE_MODE_OFF = b"\x1b[?2004l"
RESUME_HINT = re.compile(rb"[^\r\n]*(?:Resume this session|--resume )[^\r\n]*[\r\n]*")
PASTE_START, PASTE_END, ENTER = b"\x1b[200~", b"\x1b[201~", b"\r"
POLL_SECONDS = 0.05  # for the notes and the transcript
ENTER_RETRY_SECONDS = 2.0  # then Enter is pressed again: claude may not have handled the paste before the first one
END_TIMEOUT = 10.0  # seconds for claude to end after SIGTERM
READ_SIZE = 65536
STARTING, PASTED, ENTERED, WORKING, OVER = range(5)


class Conversation:
    """One conversation. `alone`: it ends with its first turn; else when the person leaves it."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        self.argv: list[str] = program["talk"]
        self.alone = bool(program["alone"])
        self.prompt = _strip_control_bytes(_read_file(program["prompt"]))
        self.notes = os.path.join(os.environ["HOME"], NOTES_FOLDER)
        self.follower = TranscriptReader()
        self.failure = ""
        self.state = STARTING
        self.shown = b""
        self.typed = bytearray()  # not yet accepted by claude
        self.people = [0]  # the terminal's file descriptor while a person is connected
        self.entered_at = 0.0
        self.leaving = False  # claude has given up the keyboard
        self.pid = self.inner = -1
        self.status: int | None = None

    def run(self) -> None:
        os.makedirs(self.notes, exist_ok=True)
        tty.setraw(0, termios.TCSANOW)
        resized, _writer = _watch_window_size()
        self.pid, self.inner = pty.fork()
        if self.pid == 0:
            _exec_claude(self.argv)
        os.set_blocking(self.inner, False)  # during a long paste it prints much, which must be read
        self._resize_terminal()
        while self.status is None:
            self._relay(resized)
            self._advance()
            self._reap_claude()
        self.follower.print_new_lines()
        self._drain_output()

    def _relay(self, resized: int) -> None:
        writing = [self.inner] if self.typed else []
        ready, takes, _ = select.select([*self.people, self.inner, resized], writing, [], POLL_SECONDS)
        if resized in ready:
            os.read(resized, READ_SIZE)
            self._resize_terminal()
        if self.inner in ready:
            self._show_output()
        if takes:
            self._type_keys(b"")
        if 0 in ready:
            keys = _read_available(0)
            if not keys:
                self.people.clear()
            elif self.state >= WORKING:  # keys typed before that would mix with the prompt
                self._type_keys(keys)

    def _type_keys(self, keys: bytes) -> None:
        self.typed += keys
        try:
            del self.typed[: os.write(self.inner, self.typed)]
        except BlockingIOError:
            pass
        except OSError:  # EIO: claude has ended
            self.typed.clear()

    def _show_output(self) -> bool:
        data = _read_available(self.inner)
        if self.state < WORKING:
            self.shown += data
        _write_bytes(0, self._drop_resume_hint(data))
        return bool(data)

    def _drop_resume_hint(self, data: bytes) -> bytes:
        """Drop what claude prints when it is left: a command that works only inside this sandbox."""
        on, off = data.rfind(PASTE_MODE_ON), data.rfind(PASTE_MODE_OFF)
        if on != off:
            self.leaving = off > on
        return RESUME_HINT.sub(b"", data) if self.leaving else data

    def _advance(self) -> None:
        self.follower.print_new_lines(self._read_note("SessionStart"))
        if self.state == STARTING:
            if PASTE_MODE_ON in self.shown and _is_raw_mode(self.inner) and self._read_note("SessionStart"):
                self.shown = b""
                self._type_keys(PASTE_START + self.prompt + PASTE_END)
                self.state = PASTED
        elif self.state == PASTED:
            if self.shown and not self.typed:
                self._press_enter()
                self.state = ENTERED
        elif self.state == ENTERED:
            if self._read_note("UserPromptSubmit"):
                self.state = WORKING
            elif time.monotonic() - self.entered_at > ENTER_RETRY_SECONDS:
                self._press_enter()
        elif self.state == WORKING and self.alone and (self._read_note("Stop") or self._read_note("StopFailure")):
            self.failure = str((self._read_note("StopFailure") or {}).get("last_assistant_message") or "")
            self.state = OVER
            self._stop_claude()

    def _press_enter(self) -> None:
        self._type_keys(ENTER)
        self.entered_at = time.monotonic()

    def _read_note(self, event: str) -> dict[str, Any] | None:
        try:
            found = json.loads(_read_file(os.path.join(self.notes, event)))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else {}

    def _stop_claude(self) -> None:
        """End it by a signal: a dialog could take typed keys. The transcript is complete when its Stop hook runs."""
        os.kill(self.pid, signal.SIGTERM)
        give_up = time.monotonic() + END_TIMEOUT
        while self.status is None:
            if select.select([self.inner], [], [], POLL_SECONDS)[0]:
                self._show_output()
            if time.monotonic() > give_up:
                os.kill(self.pid, signal.SIGKILL)
            self._reap_claude()

    def _reap_claude(self) -> None:
        if self.status is not None:
            return
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.status = status

    def _drain_output(self) -> None:
        while select.select([self.inner], [], [], 0)[0] and self._show_output():
            pass

    def _resize_terminal(self) -> None:
        size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
        if any(size):
            fcntl.ioctl(self.inner, termios.TIOCSWINSZ, size)


class TranscriptReader:
    """Prints new entries of the transcript in the format of print mode."""

    def __init__(self) -> None:
        self.last_words = ""
        self._path = ""
        self._offset = 0

    def print_new_lines(self, started: Mapping[str, Any] | None = None) -> None:
        self._path = self._path or str((started or {}).get("transcript_path") or "")
        for line in self._read_new_lines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and entry.get("type") in ("assistant", "user") and not entry.get("isSidechain"):
                self._print_entry(entry)

    def _read_new_lines(self) -> list[bytes]:
        if not self._path:
            return []
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines()

    def _print_entry(self, entry: Mapping[str, Any]) -> None:
        line = {name: entry[name] for name in ("type", "message", "timestamp") if name in entry}
        message = entry.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        if entry["type"] == "assistant":
            texts = [str(block.get("text") or "") for block in blocks if block.get("type") == "text"]
            self.last_words = next((text for text in reversed(texts) if text.strip()), self.last_words)
        elif "toolUseResult" in entry:
            line["tool_use_result"] = entry["toolUseResult"]
        if "toolDenialKind" in entry:
            refused = {"permission_decision": {"decision": "reject", "source": entry["toolDenialKind"]}}
            line["tool_result_meta"] = [{"id": block.get("tool_use_id"), **refused} for block in blocks]
        _print_line(line)


def main(argv: list[str]) -> int:
    program = json.loads(_read_file(argv[0]))
    conversation = Conversation(program)
    conversation.run()
    if conversation.failure or (conversation.state < WORKING and not _is_success(conversation.status)):
        why = conversation.failure or f"claude ended before it had its prompt (wait status {conversation.status})"
        _print_line(
            {
                "type": "result",
                "is_error": True,
                "terminal_reason": "api_error" if conversation.failure else "",
                "result": why,
            }
        )
        return 1
    if program["ask"]:
        _write_bytes(0, b"\r\nThe conversation is over; writing its result.\r\n")
        return _exec_final_question(program["ask"], program["final"])
    _print_line(
        {
            "type": "result",
            "is_error": False,
            "terminal_reason": "completed",
            "result": conversation.follower.last_words,
        }
    )
    return 0


def _exec_claude(argv: list[str]) -> NoReturn:
    try:
        os.execvp(argv[0], argv)
    finally:
        os._exit(127)


def _is_success(status: int | None) -> bool:
    return status is not None and os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


def _exec_final_question(argv: list[str], final: str) -> int:
    """Resume the conversation in print mode, on our own output."""
    sys.stdout.flush()
    question = os.open(final, os.O_RDONLY)
    os.dup2(question, 0)
    os.execvp(argv[0], argv)


def _watch_window_size() -> tuple[int, int]:
    """Return a pipe that is readable after the window's size changed."""

    def ignore_signal(_number: int, _frame: FrameType | None) -> None:
        """The wakeup pipe is written only if there is a handler."""

    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGWINCH, ignore_signal)
    return reader, writer


def _is_raw_mode(terminal: int) -> bool:
    return not termios.tcgetattr(terminal)[3] & termios.ICANON


def _strip_control_bytes(text: bytes) -> bytes:
    """Remove control bytes, by which a prompt could end its paste or press a key."""
    return bytes(each for each in text.replace(b"\r", b"") if each >= 32 or each in b"\n\t").rstrip(b"\n")


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _read_available(handle: int) -> bytes:
    try:
        return os.read(handle, READ_SIZE)
    except OSError:  # EIO: the other side is closed
        return b""


def _write_bytes(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(handle, rest) :]
    except OSError:
        pass


def _print_line(line: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
