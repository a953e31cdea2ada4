"""A small agent of the Agent Client Protocol that follows a list of steps: `python acp_agent.py STEPS`.

It logs the answers it gets, and changes nothing.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

_next_id = 0


def send_message(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def send_request(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Ask the client and wait for its answer."""
    global _next_id  # noqa: PLW0603 (a program of its own)
    _next_id += 1
    send_message({"id": f"a{_next_id}", "method": method, "params": {"sessionId": "s1", **params}})
    for line in sys.stdin:
        answer: dict[str, Any] = json.loads(line)
        if answer.get("id") == f"a{_next_id}":
            return answer
    raise SystemExit(3)


def play_steps(steps: list[dict[str, Any]], notes: Path) -> str:
    for step in steps:
        if "update" in step:
            send_message({"method": "session/update", "params": {"sessionId": "s1", "update": step["update"]}})
        elif "ask" in step:
            options = [{"optionId": kind, "name": kind, "kind": kind} for kind in step.get("options", OPTIONS)]
            answer = send_request("session/request_permission", {"toolCall": step["ask"], "options": options})
            write_note(notes, answer["result"]["outcome"])
        elif "request" in step:
            write_note(notes, send_request(step["request"], step.get("params", {})))
        elif "signal" in step:
            os.kill(os.getpid(), step["signal"])
        elif "print" in step:
            sys.stdout.write(step["print"] + "\n")
        elif "exit" in step:
            sys.stderr.write("no such library\n")
            raise SystemExit(step["exit"])
        elif "fail" in step:
            raise RuntimeError(step["fail"])
        elif "stop" in step:
            return str(step["stop"])
    return "end_turn"


OPTIONS = ("allow_always", "allow_once", "reject_once")


def write_note(notes: Path, what: object) -> None:
    with notes.open("a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def build_answer(asked: dict[str, Any], steps: list[dict[str, Any]], notes: Path) -> dict[str, Any]:
    match asked["method"]:
        case "initialize":
            write_note(notes, asked["params"].get("clientCapabilities") or {})
            return {"protocolVersion": 1, "agentCapabilities": {}}
        case "session/new":
            modes = {
                "currentModeId": "yolo",
                "availableModes": [{"id": each, "name": each} for each in ("yolo", "default")],
            }
            return {"sessionId": "s1", "modes": modes}
        case "session/set_mode":
            write_note(notes, asked["params"]["modeId"])
            return {}
        case "session/prompt":
            write_note(notes, asked["params"]["prompt"][0]["text"])
            return {"stopReason": play_steps(steps, notes)}
    raise RuntimeError(f"unexpected method {asked['method']}")


def main(argv: list[str]) -> None:
    folder = Path(argv[0])
    steps = json.loads((folder / "steps.json").read_text(encoding="utf-8"))
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked or "method" not in asked:
            continue
        try:
            send_message({"id": asked["id"], "result": build_answer(asked, steps, folder / "notes.jsonl")})
        except RuntimeError as e:
            send_message({"id": asked["id"], "error": {"code": -32000, "message": str(e)}})


if __name__ == "__main__":
    main(sys.argv[1:])
