from __future__ import annotations

from blueflame.checks.leftovers import Leftovers, describe_leftovers, find_leftover_violations, find_validator_changes
from blueflame.model.verdict import Violation

SHA, OTHER = "a" * 40, "b" * 40


def test_nothing_left_is_nothing_to_tell() -> None:
    assert not Leftovers()
    assert describe_leftovers(Leftovers()) == ""
    assert find_leftover_violations(Leftovers(), ["**"]) == ()


def test_leftovers_are_a_note_and_no_violation() -> None:
    left = Leftovers(changed=("src/a.py", "мой файл"), untracked=("build/",))
    assert describe_leftovers(left) == "left uncommitted: 2 changed (src/a.py, мой файл); 1 untracked (build/)"
    assert find_leftover_violations(left, [".env*"]) == ()


def test_of_many_leftovers_the_first_are_named() -> None:
    note = describe_leftovers(Leftovers(untracked=tuple(f"{n:02d}" for n in range(15))))
    assert note == "left uncommitted: 15 untracked (00, 01, 02, 03, 04, 05, 06, 07, 08, 09 and 5 more)"


def test_a_blocked_path_may_not_even_be_touched() -> None:
    left = Leftovers(changed=("go.mod", "src/a.go"), untracked=("deep/.ENV", "secrets/"))
    found = find_leftover_violations(left, [".env*", "go.mod", "secrets/**"])
    assert [one.path for one in found] == ["deep/.ENV", "go.mod", "secrets/"]
    assert found[1] == Violation(rule="blocked_path_modified", path="go.mod", detail="changed and left uncommitted")


def test_what_was_there_before_the_agent_is_not_its_own() -> None:
    before = Leftovers(changed=("package-lock.json",), untracked=("dist/",))
    after = Leftovers(changed=("a.py", "package-lock.json"), untracked=("b.py", "dist/"))
    assert after.subtract(before) == Leftovers(changed=("a.py",), untracked=("b.py",))


def test_a_validator_that_changed_nothing_broke_nothing() -> None:
    left = Leftovers(untracked=(".coverage", ".pytest_cache/"))
    assert find_validator_changes(left, head=SHA, expected=SHA) == ()


def test_a_validator_that_edited_or_committed_is_reported_by_path() -> None:
    found = find_validator_changes(Leftovers(changed=("src/a.py",)), head=OTHER, expected=SHA)
    assert [(one.rule, one.path) for one in found] == [
        ("validator_changed_tree", "HEAD"),
        ("validator_changed_tree", "src/a.py"),
    ]
    (gone,) = find_validator_changes(Leftovers(), head=None, expected=SHA)
    assert gone.detail == f"HEAD is missing, and it was {SHA} before"
