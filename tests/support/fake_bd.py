"""A `bd` for tests, as Beads 1.0.5 documents it: it checks its arguments and answers in the documented formats.

Written as a program of its own into a folder for PATH. What it was asked is in `calls.jsonl` beside it; how it should
behave is in `behaviour.json` there: `legacy` answers without the envelope, `version`, `fail` names a command that fails
(on stdout or stderr), `hang` one that never ends, `die_after` one after which it is as if we had been killed.
"""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = r"""
import json, os, sys, time
from pathlib import Path

HOME = Path(__file__).parent
BEHAVIOUR = json.loads((HOME / "behaviour.json").read_text())
NEEDS = {
    "create": {"-t", "-p", "-l", "--metadata", "--body-file"},
    "close": {"--reason", "--session"},
    "remember": {"--key"},
}
VALUED = {"-t", "-p", "-l", "--metadata", "--body-file", "--reason", "--session", "--label", "--label-any", "--sort",
          "--limit", "--key", "--set-metadata"}
BARE = {"--json", "--quiet", "--stealth", "--skip-agents", "--skip-hooks", "--non-interactive", "--all", "--flat"}

def answer(data):
    if "--json" not in sys.argv:
        return
    if os.environ.get("BD_JSON_ENVELOPE") == "1" and not BEHAVIOUR.get("legacy"):
        data = {"schema_version": 1, "data": data}
    elif isinstance(data, dict):
        data = {**data, "schema_version": 1}
    print(json.dumps(data))

def fail(words, code=1, stream=sys.stderr, hint=""):
    print(json.dumps({"error": words, "schema_version": 1, **({"hint": hint} if hint else {})}), file=stream)
    sys.exit(code)

def parse(argv):
    words, options = [], {}
    argv = list(argv)
    while argv:
        each = argv.pop(0)
        if each in VALUED:
            if each in options and each != "--set-metadata":
                fail(f"flag given twice: {each}")
            options.setdefault(each, []).append(argv.pop(0))
        elif each in BARE:
            options[each] = [""]
        elif each.startswith("-") and each != "-" and each != "-p":
            fail(f"unknown flag: {each}")
        else:
            words.append(each)
    return words, {name: values if name == "--set-metadata" else values[0] for name, values in options.items()}

def main():
    command = sys.argv[1]
    stdin = sys.stdin.read()
    ours = {name: value for name, value in os.environ.items() if name.startswith(("BEADS", "BD_"))}
    called = {"argv": sys.argv[1:], "stdin": stdin, "env": ours}
    with (HOME / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps(called) + "\n")
    if BEHAVIOUR.get("hang") == command:
        time.sleep(3600)
    if command == "version":
        print(f"bd version {BEHAVIOUR.get('version', '1.0.5')} (dev)")
        return
    if BEHAVIOUR.get("fail") == command:
        stream = sys.stdout if BEHAVIOUR.get("on_stdout") else sys.stderr
        fail("the database is locked", stream=stream, hint="try later")
    if BEHAVIOUR.get("babble") == command:
        print("Welcome to Beads!")
        return
    folder = Path(os.environ["BEADS_DIR"])
    if folder.name != ".beads" or not folder.is_absolute():
        fail("BEADS_DIR must be the .beads directory itself")
    if os.environ.get("BD_NON_INTERACTIVE") != "1":
        fail("this would ask a person")
    strange = {name for name in os.environ if name.startswith(("BEADS_", "BD_"))} - {
        "BEADS_DIR", "BEADS_ACTOR", "BD_NON_INTERACTIVE", "BD_JSON_ENVELOPE"}
    if strange:
        fail(f"would talk to another server: {strange}")
    book = folder / "book.json"
    if command == "init":
        if folder.exists():
            fail("already initialised", code=11)
        missing = {"--stealth", "--skip-agents", "--skip-hooks", "--non-interactive", "--quiet"} - set(sys.argv)
        if missing or sys.argv[-2:] != ["-p", "bf"]:
            fail(f"init would write into the repository: {missing}")
        folder.mkdir(parents=True)
        book.write_text(json.dumps({"issues": [], "memories": {}}))
        return
    if not folder.is_dir():
        fail("no beads database found", hint="run bd init")
    kept = json.loads(book.read_text())
    words, options = parse(sys.argv[2:])
    missing = NEEDS.get(command, set()) - set(options)
    if missing:
        fail(f"{command} lacks {missing}")
    COMMANDS[command](kept, words, options, stdin)
    book.write_text(json.dumps(kept))
    if BEHAVIOUR.get("die_after") == command:
        sys.exit(137)

def create(kept, words, options, stdin):
    (title,) = words
    if len(title) > 500 or not options["--metadata"].startswith("@/") or options["--body-file"] != "-" or not stdin:
        fail("bad arguments of create")
    issue = {"id": f"bf-{len(kept['issues']) + 1:x}", "title": title, "description": stdin, "status": "open",
             "priority": int(options["-p"]), "issue_type": options["-t"], "labels": options["-l"].split(","),
             "metadata": json.loads(Path(options["--metadata"][1:]).read_text()),
             "created_at": "2026-11-16T00:00:00Z", "updated_at": "2026-11-16T00:00:00Z"}
    kept["issues"].append(issue)
    answer(issue)

def find(kept, name):
    found = [each for each in kept["issues"] if each["id"] == name]
    return found[0] if found else fail(f"issue not found: {name}")

def close(kept, words, options, stdin):
    issue = find(kept, *words)
    issue.update(status="closed", close_reason=options["--reason"], closed_by_session=options["--session"])
    answer([issue])

def update(kept, words, options, stdin):
    issue = find(kept, *words)
    for each in options["--set-metadata"]:
        name, _, value = each.partition("=")
        issue["metadata"][name] = value
    answer([issue])

def list_(kept, words, options, stdin):
    every = set(options.get("--label-any", "").split(",")) - {""}
    rows = [each for each in kept["issues"]
            if options.get("--label") in (None, *each["labels"]) and (not every or every & set(each["labels"]))
            and ("--all" in options or each["status"] != "closed")]
    limit = int(options.get("--limit", "50"))
    answer(list(reversed(rows))[:limit] if limit else list(reversed(rows)))

def remember(kept, words, options, stdin):
    (text,) = words
    if " " not in text:
        fail("a bare word reads a memory, and no memory has that name")
    action = "updated" if options["--key"] in kept["memories"] else "remembered"
    kept["memories"][options["--key"]] = text
    answer({"key": options["--key"], "value": text, "action": action})

def memories(kept, words, options, stdin):
    part = words[0] if words else ""
    answer({key: text for key, text in kept["memories"].items() if part in key})

COMMANDS = {
    "create": create, "close": close, "update": update, "list": list_, "remember": remember, "memories": memories}
main()
"""


@dataclass(frozen=True)
class FakeBd:
    folder: Path
    beads: Path  # the .beads that it is expected to keep

    @property
    def program(self) -> Path:
        return self.folder / "bd"

    def behave(self, **how: object) -> None:
        (self.folder / "behaviour.json").write_text(json.dumps(how))

    def calls(self, command: str = "") -> list[dict[str, Any]]:
        path = self.folder / "calls.jsonl"
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [call for call in found if command in ("", call["argv"][0])]

    @property
    def issues(self) -> list[dict[str, Any]]:
        return list(self._book()["issues"])

    @property
    def memories(self) -> dict[str, str]:
        return dict(self._book()["memories"])

    def _book(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.beads / "book.json").read_text())
        return found


def make_bd(folder: Path, beads: Path, **how: object) -> FakeBd:
    folder.mkdir(parents=True, exist_ok=True)
    made = FakeBd(folder, beads)
    made.program.write_text(f"#!{sys.executable} -I\n{PROGRAM}")
    made.program.chmod(made.program.stat().st_mode | stat.S_IXUSR)
    made.behave(**how)
    return made


def keys(issues: Sequence[dict[str, Any]]) -> list[str]:
    return [issue["metadata"]["bf_key"] for issue in issues]
