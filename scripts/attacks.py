"""Write docs/reference/attacks.md from the tables of tests/escape; with --check, exit 1 when it is stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "attacks.md"
TEMPLATE = Path(__file__).with_name("attacks.template.md")
sys.path.insert(0, str(ROOT / "tests"))

from escape.attack import GROUPS, WALLS, Attack, Group, Probe  # noqa: E402 (the tests are no package of ours)
from escape.contained import BITING, CONTAINED  # noqa: E402 (the same)
from escape.permitted.calls import CALLS  # noqa: E402 (the same)
from escape.permitted.works import WORKS  # noqa: E402 (the same)
from escape.table import ATTACKS  # noqa: E402 (the same)

ABOUT: dict[Group, str] = {
    "paths": "Names of files that lead elsewhere, and every way to write outside.",
    "links": "Symbolic and hard links, and races with them.",
    "shell": "Shell syntax, wrappers, and options that run or write something.",
    "git": "git's own ways to run programs: configuration, hooks, attributes, references, objects, worktree pointers.",
    "environment": "Variables that change which code runs.",
    "processes": "Signals, tracing, daemons, system calls, and the kernel's own switches.",
    "network": "Sockets of every family, names, the machine's own services.",
    "secrets": "Keys, tokens and other people's files: to read them, or to hand them in.",
    "resources": "Memory, processes, descriptors, files, disk, and what is left behind.",
    "tampering": "The watcher, its policy, the audit log, settings, the journal, and whatever runs later.",
    "output": "Code that an agent runs, to speak in the agent's name: a verdict, a result, a cost.",
    "model": "Requests that make a model's provider reach other hosts, run code, or charge another price.",
    "money": "Spending more than is counted, filling the gateway's memory, stopping the agents of others.",
    "requests": "What others send to the house: plan files, feeds, webhooks, chats, words to agents.",
}
PLACES = {"{tree}": "CHECKOUT", "{main}": "MAIN", "{home}": "HOME", "\\x0a": " ⏎ "}
MAX_LENGTH = 110


def build_page() -> str:
    parts = {
        "count": f"{len(ATTACKS):,}",
        "biting": str(sum(isinstance(attack.deed, Probe) and attack.deed.bites for attack in ATTACKS)),
        "contained": str(len(CONTAINED)),
        "reaching": str(len(BITING)),
        "honest": str(len(CALLS)),
        "works": str(len(WORKS)),
        "totals": "\n".join(list_totals()),
        "groups": "\n".join(line for group in GROUPS for line in format_table(group)).strip(),
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text


def list_totals() -> Iterator[str]:
    yield f"| group | {' | '.join(WALLS)} | all |"
    yield f"|---|{'---:|' * (len(WALLS) + 1)}"
    for group in GROUPS:
        yield _format_total(f"[{group}](#{group})", [attack for attack in ATTACKS if attack.group == group])
    yield _format_total("**tried**", ATTACKS)
    yield f"| **through** | {'0 | ' * (len(WALLS) + 1)}".rstrip()  # a test fails for each that is not stopped


def _format_total(name: str, rows: Sequence[Attack]) -> str:
    counts = [sum(attack.wall == wall for attack in rows) for wall in WALLS]
    return f"| {name} | {' | '.join(str(count or '') for count in counts)} | {len(rows)} |"


def format_table(group: Group) -> Iterator[str]:
    yield from (
        f"## {group}",
        "",
        ABOUT[group],
        "",
        "| attack | wall | what is tried | what holds |",
        "|---|---|---|---|",
    )
    for attack in sorted(ATTACKS, key=lambda attack: WALLS.index(attack.wall)):
        if attack.group == group:
            yield f"| `{attack.id}` | {attack.wall} | {_format_attack(attack)} | {_format_verdict(attack)} |"
    yield ""


def _format_attack(attack: Attack) -> str:
    """Commands as code; control characters are shown, never written."""
    text = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in attack.attack)
    for name, place in PLACES.items():
        text = text.replace(name, place)
    text = text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}…"
    text = text.replace("|", "\\|")
    return (
        f"`` {text} ``"
        if attack.wall == "watcher"
        else text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
    )


def _format_verdict(attack: Attack) -> str:
    return f"`{attack.rule}`" if attack.wall in ("watcher", "postcheck") else attack.rule


def find_differences() -> Iterator[str]:
    """What writing would change, line by line; nothing when the page is what the tables say."""
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    yield from unified_diff(
        before.splitlines(), build_page().splitlines(), PAGE.name, f"{PAGE.name} (as the tables are)", lineterm=""
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 with a diff when the page is stale")
    if not parser.parse_args(arguments).check:
        PAGE.write_text(build_page(), encoding="utf-8")
        print(f"written: {PAGE.relative_to(ROOT)}")
        return 0
    stale = list(find_differences())
    if stale:
        print("\n".join([*stale, "", "docs/reference/attacks.md is stale: run `make docs-write`"]))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
