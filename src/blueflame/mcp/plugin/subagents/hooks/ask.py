"""Passes a call of a subagent to the watcher of its task, by the folder of the attempt. Any failure is a refusal.

Only the standard library: it runs with the python3 of the machine.
"""

import json
import os
import sys
import time
from pathlib import Path

SECONDS, POLL_SECONDS = 8.0, 0.02
WORKER = "blueflame-subagents:worker"
OWN_TOOLS = ("__take", "__hand_in")


def main() -> int:
    call = json.loads(sys.stdin.buffer.read())
    if call.get("agent_type") != WORKER:  # its name was only in the text of a call
        return 0
    if str(call.get("tool_name")).endswith(OWN_TOOLS):
        return 0
    folder = find_folder(call)
    if folder is None:
        return refuse("take a task of Blue Flame first (tool take), and use the absolute path of its checkout")
    name = f"{time.time_ns()}-{os.getpid()}"
    draft = folder / f"{name}.draft"
    draft.write_text(json.dumps(call), "utf-8")
    draft.replace(folder / "calls" / f"{name}.json")
    answer, until = folder / "answers" / name, time.monotonic() + SECONDS
    while not answer.exists():
        if time.monotonic() > until:
            return refuse("the watcher did not answer: the attempt may have ended; hand nothing in, and stop")
        time.sleep(POLL_SECONDS)
    code, _, words = answer.read_text("utf-8").partition("\n")
    if code != "0":
        return refuse(words.strip())
    sys.stdout.write(words)
    return 0


def find_folder(call: "dict[str, object]") -> "Path | None":
    """The folder of the task that this subagent has taken: the first checkout that it names stays its own."""
    top = Path(os.environ.get("CLAUDE_PROJECT_DIR") or str(call.get("cwd") or "."))
    tops = [each for each in (top, *top.parents) if (each / ".blueflame").is_dir()]
    agent, given = str(call.get("agent_id") or ""), call.get("tool_input")
    texts = [each for each in given.values() if isinstance(each, str)] if isinstance(given, dict) else []
    taken = sorted(tops[0].glob(".blueflame/attempts/*/home/subagent/taken")) if tops else []
    free = []
    for path in taken:
        owner = path.with_name("owner")
        if (path.parents[2] / "outcome.json").exists():
            continue
        if owner.exists() and owner.read_text("utf-8") == agent:
            return path.parent
        checkout = json.loads(path.read_text("utf-8"))["checkout"]
        if not owner.exists() and any(checkout in text for text in texts):
            free.append(owner)
    if len(free) != 1 or not agent:
        return None
    with free[0].open("x", encoding="utf-8") as file:
        file.write(agent)
    return free[0].parent


def refuse(words: str) -> int:
    sys.stderr.write(f"{words}\n")
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(refuse(f"refused, because the watcher could not be asked: {error}"))
