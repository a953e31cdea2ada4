"""Searching whole results: what is let through, and by whom; and the scanner that looks before anything lands."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame.checks.secrets.scan import SecretAllowList
from blueflame.git import secret_scan as secrets
from blueflame.git.repository import Repository, open_repository
from blueflame.git.secret_scan import find_scanner, read_allow_list, scan_result
from blueflame.model.errors import GitFailed, ProcessFailed, UsageError, WorldError
from blueflame.model.settings.permissions import SecretSettings
from blueflame.model.verdict import Violation
from blueflame.session.environment import classify_problem
from support.fake_secrets import MAKERS, SecretGenerator

Git = Callable[..., str]
BUILTIN = SecretSettings(scanner="builtin")


def scan_changeset(
    ours: Repository, base: str, tip: str, settings: SecretSettings, cache: Path | None = None
) -> tuple[Violation, ...]:
    return secrets.scan_changeset(ours, base, tip, settings, below=ours.root / ".blueflame" / "scans", cache=cache)


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


def commit(git: Git, ours: Repository, files: dict[str, str], message: str = "feat(task-001): work") -> str:
    for path, content in files.items():
        place = ours.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    git(ours.root, "add", "-A", "-f")
    git(ours.root, "commit", "-q", "--allow-empty", "-m", message)
    return git(ours.root, "rev-parse", "HEAD").strip()


def places(found: tuple[Violation, ...]) -> list[tuple[str, int | None]]:
    assert {one.rule for one in found} <= {"sensitive_content"}
    return [(one.path, one.line) for one in found]


def token(seed: int = 7) -> str:
    return f"ghp_{SecretGenerator(seed)(36)}"


# --- the built-in rules


def test_a_clean_result_passes(ours: Repository, git: Git) -> None:
    assert scan_result(ours, ours.base_sha, commit(git, ours, {"src/b.py": "x = 1\n"}), BUILTIN) == ()


def test_secrets_in_lines_messages_and_history_are_found(ours: Repository, git: Git) -> None:
    commit(git, ours, {"src/мой ключ.py": f"\nT = '{token(1)}'\n"})
    tip = commit(git, ours, {"src/мой ключ.py": "\n", "b.py": token(2)}, f"feat(task-001): use\n\n{token(3)}")
    found = places(scan_result(ours, ours.base_sha, tip, BUILTIN))
    assert sorted(found) == sorted([("b.py", 1), (tip, 3), ("src/мой ключ.py", 2)])


def test_secrets_that_the_base_has_are_not_the_agents(ours: Repository, git: Git) -> None:
    base = commit(git, ours, {"old.py": f"{token()}\n"})
    tip = commit(git, ours, {"old.py": f"{token()}\nx = 1\n"})
    assert scan_result(ours, base, tip, BUILTIN) == ()


def test_switched_off_nothing_is_searched(ours: Repository, git: Git) -> None:
    tip = commit(git, ours, {"a.py": token()})
    assert scan_result(ours, ours.base_sha, tip, SecretSettings(enabled=False)) == ()
    assert scan_changeset(ours, ours.base_sha, tip, SecretSettings(enabled=False)) == ()


def test_a_commit_that_is_missing_is_a_failure(ours: Repository) -> None:
    with pytest.raises(GitFailed):
        scan_result(ours, ours.base_sha, "1" * 40, BUILTIN)


# --- the allow file


def test_the_allow_file_of_the_base_lets_findings_through(ours: Repository, git: Git) -> None:
    base = commit(git, ours, {".blueflame-secrets": "# примеры\ndocs/**\n"})
    tip = commit(git, ours, {"docs/a.md": token(1), "src/a.py": token(2)})
    assert places(scan_result(ours, base, tip, BUILTIN)) == [("src/a.py", 1)]


def test_an_agent_cannot_allow_its_own_leak(ours: Repository, git: Git) -> None:
    tip = commit(git, ours, {".blueflame-secrets": "**\n", "src/a.py": token()})
    assert places(scan_result(ours, ours.base_sha, tip, BUILTIN)) == [("src/a.py", 1)]


def test_no_allow_file_allows_nothing(ours: Repository) -> None:
    assert read_allow_list(ours, ours.base_sha, ".blueflame-secrets") == SecretAllowList()


def test_the_allow_file_may_have_another_name_with_spaces(ours: Repository, git: Git) -> None:
    base = commit(git, ours, {"мои файлы/no secrets*": "docs/**\n", "мои файлы/no secrets, other": "?:nonsense"})
    assert read_allow_list(ours, base, "мои файлы/no secrets*").paths.matches("docs/a")


def test_every_bad_line_is_an_error_that_names_it(ours: Repository, git: Git) -> None:
    base = commit(git, ours, {".blueflame-secrets": "docs/**\nsrc/**:nonsense\n\n!x\n"})
    with pytest.raises(UsageError, match=r"(?s)\.blueflame-secrets at .*line 2: .*line 4: "):
        scan_result(ours, base, base, BUILTIN)


def test_an_allow_file_that_is_a_link_or_a_folder_is_refused(ours: Repository, git: Git) -> None:
    (ours.root / ".blueflame-secrets").symlink_to("README.md")
    with pytest.raises(UsageError, match="not a plain, small file"):
        read_allow_list(ours, commit(git, ours, {}), ".blueflame-secrets")
    with pytest.raises(UsageError, match="not a plain, small file"):
        read_allow_list(ours, commit(git, ours, {}), "src")


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside", "a/../../b", "."])
def test_an_allow_file_outside_of_the_repository_is_refused(ours: Repository, name: str) -> None:
    with pytest.raises(UsageError, match="write a path in the repository"):
        read_allow_list(ours, ours.base_sha, name)


# --- the full scanner, played by others


def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program called kingfisher that does what a test wants to see."""
    place = tmp_path / "bin" / "kingfisher"
    place.parent.mkdir()
    place.write_text(f"#!/bin/sh\n{script}\n")
    place.chmod(place.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(place.parent / "python"))


