from __future__ import annotations

import unicodedata
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.checks.postcheck import check_result
from blueflame.model.changes import Change, Commit
from blueflame.model.verdict import Violation
from blueflame.paths.naming_style import STYLES, is_well_named

EVERYTHING = ("**",)
free = partial(check_result, commits=(), enforce_scope=False, allowed_paths=EVERYTHING)


def added(path: str, *, binary: bool = False) -> Change:
    return Change(status="A", path=path, added=1, binary=binary)


def renamed(old: str, new: str) -> Change:
    return Change(status="R", path=new, old_path=old)


def link(path: str, target: str | None) -> Change:
    return Change(status="A", path=path, mode="120000", symlink=True, link_target=target, added=1)


def commit(subject: str, sha: str = "c0ffee") -> Commit:
    return Commit(sha=sha, author="ада", subject=subject, message=subject + "\n")


def broken(found: tuple[Violation, ...]) -> list[tuple[str, str]]:
    return [(one.rule, one.path) for one in found]


@pytest.mark.verification(43)
def test_no_changes_and_no_commits_break_nothing() -> None:
    assert check_result((), (), allowed_paths=("src/**",), commit_pattern="^x", require_tests=True) == ()


@pytest.mark.verification(15)
def test_changes_within_all_bounds_break_nothing() -> None:
    found = check_result(
        [added("src/мой файл.py"), Change(status="D", path="src/old.py"), renamed("src/a.py", "src/b.py")],
        [commit("feat(task-001): add it")],
        allowed_paths=("src/**",),
        blocked_paths=(".env*",),
        file_locks=("src",),
        commit_pattern=r"^(feat|fix)\(task-\d+\): .+",
        naming_style="snake_case",
        naming_globs=("lib/**",),
    )
    assert found == ()


def test_a_path_that_is_not_allowed_is_named_with_what_was_done_to_it() -> None:
    (found,) = free([Change(status="D", path="docs/a.md")], allowed_paths=("src/**",))
    assert found == Violation(rule="path_not_allowed", path="docs/a.md", detail="deleted")


def test_no_allowed_paths_allow_nothing() -> None:
    assert broken(free([added("anything")], allowed_paths=())) == [("path_not_allowed", "anything")]


@pytest.mark.verification(16)
def test_a_blocked_path_is_blocked_although_everything_is_allowed() -> None:
    found = free([added("anything"), added("deep/.env")], blocked_paths=(".env",))
    assert broken(found) == [("blocked_path_modified", "deep/.env")]


def test_both_names_of_a_rename_are_judged() -> None:
    found = free([renamed("secrets/key", "src/key")], allowed_paths=("src/**",), blocked_paths=("secrets/**",))
    assert broken(found) == [("blocked_path_modified", "secrets/key"), ("path_not_allowed", "secrets/key")]
    assert found[0].detail == "renamed to src/key"


@pytest.mark.parametrize(
    "path", [".ENV", "src/.Env.local", "SECRETS/key", unicodedata.normalize("NFD", "кафе́ й/x"), "a/.GIT/config"]
)
def test_letter_case_and_unicode_form_do_not_evade_a_block(path: str) -> None:
    blocked = (".env*", "secrets/", unicodedata.normalize("NFC", "кафе́ й/"))
    assert broken(free([added(path)], blocked_paths=blocked)) == [("blocked_path_modified", path)]


def test_a_link_in_the_place_of_a_blocked_folder_is_blocked() -> None:
    found = free([link("secrets", "README.md")], blocked_paths=("secrets/",))
    assert broken(found) == [("blocked_path_modified", "secrets")]


@pytest.mark.verification(17)
def test_only_what_the_locks_cover_is_in_scope() -> None:
    changes = [added("src/auth/a.py"), added("src/authority.py"), added("src/app.py"), renamed("src/app.py", "lib/x")]
    found = check_result(changes, (), allowed_paths=EVERYTHING, file_locks=("src/auth/", "src/app.py"))
    assert broken(found) == [("outside_file_scope", "lib/x"), ("outside_file_scope", "src/authority.py")]


