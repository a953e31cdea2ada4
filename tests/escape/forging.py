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

EVIL = ""  # the name of a file of evil content


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


def below_src(inner: str) -> str:
    """Build a tree of the last commit's files with src/zz, which is in the scope of the task."""
    for where, name in (("HEAD:src", "zz"), ("HEAD", "src")):
        others = [line for line in git("ls-tree", where).splitlines() if not line.endswith(f"\t{name}")]
        text = "\n".join([*others, f"040000 tree {inner}\t{name}", ""])
        made = subprocess.run(["git", "mktree", "--missing"], check=True, capture_output=True, text=True, input=text)
        inner = made.stdout.strip()
    return inner


def unescape(text: str) -> bytes:
    return text.encode().decode("unicode_escape").encode("latin-1")


def forge_tree(mode: str, name: str) -> None:
    target = EVIL if mode != "40000" else keep("tree", b"100644 config\0" + bytes.fromhex(EVIL))
    move(commit(tree_with(mode, os.fsencode(name), target)))


def forge_folder(name: str) -> None:
    """zz/NAME, where names are looked at less closely."""
    inner = keep("tree", b"100644 " + os.fsencode(name) + b"\0" + bytes.fromhex(EVIL))
    move(commit(tree_with("40000", b"zz", inner)))


def forge_link(name: str, target: str) -> None:
    move(commit(tree_with("120000", os.fsencode(name), keep("blob", os.fsencode(target)))))


def forge_author(author: str) -> None:
    move(commit(git("rev-parse", "HEAD^{tree}"), author=unescape(author)))


def forge_lie() -> None:
    """Under the name of another content."""
    keep("blob", b"something else\n", git("rev-parse", "HEAD:src/1.txt"))


def forge_bomb(megabytes: str) -> None:
    """Zeros, compressed to nothing."""
    move(commit(tree_with("100644", b"zzz", keep("blob", bytes(int(megabytes) << 20)))))


def forge_zeros(count: str, megabytes: str) -> None:
    """So many files of zeros, each different by one byte."""
    rows = []
    for n in range(int(count)):
        name = keep("blob", bytes(int(megabytes) << 20) + b"%d" % n)
        rows.append(b"100644 %08d\0" % n + bytes.fromhex(name))
    move(commit(below_src(keep("tree", b"".join(rows)))))


def forge_names(levels: str) -> None:
    """Ten names for each name of the level below."""
    entry = (b"100644", EVIL)
    for _ in range(int(levels)):
        rows = (entry[0] + f" {n}".encode() + b"\0" + bytes.fromhex(entry[1]) for n in range(10))
        entry = (b"40000", keep("tree", b"".join(rows)))
    move(commit(below_src(entry[1])))


def forge_wide(names: str, commits: str = "1") -> None:
    """One tree of so many names, and another in each commit; as differences they are tiny."""
    rows = [b"100644 %08d\0" % n + bytes.fromhex(EVIL) for n in range(int(names))]
    for n in range(int(commits)):
        more = b"100644 z%08d\0" % n + bytes.fromhex(EVIL)
        move(commit(below_src(keep("tree", b"".join([*rows, more])))))


def forge_deep(folders: str) -> None:
    inner = keep("tree", b"100644 f\0" + bytes.fromhex(EVIL))
    for _ in range(int(folders)):
        inner = keep("tree", b"40000 d\0" + bytes.fromhex(inner))
    move(commit(below_src(inner)))


def forge_step(kind: str, *arguments: str) -> None:
    """What another kind forges, taken away by the next commit."""
    before = git("rev-parse", "HEAD")
    KINDS[kind](*arguments)
    move(commit(git("rev-parse", f"{before}^{{tree}}")))


def forge_entries(*entries: str) -> None:
    """src/zz with exactly these entries: MODE:NAME, or MODE:NAME:0 for the id that is all zeros."""
    rows = []
    for each in entries:
        mode, name, *null = each.split(":")
        target = keep("tree", b"100644 f\0" + bytes.fromhex(EVIL)) if mode.endswith("40000") else EVIL
        row = f"{mode} ".encode() + os.fsencode(name) + b"\0"
        rows.append(row + (bytes(20) if null else bytes.fromhex(target)))
    move(commit(below_src(keep("tree", b"".join(rows)))))


def forge_modules(text: str) -> None:
    raw = subprocess.run(["git", "cat-file", "tree", "HEAD^{tree}"], check=True, capture_output=True).stdout
    entry = b"100644 .gitmodules\0" + bytes.fromhex(keep("blob", unescape(text)))
    move(commit(keep("tree", entry + raw)))


def forge_missing() -> None:
    move(commit(tree_with("100644", b"zzz", "1" * 40)))


def forge_commit(text: str) -> None:
    """These bytes; {tree}, {parent} and {blob} are replaced."""
    about = {"tree": git("rev-parse", "HEAD^{tree}"), "parent": git("rev-parse", "HEAD"), "blob": EVIL}
    move(keep("commit", unescape(text.format(**about))))


def forge_headers(before: str, message: str = "a") -> None:
    """A whole commit with these lines before its message."""
    forge_commit(
        "tree {tree}\\nparent {parent}\\nauthor Ada <a@example.org> 1 +0000\\ncommitter Ada <a@example.org> 1 +0000\\n"
        f"{before}\\nfeat(task-001): {message}\\n"
    )


KINDS = {name.removeprefix("forge_"): forge for name, forge in list(globals().items()) if name.startswith("forge_")}

if __name__ == "__main__":
    EVIL = keep("blob", b"evil\n")
    KINDS[sys.argv[1]](*sys.argv[2:])
