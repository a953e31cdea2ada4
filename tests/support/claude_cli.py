"""The real claude binary in a closed network, with the loopback model as its API."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from blueflame.testing import LoopbackModel, ReceivedRequest, create_throwaway_repository
from support.closed_network import ClosedNetwork

KEY = "sk-loopback"
STREAM = ("--output-format", "stream-json", "--verbose", "--include-partial-messages")
SEALED = ("--setting-sources", "", "--strict-mcp-config", "--permission-prompts", "none")
Json = dict[str, Any]


@cache
def find_binary() -> Path | None:
    """The version of the wheel that contains it; None if that is not installed."""
    found = find_spec("claude_agent_sdk")
    place = Path(found.origin).parent / "_bundled/claude" if found and found.origin else None
    return place if place and place.exists() else None


@dataclass(frozen=True)
class ClaudeRun:
    """The results of one run."""

    code: int
    out: str
    err: str
    repo: Path
    home: Path
    asked: tuple[ReceivedRequest, ...]

    @property
    def lines(self) -> list[Json]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def results(self) -> list[Json]:
        return [line for line in self.lines if line["type"] == "result"]

    @property
    def result(self) -> Json:
        return self.results[-1]

    @property
    def tool_results(self) -> dict[str, str]:
        """The result of each call, as the model gets it, by the id of the call."""
        return {block["tool_use_id"]: _format_content(block["content"]) for block in self._blocks("tool_result")}

    @property
    def calls(self) -> list[Json]:
        """The calls in the stream."""
        blocks = (block for line in self.lines if line["type"] == "assistant" for block in line["message"]["content"])
        return [block for block in blocks if block["type"] == "tool_use"]

    def _blocks(self, kind: str) -> Iterator[Json]:
        for message in self.asked[-1].body["messages"] if self.asked else ():
            if isinstance(message["content"], list):
                yield from (block for block in message["content"] if block["type"] == kind)

    def events(self, kind: str, subtype: str = "") -> list[Json]:
        return [line for line in self.lines if line["type"] == kind and (not subtype or line.get("subtype") == subtype)]


def _format_content(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content)


@dataclass
class ClaudeWorkspace:
    """A repository, a home and a model for one conversation."""

    network: ClosedNetwork
    root: Path
    model: LoopbackModel
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.repo = create_throwaway_repository(self.root / "мой repo", {"README.md": "# sample\n"})
        self.home, self.scratch = self.root / "home", self.root / "T"
        self.home.mkdir()
        self.scratch.mkdir()
        for name, text in self.files.items():
            file = self.repo / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        given = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "TMPDIR": str(self.scratch),
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "DISABLE_AUTOUPDATER": "1",
            **self.env,
        }
        return {name: value for name, value in given.items() if value is not None}

    def argv(self, *flags: str) -> list[str]:
        return self.network.argv(str(find_binary()), "-p", *flags)

    def run(self, *flags: str, prompt: str = "go", timeout: float = 60, wrap: Sequence[str] = ()) -> ClaudeRun:
        """Run it to its end, with the prompt on its standard input."""
        before = len(self.model.requests)
        done = subprocess.run(
            [*wrap, *self.argv(*flags)],
            cwd=self.repo,
            env=self.environment,
            input=prompt,
            text=True,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        return ClaudeRun(done.returncode, done.stdout, done.stderr, self.repo, self.home, self.model.requests[before:])

    @contextmanager
    def talk(self, *flags: str) -> Iterator[Talk]:
        """Hold a conversation in one process."""
        argv = self.argv(*flags, "--input-format", "stream-json")
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, cwd=self.repo, env=self.environment, stdin=pipe, stdout=pipe, text=True) as claude:
            try:
                yield Talk(claude)
            finally:
                claude.terminate()


class Talk:
    """A conversation with claude, turn by turn."""

    def __init__(self, claude: subprocess.Popen[str]) -> None:
        assert claude.stdin
        assert claude.stdout
        self._to, self._lines = claude.stdin, map(json.loads, claude.stdout)
        self._seen: list[Json] = []
        self.asked: list[str] = []  # in dialogs

    def say(self, text: str) -> None:
        """Say it, and wait until the turn has ended."""
        self._to.write(json.dumps({"type": "user", "message": {"role": "user", "content": text}}) + "\n")
        self._to.flush()
        self._read_until("type", "result")

    def wait_for_servers(self) -> None:
        """Wait until its MCP servers have connected: as its first turn began, or with the event that follows."""
        begins = next(line for line in self._seen if line.get("subtype") == "init")
        connected = all(each["status"] == "connected" for each in begins["mcp_servers"])
        if not connected and all(line.get("subtype") != "commands_changed" for line in self._seen):
            self._read_until("subtype", "commands_changed")

    def _read_until(self, key: str, value: str) -> None:
        for line in self._lines:
            self._seen.append(line)
            if line["type"] == "control_request" and line["request"]["subtype"] == "elicitation":
                self._approve(line)
            if line.get(key) == value:
                return
        raise AssertionError(f"claude has ended without {value}")

    def _approve(self, dialog: Json) -> None:
        """Answer a dialog as its person."""
        self.asked.append(dialog["request"]["message"])
        answer = {"action": "accept", "content": {"choice": "approve", "note": ""}}
        response = {"subtype": "success", "request_id": dialog["request_id"], "response": answer}
        self._to.write(json.dumps({"type": "control_response", "response": response}) + "\n")
        self._to.flush()


@dataclass(frozen=True)
class ClaudeRunner:
    """Runs the real binary, each time in its own workspace."""

    network: ClosedNetwork
    folders: Callable[[str], Path]

    @contextmanager
    def place(
        self,
        *turns: Json,
        others: Sequence[Json] = (),
        files: Mapping[str, str] | None = None,
        env: Mapping[str, str | None] | None = None,
    ) -> Iterator[ClaudeWorkspace]:
        with LoopbackModel(build_model_script(*turns, others=others), listener=self.network.listen()) as model:
            yield ClaudeWorkspace(self.network, self.folders("claude"), model, files or {}, env or {})

    def run(
        self,
        *turns: Json,
        flags: Sequence[str] = (),
        prompt: str = "go",
        others: Sequence[Json] = (),
        files: Mapping[str, str] | None = None,
        env: Mapping[str, str | None] | None = None,
    ) -> ClaudeRun:
        with self.place(*turns, others=others, files=files, env=env) as place:
            return place.run(*flags, prompt=prompt)


def build_hook_settings(command: str, *, matcher: str = "*", **entry: object) -> Json:
    return {
        "disableAllHooks": False,
        "hooks": {"PreToolUse": [{"matcher": matcher, "hooks": [{"type": "command", "command": command} | entry]}]},
    }


def build_settings_flags(content: Mapping[str, Any]) -> tuple[str, str]:
    return "--settings", json.dumps(content)


def build_model_script(*turns: Json, others: Sequence[Json] = ()) -> Json:
    """Build a script that answers with these turns, unless one of the other scenarios matches."""
    return {"key": KEY, "scenarios": [*others, {"turns": list(turns)}]}
