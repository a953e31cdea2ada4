"""What a result adds, line by line, whatever the agent did to hide it from a patch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blueflame.checks.secrets.scan import AddedLine, Unscanned
from blueflame.git.added_lines import ReadLimits, read_added_lines
from blueflame.git.repository import Repository, open_repository
from blueflame.model.errors import GitFailed

Git = Callable[..., str]


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


def commit(git: Git, ours: Repository, message: str = "feat(task-001): work") -> str:
    git(ours.root, "add", "-A", "-f")
    git(ours.root, "commit", "-q", "--allow-empty", "-m", message)
    return git(ours.root, "rev-parse", "HEAD").strip()


def write(ours: Repository, path: str, content: str | bytes) -> None:
    place = ours.root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.encode() if isinstance(content, str) else content)


def added(ours: Repository, tip: str, base: str | None = None) -> list[AddedLine | Unscanned]:
    return list(read_added_lines(ours, base or ours.base_sha, tip))


def texts(found: list[AddedLine | Unscanned]) -> list[str]:
    return [line.text for line in found if isinstance(line, AddedLine)]


def test_nothing_is_added_by_nothing(ours: Repository, git: Git) -> None:
    assert added(ours, ours.base_sha) == []
    assert added(ours, commit(git, ours)) == []


def test_lines_carry_the_numbers_they_have_in_the_result(ours: Repository, git: Git) -> None:
    write(ours, "src/app.py", "import os\n\ndef answer():\n    return 43\n")
    assert added(ours, commit(git, ours)) == [
        AddedLine("src/app.py", 1, "import os"),
        AddedLine("src/app.py", 4, "    return 43"),
    ]


def test_a_last_line_without_an_end_is_a_line(ours: Repository, git: Git) -> None:
    write(ours, "a", "one\ntwo")
    assert texts(added(ours, commit(git, ours))) == ["one", "two"]


@pytest.mark.parametrize(
    "name",
    ["with space", 'quo"te', "new\nline", "tab\t", "кириллица/файл", "-rf", "b/a => c", "\\back", "a/b/{x => y}"],
)
def test_odd_names_come_out_as_they_are(ours: Repository, git: Git, name: str) -> None:
    write(ours, name, "x\n")
    assert added(ours, commit(git, ours)) == [AddedLine(name, 1, "x")]


def test_a_name_that_is_not_utf8_survives(ours: Repository, git: Git) -> None:
    (ours.root / os.fsdecode(b"caf\xe9")).write_text("x\n")
    (line,) = added(ours, commit(git, ours))
    assert os.fsencode(line.path) == b"caf\xe9"


def test_a_line_added_and_removed_again_is_reported_with_its_commit(ours: Repository, git: Git) -> None:
    write(ours, "src/ключ.py", "key\n")
    leak = commit(git, ours)
    (ours.root / "src/ключ.py").unlink()
    assert added(ours, commit(git, ours)) == [AddedLine("src/ключ.py", 1, "key", leak)]


def test_a_line_of_the_result_is_reported_without_a_commit(ours: Repository, git: Git) -> None:
    write(ours, "a", "key\n")
    leak = commit(git, ours)
    write(ours, "a", "first\nkey\n")
    found = added(ours, commit(git, ours))
    assert found == [AddedLine("a", 1, "first"), AddedLine("a", 2, "key"), AddedLine("a", 1, "key", leak)]


def test_lines_that_the_base_has_are_not_added_by_moving_or_renaming_them(ours: Repository, git: Git) -> None:
    write(ours, "old name", "".join(f"line {n}\n" for n in range(50)))
    base = commit(git, ours)
    (ours.root / "old name").rename(ours.root / "new name")
    write(ours, "new name", "".join(f"line {n}\n" for n in reversed(range(50))) + "news\n")
    write(ours, "src/app.py", "    return 42\ndef answer():\n")
    assert texts(added(ours, commit(git, ours), base)) == ["news"]


@pytest.mark.parametrize(
    "attributes", ["* binary", "* -diff", "* -text", "* diff=hide", "* text eol=crlf working-tree-encoding=UTF-16LE"]
)
def test_attributes_hide_nothing(ours: Repository, git: Git, attributes: str) -> None:
    git(ours.root, "config", "diff.hide.textconv", "true")
    git(ours.root, "config", "diff.hide.command", "true")
    git(ours.root, "config", "diff.external", "true")
    write(ours, "src/app.py", "key\n")
    tip = commit(git, ours)
    write(ours, ".gitattributes", f"{attributes}\n")
    write(ours, "docs/.gitattributes", "* -diff\n")
    assert AddedLine("src/app.py", 1, "key") in added(ours, tip)


def test_a_zero_byte_does_not_hide_the_lines_around_it(ours: Repository, git: Git) -> None:
    write(ours, "a.bin", b"\0\1\2\nkey\n\xff\n")
    # the last is what the first would be without its zeros, as UTF-16 has them
    assert texts(added(ours, commit(git, ours))) == ["\0\1\2", "key", "\udcff", "\1\2"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_wide_letters_are_read(ours: Repository, git: Git, encoding: str) -> None:
    write(ours, "a.txt", "first line\nthe key\n".encode(encoding))
    assert "the key" in texts(added(ours, commit(git, ours)))


def test_where_a_link_points_is_read_and_a_submodule_has_no_lines(ours: Repository, git: Git) -> None:
    (ours.root / "link").symlink_to("some/key")
    git(ours.root, "update-index", "--add", "--cacheinfo", f"160000,{ours.base_sha},sub")
    (ours.root / "sub").mkdir()
    git(ours.root, "add", "link")
    git(ours.root, "commit", "-q", "-m", "feat(task-001): link")
    assert added(ours, git(ours.root, "rev-parse", "HEAD").strip()) == [AddedLine("link", 1, "some/key")]


def test_a_merge_adds_only_what_no_parent_has(ours: Repository, git: Git) -> None:
    git(ours.root, "checkout", "-q", "-b", "side")
    write(ours, "side.py", "from the side\n")
    commit(git, ours)
    git(ours.root, "checkout", "-q", "-b", "other", ours.base_sha)
    write(ours, "other.py", "from the other\n")
    commit(git, ours)
    git(ours.root, "merge", "-q", "--no-commit", "--no-ff", "side")
    write(ours, "side.py", "from the side\nslipped into the merge\n")
    merge = commit(git, ours)
    write(ours, "side.py", "from the side\n")
    found = added(ours, commit(git, ours))
    assert [line for line in found if merge in line] == [AddedLine("side.py", 2, "slipped into the merge", merge)]
    assert texts([line for line in found if "" in line]) == ["from the other", "from the side"]


def test_a_history_without_beginning_in_ours_is_read_too(ours: Repository, git: Git) -> None:
    git(ours.root, "checkout", "-q", "--orphan", "alone")
    git(ours.root, "rm", "-q", "-r", "-f", ".")
    write(ours, "alone.py", "key\n")
    alone = commit(git, ours)
    git(ours.root, "checkout", "-q", "-b", "joined", ours.base_sha)
    git(ours.root, "merge", "-q", "--allow-unrelated-histories", "-s", "ours", "-m", "feat: join", alone)
    assert added(ours, git(ours.root, "rev-parse", "HEAD").strip()) == [AddedLine("alone.py", 1, "key", alone)]


def test_a_file_that_is_too_large_is_reported_and_the_others_are_read(ours: Repository, git: Git) -> None:
    write(ours, "big", "x" * 2000)
    write(ours, "small", "key\n")
    found = list(read_added_lines(ours, ours.base_sha, commit(git, ours), limits=ReadLimits(file=1000)))
    assert found[0] == Unscanned("big", "too large to be searched for secrets: 2000 bytes, at most 1000 bytes are read")
    assert found[1:] == [AddedLine("small", 1, "key")]


def test_a_result_that_is_too_large_is_reported(ours: Repository, git: Git) -> None:
    for n in range(5):
        write(ours, f"{n}", f"{n}" * 500)
    (found,) = read_added_lines(ours, ours.base_sha, commit(git, ours), limits=ReadLimits(total=1000))
    assert isinstance(found, Unscanned)
    assert "more than 1000 bytes" in found.reason


def test_a_commit_that_is_not_there_is_a_failure_and_no_empty_answer(ours: Repository) -> None:
    with pytest.raises(GitFailed):
        added(ours, "1" * 40)
    with pytest.raises(GitFailed):
        added(ours, ours.base_sha, "2" * 40)


def test_an_object_that_is_missing_is_a_failure(ours: Repository, git: Git) -> None:
    write(ours, "a", "key\n")
    tip = commit(git, ours)
    blob = git(ours.root, "rev-parse", f"{tip}:a").strip()
    (ours.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(GitFailed):
        added(ours, tip)


TEXT = st.lists(st.sampled_from(["a", "b", "c", "key", "ключ", " a"]), max_size=6).map("\n".join)


@given(st.lists(st.dictionaries(st.sampled_from(["x", "y z"]), TEXT, min_size=1), min_size=1, max_size=4))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_line_of_every_commit_existed_before_or_is_reported(
    ours: Repository, git: Git, story: list[dict[str, str]]
) -> None:
    git(ours.root, "checkout", "-q", "-f", "--detach", ours.base_sha)
    for files in story:
        for name, text in files.items():
            write(ours, name, text)
        tip = commit(git, ours)
    result = {(line.path, line.text) for line in added(ours, tip) if isinstance(line, AddedLine)}
    assert result == {
        (name, line) for files in story for name, text in files.items() for line in text.split("\n") if line
    }
