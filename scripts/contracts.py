"""Record which sources the contract tests with the real claude last passed for: run them with `make contracts`.

They take minutes and change rarely: `make test` only checks (--check) that nothing which they prove has changed since.
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tests" / "contracts" / "claude" / "passed-for.txt"
SOURCES = (
    *("src/blueflame/agents/claude/*.py", "src/blueflame/agents/hook.*", "tests/contracts/claude/*.py"),
    "src/blueflame/mcp/plugin/**/*",
    *("tests/integration/agents/test_claude_runs.py", "tests/sessions/test_claude_sessions.py"),
)


def compute_digest() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pin = next(each for each in project["optional-dependencies"]["dev"] if each.startswith("claude-agent-sdk"))
    digest = hashlib.sha256(pin.encode())
    for path in sorted(
        path for pattern in SOURCES for path in ROOT.glob(pattern) if path.is_file() and path.suffix != ".pyc"
    ):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def main(arguments: list[str]) -> int:
    if "--check" not in arguments:
        RECORD.write_text(f"{compute_digest()}\n", encoding="utf-8")
        return 0
    if RECORD.exists() and RECORD.read_text(encoding="utf-8").strip() == compute_digest():
        return 0
    print("contracts are stale: the claude runtime, its pin or its contract tests changed. Run `make contracts`.")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