def test_scope_is_not_asked_for_when_it_is_not_enforced() -> None:
    assert free([added("lib/x.py")], file_locks=("src",)) == ()


def test_a_task_without_locks_has_the_whole_repository_locked() -> None:
    assert check_result([added("lib/x.py")], (), allowed_paths=EVERYTHING, file_locks=()) == ()


def test_a_name_with_brackets_is_a_name_and_not_a_pattern() -> None:
    assert broken(check_result([added("app/[id]/page.tsx")], (), allowed_paths=EVERYTHING, file_locks=("app/x",))) == [
        ("outside_file_scope", "app/[id]/page.tsx")
    ]


@pytest.mark.parametrize("target", ["app.py", "./lib/b", "../README.md", "../docs/a/b", "..", "a//b"])
def test_a_link_that_stays_inside_is_fine(target: str) -> None:
    assert free([link("src/link", target)], blocked_paths=(".env*",)) == ()


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/etc/passwd", "absolute"),
        ("../../x", "outside the repository"),
        ("../..", "outside the repository"),
        ("lib/../../../x", "has .. after a folder"),
        ("lib/..", "has .. after a folder"),
        ("../.env.local", "blocked path .env.local"),
        ("../.git/hooks", "blocked path .git/hooks"),
        (None, "its target could not be read"),
    ],
)
def test_a_link_that_may_lead_outside_is_refused(target: str | None, why: str) -> None:
    (found,) = free([link("src/link", target)], blocked_paths=(".env*",))
    assert found.rule == "symlink_escapes"
    assert why in found.detail


def test_a_file_that_became_a_link_is_judged_as_a_link() -> None:
    change = Change(status="T", path="src/app.py", symlink=True, link_target="/etc/passwd")
    assert broken(free([change])) == [("symlink_escapes", "src/app.py")]


def test_a_link_that_was_deleted_is_no_danger() -> None:
    assert free([Change(status="D", path="src/link", mode="000000")]) == ()


@pytest.mark.parametrize("status", ["A", "M", "T"])
def test_submodules_are_refused_however_they_come(status: str) -> None:
    change = Change(status=status, path="vendor/x", mode="160000", submodule=True)
    assert broken(free([change, added(".gitmodules")])) == [
        ("submodule_added", ".gitmodules"),
        ("submodule_added", "vendor/x"),
    ]


def test_a_binary_is_refused_unless_it_is_expected() -> None:
    changes = [added("src/a.so", binary=True), added("docs/a.png", binary=True), added("src/b.py")]
    assert broken(free(changes, expected_binaries=("*.png",))) == [("unexpected_binary", "src/a.so")]


def test_a_binary_that_goes_is_fine() -> None:
    assert free([Change(status="D", path="a.so", binary=True)]) == ()


def test_two_names_that_differ_by_case_only_collide() -> None:
    assert broken(free([added("src/App.py"), added("src/app.py")])) == [("case_collision", "src/app.py")]
    assert free([Change(status="D", path="src/App.py"), added("src/app.py")]) == ()


def test_only_new_files_must_follow_the_naming_style() -> None:
    changes = [
        added("src/BadName.go"),
        renamed("src/fine.go", "src/AlsoBad.go"),
        Change(status="M", path="src/OldName.go", added=1),
        added("docs/ReadMe.go"),
    ]
    found = free(changes, naming_style="snake_case", naming_globs=("src/**/*.go",))
    assert broken(found) == [("file_naming", "src/AlsoBad.go"), ("file_naming", "src/BadName.go")]


@pytest.mark.parametrize(
    ("style", "good", "bad"),
    [
        ("snake_case", "user_service.go user_service_test.go __init__.py отчёт_2.py .hidden_one", "userService a-b A"),
        ("kebab-case", "user-service.ts user-service.test.ts a1", "user_service UserService a--b"),
        ("camelCase", "userService.ts userService_test.go x", "UserService user_service user-service"),
        ("PascalCase", "UserService.cs UserService_test.cs X", "userService User_Service user-service"),
    ],
)
def test_each_style_knows_its_names(style: str, good: str, bad: str) -> None:
    assert [name for name in good.split() if not is_well_named(f"src/{name}", style)] == []
    assert [name for name in bad.split() if is_well_named(f"src/{name}.go", style)] == []


