"""Some files as a commit has them."""

from __future__ import annotations

from collections.abc import Sequence

from blueflame.git.blobs import read_blob_sizes, read_blobs
from blueflame.git.command import run_git, split_nul
from blueflame.git.repository import Repository

MAX_FILE_BYTES = 16_000_000  # bytes; nobody reads more


def read_files_at(repo: Repository, sha: str, paths: Sequence[str]) -> dict[str, bytes]:
    """Those of the paths that are files in the commit, in the order given; what is too large is left out."""
    if not paths:
        return {}
    form = "--format=%(objecttype) %(objectname) %(path)"
    out = run_git(repo.root, "--literal-pathspecs", "ls-tree", "-z", "-r", "--full-tree", form, sha, "--", *paths)
    listed = [entry.split(" ", 2) for entry in split_nul(out)]
    found = {path: blob for kind, blob, path in listed if kind == "blob"}
    sizes = {
        blob: size
        for blob, size in read_blob_sizes(repo, sorted(set(found.values()))).items()
        if size <= MAX_FILE_BYTES
    }
    contents = read_blobs(repo, sizes) if sizes else {}
    return {path: contents[found[path]] for path in paths if found.get(path) in contents}
