from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blueflame.report.side_by_side import MAX_LINE, FileDiff, parse_diff
from support.sessions import git

MANY = 100_000


def files_of(text: str, *, most: int = MANY, per_file: int = MANY) -> tuple[FileDiff, ...]:
    return parse_diff(text, most_lines=most, most_per_file=per_file).files


def difference(repo: Path) -> str:
    git(repo, "add", "-A")
    argv = ["git", "-c", "core.quotePath=false", "diff", "--cached", "-M", "--no-color"]
    return subprocess.run(argv, cwd=repo, check=True, capture_output=True).stdout.decode("utf-8", "replace")


def commit(repo: Path) -> None:
    git(repo, "add", "-A")
    git(repo, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "x")


def sides(file: FileDiff) -> tuple[list[str], list[str]]:
    left = [pair.left.before + pair.left.changed + pair.left.after for pair in file.pairs if pair.left]
    right = [pair.right.before + pair.right.changed + pair.right.after for pair in file.pairs if pair.right]
    return left, right


def test_what_changed_within_a_line_is_marked(repo: Path) -> None:
    (repo / "a.py").write_text("one\ntwo = old(1)\nthree\n")
    commit(repo)
    (repo / "a.py").write_text("one\ntwo = newer(1)\nthree\nfour\n")
    (file,) = files_of(difference(repo))
    kinds = [pair.kind for pair in file.pairs]
    assert kinds == ["hunk", "same", "changed", "same", "added"]
    changed = file.pairs[2]
    assert changed.left is not None
    assert changed.right is not None
    assert (changed.left.changed, changed.right.changed) == ("old", "newer")
    assert (changed.left.number, changed.right.number) == (2, 2)


@pytest.mark.parametrize("name", ["a b.txt", 'quote".txt', "文\tтаб.txt", "new\nline", "b/b.txt", "--- a"])
def test_names_that_git_has_to_quote_are_read_back(repo: Path, name: str) -> None:
    (repo / name).parent.mkdir(exist_ok=True)
    (repo / name).write_text("text\n")
    (file,) = files_of(difference(repo))
    assert file.path == name


def test_renamed_deleted_binary_and_empty_files_have_their_names(repo: Path) -> None:
    (repo / "old.txt").write_text("".join(f"{n}\n" for n in range(40)))
    (repo / "gone.txt").write_text("x\n")
    commit(repo)
    (repo / "old.txt").rename(repo / "new.txt")
    (repo / "gone.txt").unlink()
    (repo / "data.bin").write_bytes(bytes(range(256)))
    (repo / "empty").touch()
    found = {file.path: file for file in files_of(difference(repo))}
    assert set(found) == {"new.txt", "gone.txt", "data.bin", "empty"}
    assert found["new.txt"].was == "old.txt"
    assert "binary" in found["data.bin"].notes


def test_what_is_left_out_is_counted(repo: Path) -> None:
    for name in "abc":
        (repo / name).write_text("".join(f"{n}\n" for n in range(50)))
    (repo / "d").write_text("x" * (MAX_LINE + 9) + "\n")
    text = difference(repo)
    found = parse_diff(text, most_lines=60, most_per_file=40)
    assert [(file.path, len(file.pairs), file.hidden) for file in found.files] == [("a", 40, 11), ("b", 20, 31)]
    assert found.hidden_files == 2
    assert "[9 more characters]" in sides(files_of(text)[-1])[1][0]


LINES = st.lists(
    st.sampled_from(["", "same", "-- a/x", "++ b/x", "@@ -1 +1 @@", "diff --git a/x b/x", "\\ No", "ё"]), max_size=12
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, LINES, st.booleans())
def test_both_sides_can_be_read_back(repo: Path, old: list[str], new: list[str], whole: bool) -> None:
    """Whatever lines say: none of them is taken for a heading. `whole`: the last line has an end."""
    end = "\n" if whole else ""
    before, after = repo / "before", repo / "after"
    before.write_text("\n".join(old) + end if old else "")
    after.write_text("\n".join(new) + end if new else "")
    argv = ["git", "diff", "--no-index", "--no-color", "-U99", "before", "after"]
    said = subprocess.run(argv, cwd=repo, capture_output=True, check=False).stdout.decode()
    if not said:
        return
    (file,) = files_of(said)
    left, right = sides(file)
    assert left == before.read_text().removesuffix("\n").split("\n") * bool(before.read_text())
    assert right == after.read_text().removesuffix("\n").split("\n") * bool(after.read_text())
