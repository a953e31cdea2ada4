"""What identifies a project on every machine: its first commit and where it comes from."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

from blueflame.git.command import run_git, try_git


def compute_project_id(root: Path, branch: str) -> str:
    """Two clones of a remote have the same; a fork and an unrelated project do not."""
    first = min(run_git(root, "rev-list", "--max-parents=0", branch, "--").split(), default="")
    remote = try_git(root, "config", "--get", "remote.origin.url").out.strip()
    return sha256(f"{first}\n{normalize_remote(remote)}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def normalize_remote(url: str) -> str:
    """Return the same for https and ssh, and without a password: host/owner/name."""
    plain = re.sub(r"^[a-z+]+://", "", url)
    plain = re.sub(r"^[^@/]*@", "", plain)
    host, colon, path = plain.partition(":")
    if colon and "/" not in host and not path.startswith(("/", "\\")):
        plain = f"{host}/{re.sub(r'^[0-9]+/', '', path)}"  # git@host:owner/name, or a port
    return plain.removesuffix("/").removesuffix(".git").lower()
