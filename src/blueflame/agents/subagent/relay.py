"""The program that runs in the place of a subagent, in its sandbox: it passes calls to the watcher and waits.

Only the standard library: it is imported as a single module. Its folder is in the HOME of the attempt, which the
plugin's hook reaches from outside: `calls/NAME.json` is a call, `answers/NAME` what the watcher answered.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER, CALLS, ANSWERS, TAKEN, HANDED_IN = "subagent", "calls", "answers", "taken", "handed-in"
POLL_SECONDS = 0.05
MAX_WORDS = 4_000
NEVER_ASKED = "no call of the subagent was watched: load the plugin blueflame-subagents, whose hook asks about each"


def main(argv: Sequence[str]) -> int:
    folder, asked = Path(argv[0]), 0
    while True:
        for call in sorted((folder / CALLS).glob("*.json")):
            answer_call(folder, call)
            asked += 1
        if (folder / HANDED_IN).exists():
            break
        time.sleep(POLL_SECONDS)
    if not asked:
        _print(type="error", text=NEVER_ASKED)
        return 1
    _print(type="say", text=(folder / HANDED_IN).read_text("utf-8", "replace")[:MAX_WORDS])
    return 0


def answer_call(folder: Path, path: Path) -> None:
    """Ask the watcher about a call, with the paths that it knows, and write its answer: exit code, line end, output."""
    checkout = json.loads((folder / TAKEN).read_text("utf-8"))["checkout"]
    call = json.loads(path.read_text("utf-8", "replace"))
    path.unlink()
    given = json.dumps(replace_text(place_call(call, checkout), checkout, str(Path.cwd())))
    asked = subprocess.run(
        [os.environ["BLUEFLAME_HOOK"]], input=given, capture_output=True, text=True, timeout=10, check=False
    )
    said = (asked.stdout or asked.stderr).replace(str(Path.cwd()), checkout)
    draft = folder / f"{path.stem}.draft"
    draft.write_text(f"{asked.returncode}\n{said}", "utf-8")
    draft.replace(folder / ANSWERS / path.stem)
    name = str(call.get("tool_use_id") or "")
    _print(type="action", tool=str(call.get("tool_name")), target="", call=name, denied=asked.returncode != 0)


def place_call(call: dict[str, Any], checkout: str) -> dict[str, Any]:
    """Let a call count as made in the checkout if it names a path there, or goes there first: a subagent has the
    current folder of its conversation. Any other call is judged by that folder, which is not its own."""
    found = call.get("tool_input")
    given = found if isinstance(found, dict) else {}
    named = [given.get(name) for name in ("file_path", "notebook_path", "path")]
    goes = [str(given.get("command", "")).startswith(f"cd {quote}{checkout}") for quote in ("", "'", '"')]
    if any(goes) or any(isinstance(each, str) and each.startswith(checkout) for each in named):
        return call | {"cwd": checkout}
    return call


def replace_text(value: Any, old: str, new: str) -> Any:  # noqa: ANN401 (any JSON)
    """Replace a text in every string of a JSON value."""
    if isinstance(value, dict):
        return {key: replace_text(each, old, new) for key, each in value.items()}
    if isinstance(value, list):
        return [replace_text(each, old, new) for each in value]
    return value.replace(old, new) if isinstance(value, str) else value


def _print(**message: object) -> None:
    print(json.dumps(message), flush=True)  # noqa: T201 (its output is the protocol)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
