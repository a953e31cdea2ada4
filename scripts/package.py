"""What hatchling adds to the package: the commit, the documentation and the addresses of the project."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

REMOTE = re.compile(r"(?:git@|https://)([\w.-]+)[:/]([\w./-]+?)(?:\.git)?")


class BuildHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"
    note: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # a source tree has its own docs and its own git
            return
        included = build_data["force_include"]
        docs = Path(self.root) / "docs"
        included[str(docs)] = "blueflame/docs"
        build_data["shared_data"][str(docs / "reference" / "blueflame.1")] = "share/man/man1/blueflame.1"
        if commit := _run_git(self.root, "rev-parse", "--short=10", "HEAD"):
            self.note = Path(tempfile.mkstemp(prefix="commit-")[1])
            self.note.write_text(f"{commit}\n", encoding="ascii")
            included[str(self.note)] = "blueflame/commit.txt"

    def finalize(self, _version: str, _build_data: dict[str, Any], _artifact_path: str) -> None:
        if self.note is not None:
            self.note.unlink(missing_ok=True)


class MetadataHook(MetadataHookInterface):
    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Where it is built says where it comes from; a copy without a remote has no addresses."""
        if found := _find_address(self.root):
            metadata["urls"] = {
                "Repository": found,
                "Documentation": f"{found}/blob/main/docs/index.md",
                "Changelog": f"{found}/blob/main/CHANGELOG.md",
                "Issues": f"{found}/issues",
            }


def _find_address(root: str) -> str:
    if "GITHUB_REPOSITORY" in os.environ:
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{os.environ['GITHUB_REPOSITORY']}"
    remote = REMOTE.fullmatch(_run_git(root, "remote", "get-url", "origin"))
    return f"https://{remote[1]}/{remote[2]}" if remote else ""


def _run_git(root: str, *args: str) -> str:
    """Empty without git, or outside of a repository."""
    if not (Path(root) / ".git").exists():  # an unpacked source distribution may lie in another repository
        return ""
    try:
        done = subprocess.run(["git", "-C", root, *args], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()