@given(st.sampled_from(sorted(STYLES)), st.text(min_size=1))
def test_any_name_at_all_can_be_judged(style: str, name: str) -> None:
    assert is_well_named(name, style) in (True, False)


needs_tests = partial(
    free, require_tests=True, source_patterns=("src/**",), test_patterns=("tests/**", "src/**/*_test.go")
)


def test_source_that_comes_without_a_test_is_named_once() -> None:
    (found,) = needs_tests([added("src/b.go"), added("src/a.go")])
    assert (found.rule, found.path) == ("missing_tests", "src/a.go")
    assert "and 1 more" in found.detail


@pytest.mark.parametrize("test", ["tests/test_a.py", "src/a_test.go"])
def test_a_test_that_was_added_to_is_enough(test: str) -> None:
    assert needs_tests([added("src/a.go"), added(test)]) == ()


def test_taking_tests_away_is_not_testing() -> None:
    cut = Change(status="M", path="tests/test_a.py", deleted=40)
    assert broken(needs_tests([added("src/a.go"), cut])) == [("missing_tests", "src/a.go")]
    gone = Change(status="D", path="tests/test_a.py", deleted=40)
    assert broken(needs_tests([added("src/a.go"), gone])) == [("missing_tests", "src/a.go")]


def test_moving_and_deleting_source_needs_no_test() -> None:
    assert needs_tests([renamed("src/a.go", "src/b.go"), Change(status="D", path="src/c.go", deleted=9)]) == ()


PATTERN = r"^(feat|fix|refactor|test|docs|chore)\(task-\d+\): .+"


@pytest.mark.verification(14)
def test_every_commit_must_be_worded_as_agreed() -> None:
    commits = [commit("feat(task-001): add it", "aaa"), commit("wip", "bbb"), commit("", "ccc")]
    found = check_result((), commits, allowed_paths=(), commit_pattern=PATTERN)
    assert broken(found) == [("commit_format", "bbb"), ("commit_format", "ccc")]
    assert "'wip' does not match" in found[0].detail


def test_a_subject_of_endless_length_is_refused_before_it_is_matched() -> None:
    (found,) = check_result((), [commit("a" * 40_000)], allowed_paths=(), commit_pattern=r"^(a+)+$")
    assert "40000 characters" in found.detail


def test_without_a_pattern_commits_say_what_they_like() -> None:
    assert check_result((), [commit("wip")], allowed_paths=()) == ()


NAMES = st.sampled_from(["src/a.py", "src/A.py", "docs/x", ".env", "src/b_test.go", "lib/Über.go"])
CHANGES = st.builds(
    Change,
    status=st.sampled_from("AMDT"),
    path=NAMES,
    binary=st.booleans(),
    symlink=st.booleans(),
    submodule=st.booleans(),
    link_target=st.sampled_from([None, "x", "/x", "../../x"]),
    added=st.integers(0, 2),
)


@given(st.lists(CHANGES), st.randoms(use_true_random=False))
def test_the_order_of_the_changes_does_not_matter(changes: list[Change], random: Random) -> None:
    judge = partial(
        check_result,
        commits=(),
        allowed_paths=("src/**",),
        blocked_paths=(".env*",),
        file_locks=("src",),
        naming_style="snake_case",
        naming_globs=("*",),
        require_tests=True,
        source_patterns=("src/**",),
        test_patterns=("*_test.go",),
    )
    shuffled = list(changes)
    random.shuffle(shuffled)
    assert judge(shuffled) == judge(changes)
    assert len(set(judge(changes))) == len(judge(changes))


# --- names


@pytest.mark.parametrize(
    "path", ["a\nb", "git~1/config", "src/con.py", "a\\b", "x ", ".git\u200c/config", "ж" * 128, "ab/" * 1001 + "c"]
)
def test_a_new_name_that_is_something_else_elsewhere_is_unsafe(path: str) -> None:
    assert broken(free([added(path)])) == [("unsafe_name", path)]
    assert broken(free([renamed("old", path)])) == [("unsafe_name", path)]


