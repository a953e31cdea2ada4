"""Continue the conversation of an earlier attempt: read it from what that attempt printed, and let claude resume it.

It is read from our own record of the output, not from claude's files in the agent's HOME, which the agent can write.
Only claude's remarks between the messages come from there, as names and numbers: it words them itself. With them the
history is sent byte for byte as before, so that the provider's cache has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from uuid import NAMESPACE_URL, uuid5

from blueflame.agents.claude import resume_driver
from blueflame.agents.claude.stream import PARTIAL_PREFIX
from blueflame.agents.programs import build_python_command
from blueflame.agents.runtime import MAX_PARSED_BYTES, AgentBrief, AgentLaunch
from blueflame.system.files import read_json_object, read_plain_file, write_atomically
from blueflame.system.lines import SkippedBytes, read_spool_lines, split_lines

Entry: TypeAlias = Mapping[str, Any]
"""A message with its role, or a remark of claude's as its transcript has it."""

MAX_CONVERSATION_CHARS = 400_000  # about 100,000 tokens, half of the smallest context window
GIVEN_FILE = "claude-conversation.json"
TRANSCRIPTS = ".claude/projects"  # in the agent's HOME
WRITTEN_AT = "2000-01-01T00:00:00.000Z"  # claude requires a time and does not show it to the model
REMARKS = frozenset({"environment", "model", "date", "budget_usd"})
NAME = re.compile(r"[\w.+/:-]{0,60}( [\w.+-]{1,40})?")  # no sentence: an agent may have written it
MAX_TRANSCRIPT_BYTES = 16_000_000
SYNTHETIC = "<synthetic>"  # the model of messages that claude itself made up, such as an API error


def read_conversation(folder: Path) -> tuple[Entry, ...]:
    """Read the conversation of an ended attempt, with what it was given of it; nothing if there is nothing usable."""
    given = read_json_object(folder / GIVEN_FILE).get("messages") or []
    said = dict(_read_messages(folder / "stdout.log"))
    if not any(message["role"] == "assistant" for message in said.values()):
        return ()
    try:
        prompt = (folder / "prompt.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:  # cleaned up
        return ()
    remarks = _read_remarks(folder, said)
    spoken = (each for name, message in said.items() for each in (*remarks.get(name, ()), message))
    entries = (*given, {"role": "user", "content": prompt}, *spoken)
    return entries if len(json.dumps(entries)) <= MAX_CONVERSATION_CHARS else ()


def _read_messages(log: Path) -> Iterator[tuple[str, Entry]]:
    """With the id of each. Subagents have conversations of their own, which are not continued."""
    for number, line in enumerate(read_spool_lines(log, MAX_PARSED_BYTES)):
        if isinstance(line, SkippedBytes):
            continue
        entry = None if line.startswith(PARTIAL_PREFIX) else _parse_object(line)
        if entry is None or entry.get("type") not in ("user", "assistant") or entry.get("parent_tool_use_id"):
            continue
        message = entry.get("message")
        if isinstance(message, dict) and message.get("role") == entry["type"] and message.get("model") != SYNTHETIC:
            yield str(entry.get("uuid") or number), message


def _read_remarks(folder: Path, said: Container[str]) -> Mapping[str, Sequence[Entry]]:
    """Read the remarks that claude made before each message, by the id of the message."""
    found: dict[str, Sequence[Entry]] = {}
    waiting: list[Entry] = []
    path = next((folder / "home" / TRANSCRIPTS).glob(f"*/{name_session(folder.name)}.jsonl"), None)
    for line in split_lines(read_plain_file(path, MAX_TRANSCRIPT_BYTES)) if path else ():
        entry = _parse_object(line) or {}
        if entry.get("type") == "attachment":
            waiting += _list_remarks(entry.get("attachment"))
        elif entry.get("type") in ("user", "assistant"):
            if (name := str(entry.get("uuid"))) in said:
                found[name] = waiting
            waiting = []
    return found


def _list_remarks(found: object) -> list[Entry]:
    if not isinstance(found, dict) or found.get("type") not in REMARKS:
        return []
    kept = {key: value for key, value in found.items() if key != "text"}
    return [{"type": "attachment", "attachment": kept}] if _is_plain(kept) else []


def _is_plain(value: object, depth: int = 3) -> bool:
    """Whether there are only names and numbers in it."""
    if isinstance(value, dict | list) and depth:
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return all(_is_plain(each, depth - 1) for each in parts)
    return NAME.fullmatch(value) is not None if isinstance(value, str) else not isinstance(value, dict | list)


def _parse_object(line: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def name_session(attempt: str) -> str:
    """The id of claude's own session, after which it names its transcript."""
    return str(uuid5(NAMESPACE_URL, f"blueflame:{attempt}"))


def build_resumed_launch(launch: AgentLaunch, brief: AgentBrief, directory: Path) -> AgentLaunch:
    """Build a launch that resumes `brief.conversation`, or starts as `launch` does if claude refuses it."""
    session = name_session(brief.attempt)
    write_atomically(directory / GIVEN_FILE, json.dumps({"messages": brief.conversation}))
    program = directory / "claude-resume.json"
    fresh = [*launch.argv, "--no-session-persistence"]
    write_atomically(program, json.dumps({"resume": [*launch.argv, "--resume", session], "fresh": fresh}))
    folder = Path(resume_driver.__file__).parent
    slug = re.sub(r"[^A-Za-z0-9]", "-", brief.worktree)
    transcript = "".join(_format_transcript(brief.conversation, session, brief.worktree))
    return replace(
        launch,
        argv=build_python_command("resume_driver", (folder,), program),
        needs=(*launch.needs, folder, program),
        home={**launch.home, f"{TRANSCRIPTS}/{slug}/{session}.jsonl": transcript},
    )


def _format_transcript(conversation: Sequence[Entry], session: str, cwd: str) -> Iterator[str]:
    """Write it as claude does. Without a remark after the first message, it sends an empty one to its model."""
    first, *rest = ({"type": each["role"], "message": each} if "role" in each else each for each in conversation)
    if not rest or rest[0]["type"] != "attachment":
        rest.insert(0, {"type": "attachment", "attachment": {"type": "date", "date": WRITTEN_AT[:10]}})
    before = None
    for n, entry in enumerate((first, *rest)):
        this = str(uuid5(NAMESPACE_URL, f"{session}:{n}"))
        common = {"sessionId": session, "cwd": cwd, "timestamp": WRITTEN_AT, "userType": "external"}
        yield json.dumps({**entry, **common, "uuid": this, "parentUuid": before, "isSidechain": False}) + "\n"
        before = this