def test_a_scanner_that_fails_is_a_failure(
    ours: Repository, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, "echo 'no rules' >&2; exit 3")
    with pytest.raises(ProcessFailed, match="kingfisher failed: exit code 3: no rules; reinstall"):
        scan_changeset(ours, ours.base_sha, commit(git, ours, {"a": "x\n"}), SecretSettings())


def test_a_scanner_that_is_killed_is_not_called_damaged(
    ours: Repository, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, "kill -KILL $$")
    with pytest.raises(ProcessFailed, match="killed by signal 9; see whether memory is short") as failed:
        scan_changeset(ours, ours.base_sha, commit(git, ours, {"a": "x\n"}), SecretSettings())
    assert "reinstall" not in str(failed.value)


def test_without_a_folder_for_copies_the_error_names_its_place(
    ours: Repository, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, "exit 0")
    tip = commit(git, ours, {"a": "x\n"})
    (ours.root / ".blueflame").write_text("")
    with pytest.raises(WorldError, match=r"write lines to be searched for secrets below .*scans: Not a directory"):
        scan_changeset(ours, ours.base_sha, tip, SecretSettings())


def test_a_scanner_that_hangs_is_a_failure_with_the_setting_of_its_time(
    ours: Repository, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, "exec sleep 1000")
    words = r"kingfisher searched for 0\.2 s without an end, and was ended: .*validation\.secrets\.timeout"
    with pytest.raises(ProcessFailed, match=words) as failed:
        scan_changeset(ours, ours.base_sha, commit(git, ours, {"a": "x\n"}), SecretSettings(timeout=0.2))
    assert classify_problem(str(failed.value)) == "scanner"
    assert list((ours.root / ".blueflame" / "scans").iterdir()) == []