def test_an_unsafe_name_that_existed_before_is_not_a_violation() -> None:
    assert free([Change(status="M", path="src/aux.c"), Change(status="D", path="con")]) == ()


def test_two_unicode_forms_of_one_name_are_unsafe() -> None:
    composed, apart = (unicodedata.normalize(form, "кафе́ й") for form in ("NFC", "NFD"))
    (found,) = free([added(composed), added(apart)])
    assert (found.rule, found.path in (composed, apart)) == ("unsafe_name", True)


def test_a_new_name_collides_with_one_that_the_result_has_already() -> None:
    existing = ["README.md", "readme.MD", "src/app.py"]
    assert broken(free([added("readme.MD")], existing=existing)) == [("case_collision", "readme.MD")]


def test_names_that_collided_before_are_not_a_violation() -> None:
    assert free([Change(status="M", path="a.py"), added("b.py")], existing=["A.py", "a.py", "b.py"]) == ()


# --- commits before the last, and messages


def test_what_one_commit_adds_and_the_next_removes_is_found_with_its_commit() -> None:
    steps = {"c0ffee": [added("setup.py")], "decade": [Change(status="D", path="setup.py"), added("src/a.py")]}
    (found,) = check_result([added("src/a.py")], (), allowed_paths=("src/**",), enforce_scope=False, steps=steps)
    assert (found.rule, found.path, found.detail) == ("path_not_allowed", "setup.py", "added, in commit c0ffee")


def test_what_the_whole_result_breaks_is_reported_once() -> None:
    steps = {"c0ffee": [added("setup.py")], "decade": [Change(status="M", path="setup.py")]}
    found = check_result([added("setup.py")], (), allowed_paths=("src/**",), enforce_scope=False, steps=steps)
    assert broken(found) == [("path_not_allowed", "setup.py")]


@pytest.mark.parametrize("subject", ["a\x1b[2Jb", "a\u202eb", "a\u200bb", "a\U000e0041", "a\rb", "x" * 60_000])
def test_a_message_that_is_not_shown_as_it_is_is_unsafe(subject: str) -> None:
    assert broken(free((), commits=[commit(subject)])) == [("unsafe_message", "c0ffee")]


@pytest.mark.parametrize("subject", ["Привет, мир", "a\tb\n\nc", "family: 👨‍👩‍👧", "می‌خواهم", "naïve — “quoted”"])
def test_a_message_of_any_language_is_fine(subject: str) -> None:
    assert free((), commits=[commit(subject)]) == ()


# --- what others found


def test_what_others_found_is_listed_in_its_place_with_its_line() -> None:
    leak = Violation(rule="sensitive_content", path="a.py", line=12, detail="a key")
    earlier = Violation(rule="sensitive_content", path="a.py", line=3, detail="a key")
    found = free([added("b.py")], allowed_paths=("src/**",), also=[leak, earlier])
    assert [str(one) for one in found] == [
        "sensitive_content: a.py:3 (a key)",
        "sensitive_content: a.py:12 (a key)",
        "path_not_allowed: b.py (added)",
    ]


@pytest.mark.parametrize("path", [".blueflame-secrets", ".BLUEFLAME-secrets"])
def test_no_agent_writes_the_file_that_lets_secrets_through(path: str) -> None:
    found = free([added(path)], secrets_file=".blueflame-secrets")
    assert broken(found) == [("blocked_path_modified", path)]


def test_only_that_very_file_is_kept_from_the_agent() -> None:
    assert free([added("docs/.blueflame-secrets")], secrets_file=".blueflame-secrets") == ()


def test_a_subject_that_holds_a_secret_is_not_repeated() -> None:
    leak = Violation(rule="sensitive_content", path="c0ffee", line=1, detail="a key")
    found = free([], commits=[commit("oops ключ", sha="c0ffee")], commit_pattern="^feat", also=[leak])
    assert "ключ" not in repr(found)
    assert [one.rule for one in found] == ["commit_format", "sensitive_content"]
