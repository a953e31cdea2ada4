"""Read contents of files from the object store, many at once: no attribute, filter or work tree interferes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blueflame.git.command import GIT_SETTING_ARGS, build_environment, build_git_error, run_git, split_nul
from blueflame.git.repository import Repository
from blueflame.model.errors import GitFailed
from blueflame.system.process import ProcessResult, run_bytes

GIT_TIMEOUT = 300.0
MAX_FILE_BYTES = 16_000_000  # larger files are left out
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
SAMPLE_BYTES = 8000  # enough to detect the encoding of a text; git looks at as many for a NUL


def decode_text(data: bytes) -> str:
    """Decode as UTF-8 or UTF-16. Undecodable bytes are kept: a key among them is still found."""
    encoding = _detect_utf16(data[:SAMPLE_BYTES])
    return data.decode(encoding, "replace") if encoding else decode_bytes(data)


def decode_bytes(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def is_binary(data: bytes) -> bool:
    """Whether a file is not text, by its content: attributes, which an agent can write, do not decide."""
    encoding = _detect_utf16(data[:SAMPLE_BYTES])
    try:
        return "\0" in data.decode(encoding) if encoding else b"\0" in data[:SAMPLE_BYTES]
    except UnicodeDecodeError:
        return True


def _detect_utf16(head: bytes) -> str:
    """Return the encoding of UTF-16 text: it has a mark, or every other byte of Latin letters is zero."""
    if head[:2] in UTF16_MARKS:
        return "utf-16"
    for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        if len(zeros) >= 8 and zeros.count(0) > 0.9 * len(zeros):
            return encoding
    return ""


def read_blob_sizes(repo: Repository, shas: Sequence[str]) -> dict[str, int]:
    if not shas:
        return {}
    lines = run_git(repo.root, "cat-file", "--batch-check=%(objecttype) %(objectsize)", stdin="\n".join(shas) + "\n")
    sizes: dict[str, int] = {}
    for sha, line in zip(shas, lines.splitlines(), strict=True):
        kind, _, size = line.partition(" ")
        if kind != "blob":
            raise GitFailed(f"object {sha} in {repo.root} is not the content of a file: git reports {line!r}")
        sizes[sha] = int(size)
    return sizes


def read_blobs(repo: Repository, sizes: Mapping[str, int]) -> dict[str, bytes]:
    args = ("cat-file", "--batch=%(objectname)")
    names = "".join(f"{sha}\n" for sha in sizes)
    done = run_bytes(
        "git", *GIT_SETTING_ARGS, *args, cwd=repo.root, env=build_environment(), stdin=names, timeout=GIT_TIMEOUT
    )
    if done.code:
        raise build_git_error(repo.root, args, ProcessResult(done.code, "", done.err.decode("utf-8", "replace")))
    blobs: dict[str, bytes] = {}
    at = 0
    for sha, size in sizes.items():  # each is: its name, a line break, its bytes, a line break
        start = at + len(sha) + 1
        if done.out[at:start] != f"{sha}\n".encode():
            raise GitFailed(f"git cat-file in {repo.root} did not return the content of {sha}")
        blobs[sha] = done.out[start : start + size]
        at = start + size + 1
    return blobs


def read_files_at(repo: Repository, sha: str, paths: Sequence[str]) -> dict[str, bytes]:
    """Return those of the paths that are files in the commit, in the given order; large files are left out."""
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