@pytest.mark.parametrize(
    "said", ["", "[]", "nonsense", '{"findings": []}', '{"findings": 1, "metadata": {"summary": {}}}']
)
def test_a_scanner_that_cannot_be_understood_is_a_failure_whatever_its_exit_code(
    ours: Repository, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    pretend(tmp_path, monkeypatch, f"echo '{said}'")
    with pytest.raises(ProcessFailed, match="report cannot be read"):
        scan_changeset(ours, ours.base_sha, commit(git, ours, {"a": "x\n"}), SecretSettings())


def test_a_scanner_that_passed_something_over_is_a_failure(
    ours: Repository, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = '{"findings": [], "metadata": {"summary": {"blobs_scanned": 1, "bytes_scanned": 5}}}'
    pretend(tmp_path, monkeypatch, f"echo '{said}'")
    with pytest.raises(ProcessFailed, match="scanned 1 files of 5 bytes, not 2 of"):
        scan_changeset(ours, ours.base_sha, commit(git, ours, {"a": "x\n"}), SecretSettings())


def test_the_scanner_gets_no_environment_of_ours_and_no_folder_of_an_agents(
    ours: Repository, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, f"env > '{tmp_path}/env'; pwd > '{tmp_path}/cwd'; exit 9")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "мой")
    with pytest.raises(ProcessFailed):
        scan_changeset(ours, ours.base_sha, commit(git, ours, {"a": "x\n"}), SecretSettings())
    assert "ANTHROPIC_API_KEY" not in (tmp_path / "env").read_text()
    assert not Path((tmp_path / "cwd").read_text().strip()).exists()


def test_without_the_scanner_auto_uses_the_builtin_rules_and_kingfisher_refuses(
    ours: Repository, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tip = commit(git, ours, {"a": token()})
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(secrets, "which", lambda _name, path=None: None)
    assert places(scan_changeset(ours, ours.base_sha, tip, SecretSettings())) == [("a", 1)]
    with pytest.raises(ProcessFailed, match=r"not installed: .*blueflame\[secrets\]"):
        scan_changeset(ours, ours.base_sha, tip, SecretSettings(scanner="kingfisher"))


# --- the real one


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its rules, compiled once for each scanner that is installed: this takes it 10 s."""
    program = find_scanner(SecretSettings())
    assert program is not None
    about = Path(program).stat()
    folder = Path(sys.prefix) / "kingfisher-rules" / f"{about.st_size}-{about.st_mtime_ns}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # an environment that others own
        return tmp_path_factory.mktemp("kingfisher rules")
    return folder


needs_kingfisher = pytest.mark.skipif(find_scanner(SecretSettings()) is None, reason="kingfisher is not installed")
ODD_FILES = {
    "empty": "",
    "blank": "\n\n",
    "same a": "x\n",
    "same b": "x\n",
    "archive.zip": "PK\3\4 no\n",
    "a.lock": "y\n",
}


@needs_kingfisher
@pytest.mark.slow
def test_the_real_scanner_knows_more_and_comments_do_not_silence_it(ours: Repository, git: Git, cache: Path) -> None:
    """It finds this, and only this, among odd files, each of which is scanned."""
    known, unknown = token(1), f"figd_{SecretGenerator(2)(40)}"
    commit(
        git, ours, {"src/мой.py": f"a = 1\nT = '{known}'  # kingfisher:ignore\nF = '{unknown}'  # kingfisher:ignore\n"}
    )
    files = {"src/мой.py": "a = 1\n", "b.py": "x = 1\n", "c.py": "x = 1\n", **ODD_FILES}
    tip = commit(git, ours, files, f"feat: {unknown}")
    found = scan_changeset(ours, ours.base_sha, tip, SecretSettings(scanner="kingfisher"), cache=cache)
    assert sorted(places(found)) == sorted([(tip, 1), ("src/мой.py", 2), ("src/мой.py", 3)])
    assert all(known not in one.detail and unknown not in one.detail for one in found)
    (figma,) = (one for one in found if one.line == 3)
    assert "rule kingfisher.figma" in figma.detail


@needs_kingfisher
@pytest.mark.slow
def test_what_the_allow_file_lets_through_is_let_through_here_as_well(ours: Repository, git: Git, cache: Path) -> None:
    """By path, by path and rule, and by fingerprint: this one is not found again under another name."""
    mine = MAKERS["github-token"](SecretGenerator())
    (result,) = scan_result(ours, ours.base_sha, commit(git, ours, {"a.sh": mine}), BUILTIN)
    git(ours.root, "reset", "-q", "--hard", ours.base_sha)
    fingerprint = result.detail.rpartition(" ")[2]
    allowed = f"docs/**\nsrc/**:kingfisher.figma-personal-access-token\n{fingerprint}\n"
    base = commit(git, ours, {".blueflame-secrets": allowed})
    leak = f"figd_{SecretGenerator(2)(40)}\n"
    tip = commit(git, ours, {"docs/a.md": token(), "src/a.py": leak, "b.py": leak, "a.sh": mine})
    assert places(scan_changeset(ours, base, tip, SecretSettings(), cache=cache)) == [("b.py", 1)]
