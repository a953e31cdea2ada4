"""Some files as a commit has them."""

from __future__ import annotations

from collections.abc import Sequence

from blueflame.git.blobs import read_blobs, sizes_of
from blueflame.git.command import fields, git
from blueflame.git.repository import Repository

LARGEST = 16_000_000  # bytes; nobody reads more


def files_at(repo: Repository, sha: str, paths: Sequence[str]) -> dict[str, bytes]:
    """Those of the paths that are files in the commit, in the order given; what is too large is left out."""
    if not paths:
        return {}
    form = "--format=%(objecttype) %(objectname) %(path)"
    out = git(repo.root, "--literal-pathspecs", "ls-tree", "-z", "-r", "--full-tree", form, sha, "--", *paths)
    listed = [entry.split(" ", 2) for entry in fields(out)]
    found = {path: blob for kind, blob, path in listed if kind == "blob"}
    sizes = {blob: size for blob, size in sizes_of(repo, sorted(set(found.values()))).items() if size <= LARGEST}
    contents = read_blobs(repo, sizes) if sizes else {}
    return {path: contents[found[path]] for path in paths if found.get(path) in contents}
