"""What hatchling adds to the package: the commit, the documentation, and the addresses of the project."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!\w+:|#)([^)\s]+)\)")  # to a file of the repository
CLONE_ADDRESS = "<this repository>"
REMOTE = re.compile(r"(?:git@|https://)([\w.-]+)[:/]([\w./-]+?)(?:\.git)?")


class BuildHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"
    note: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # a source tree has its own docs and its own git
            return
        is_wheel = self.target_name == "wheel"
        included = build_data["force_include"]
        if is_wheel:
            docs = Path(self.root) / "docs"
            included[str(docs)] = "blueflame/docs"
            build_data["shared_data"][str(docs / "reference" / "blueflame.1")] = "share/man/man1/blueflame.1"
        if commit := _run_git(self.root, "rev-parse", "--short=10", "HEAD"):
            descriptor, name = tempfile.mkstemp(prefix="commit-")
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{commit}\n")
            self.note = Path(name)
            # a wheel is built from the source distribution, which has no git: it finds the file among the sources
            included[name] = "blueflame/commit.txt" if is_wheel else "src/blueflame/commit.txt"

    def finalize(self, _version: str, _build_data: dict[str, Any], _artifact_path: str) -> None:
        if self.note is not None:
            self.note.unlink(missing_ok=True)


class MetadataHook(MetadataHookInterface):
    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Where it is built says where it comes from; a copy without a remote has no addresses."""
        found = _find_address(self.root)
        metadata["readme"] = {"content-type": "text/markdown", "text": _read_readme(self.root, found)}
        if found:
            metadata["urls"] = {
                "Repository": found,
                "Documentation": f"{found}/blob/main/docs/index.md",
                "Changelog": f"{found}/blob/main/CHANGELOG.md",
                "Issues": f"{found}/issues",
            }


def _read_readme(root: str, address: str) -> str:
    """The README as a package index shows it: outside of the repository, so its links name the address."""
    text = (Path(root) / "README.md").read_text(encoding="utf-8")
    if not address:
        return text
    text = text.replace(CLONE_ADDRESS, address)
    return LINK.sub(lambda link: f"{link[1]}{link[2]}({address}/{'raw' if link[1] else 'blob'}/main/{link[3]})", text)


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
