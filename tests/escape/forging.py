"""Make commits that git itself would refuse to make: `python forging.py tree MODE NAME` in a checkout.

Objects and branch are written without git, as a hostile agent could do.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zlib
from pathlib import Path


def git(*args: str) -> str:
    return subprocess.run(["git", *args], check=True, capture_output=True, text=True).stdout.strip()


def keep(kind: str, data: bytes, name: str = "") -> str:
    """Write a loose object, under its own name or a false one."""
    whole = f"{kind} {len(data)}".encode() + b"\0" + data
    name = name or hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    path = Path(".git/objects") / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        path.chmod(0o644)
    path.write_bytes(zlib.compress(whole, 1))
    return name


def commit(
    tree: str, *, parent: str = "", author: bytes = b"A <a@example.org> 1700000000 +0000", extra: bytes = b""
) -> str:
    parent = parent or git("rev-parse", "HEAD")
    text = f"tree {tree}\nparent {parent}\n".encode() + b"author " + author + b"\ncommitter " + author + b"\n" + extra
    return keep("commit", text + b"\nfeat(task-001): forged\n")


def move(sha: str) -> None:
    """Move the branch without git."""
    ref = Path(".git") / Path(".git/HEAD").read_text().split()[1]
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_text(f"{sha}\n")


def tree_with(mode: str, name: bytes, target: str) -> str:
    """Build a tree of the last commit's files and one more entry."""
    raw = subprocess.run(["git", "cat-file", "tree", "HEAD^{tree}"], check=True, capture_output=True).stdout
    return keep("tree", raw + mode.encode() + b" " + name + b"\0" + bytes.fromhex(target))


def main(kind: str, *arguments: str) -> None:
    blob = keep("blob", b"evil\n")
    if kind == "tree":
        mode, name = arguments
        target = blob if mode != "40000" else keep("tree", b"100644 config\0" + bytes.fromhex(blob))
        move(commit(tree_with(mode, os.fsencode(name), target)))
    elif kind == "folder":  # src/NAME, where names are looked at less closely
        (name,) = arguments
        inner = keep("tree", b"100644 " + os.fsencode(name) + b"\0" + bytes.fromhex(blob))
        move(commit(tree_with("40000", b"zz", inner)))
    elif kind == "link":
        name, target = arguments
        move(commit(tree_with("120000", os.fsencode(name), keep("blob", os.fsencode(target)))))
    elif kind == "author":
        move(
            commit(
                git("rev-parse", "HEAD^{tree}"), author=arguments[0].encode().decode("unicode_escape").encode("latin-1")
            )
        )
    elif kind == "header":
        move(commit(git("rev-parse", "HEAD^{tree}"), extra=arguments[0].encode()))
    elif kind == "lie":  # under the name of another content
        name = git("rev-parse", "HEAD:src/1.txt")
        keep("blob", b"something else\n", name)
    elif kind == "bomb":  # half a gigabyte of zeros, compressed to nothing
        move(commit(tree_with("100644", b"zzz", keep("blob", bytes(int(arguments[0]) << 20)))))
    elif kind == "names":  # ten names for each name of the level below
        entry = (b"100644", blob)
        for _ in range(int(arguments[0])):
            rows = (entry[0] + f" {n}".encode() + b"\0" + bytes.fromhex(entry[1]) for n in range(10))
            entry = (b"40000", keep("tree", b"".join(rows)))
        move(commit(tree_with("40000", b"zz", entry[1])))
    elif kind == "missing":
        move(commit(tree_with("100644", b"zzz", "1" * 40)))
    else:
        raise SystemExit(f"{kind}?")


if __name__ == "__main__":
    main(*sys.argv[1:])
