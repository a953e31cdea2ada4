"""Bad input is reported with a helpful message and the right exit code, and nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.command_line import CONFIG, YES, Said, configure, here, task, write
from support.repositories import run_git

RUN = ("run", "--task", "Add a greeting", "--quiet")


def state_of(root: Path) -> tuple[list[str], str, str]:
    """Every file and the status of git: the same before and after a refusal."""
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if ".git/" not in str(path))
    if not (root / ".git").exists():
        return files, "", ""
    return files, run_git(root, "status", "--porcelain", "--ignored"), run_git(root, "for-each-ref")


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """Run a command that must be refused, and check that it changed nothing."""

    def check(root: Path, *argv: object, code: int, words: tuple[str, ...]) -> Said:
        monkeypatch.chdir(root)
        before = state_of(root)
        said = here(capsys, *argv)
        assert said.code == code, said
        assert said.err.startswith("blueflame: ")
        assert "Traceback" not in said.err
        for word in words:
            assert word in said.err
        assert said.out == ""
        assert state_of(root) == before
        return said

    return check


def test_a_folder_without_a_configuration(tmp_path: Path, refused: Callable[..., Said]) -> None:
    refused(tmp_path, *RUN, code=2, words=("no blueflame.yaml", str(tmp_path), "blueflame init"))


def test_a_folder_that_is_no_repository(tmp_path: Path, refused: Callable[..., Said]) -> None:
    configure(tmp_path)
    refused(tmp_path, *RUN, code=3, words=("not in a git repository", "git init"))


def test_a_bare_repository(tmp_path: Path, refused: Callable[..., Said]) -> None:
    run_git(tmp_path, "init", "-q", "--bare", "голый.git")
    configure(tmp_path / "голый.git")
    refused(tmp_path / "голый.git", *RUN, code=3, words=("bare repository", "clone it"))


def test_a_branch_without_commits(tmp_path: Path, refused: Callable[..., Said]) -> None:
    run_git(tmp_path, "init", "-q", "-b", "main")
    configure(tmp_path)
    refused(tmp_path, *RUN, code=3, words=("has no commits yet", "git commit"))


def test_a_base_branch_that_is_not_there(repo: Path, refused: Callable[..., Said]) -> None:
    configure(repo, {"project": {"name": "x", "base_branch": "mian"}})
    refused(repo, *RUN, code=3, words=("base branch mian", "did you mean main?"))


def test_a_checkout_with_changes(repo: Path, refused: Callable[..., Said]) -> None:
    configure(repo)
    (repo / "src" / "app.py").write_text("half done\n")
    (repo / "мои заметки.txt").write_text("x")
    words = ("not clean", "src/app.py", "мои заметки.txt", "--allow-dirty")
    said = refused(repo, *RUN, code=3, words=words)
    assert "blueflame.yaml" not in said.err  # what init has just written is ignored


def test_a_request_that_is_not_there(repo: Path, refused: Callable[..., Said]) -> None:
    configure(repo)
    refused(repo, "run", code=2, words=("--task", "--plan"))
    refused(repo, "run", "--task", "  ", code=2, words=("--task",))


def test_an_unknown_workflow(repo: Path, refused: Callable[..., Said]) -> None:
    configure(repo)
    refused(repo, *RUN, "--workflow", "wavse", code=2, words=("wavse", "did you mean waves?"))
    refused(repo, "plan", "--task", "x", "--workflow", "wavse", code=2, words=("wavse", "did you mean waves?"))


@pytest.mark.parametrize(
    ("argv", "idle"),
    [
        ("status ses-1 --house", "SESSION has no effect with --house"),
        ("log --house --handoffs -c x.yaml", "--handoffs and --config have no effect with --house"),
        ("doctor --house --try", "--try has no effect with --house"),
        ("attach worker --stay --json", "AGENT and --stay have no effect with --json"),
        ("attach --idle 5m", "--idle has no effect without --stay"),
        ("add --file plan.yaml -d words --priority 3", "--description and --priority have no effect with --file"),
        ("stop --now --keep-agents", "--now has no effect with --keep-agents"),
        ("open task-001 --editor --json", "--editor has no effect with --json"),
        ("memory import notes.jsonl --project other", "--project has no effect without a server"),
        ("memory curate all --script play.yaml", "REQUEST and --script have no effect without --agent"),
        ("wait req-1 --config x.yaml", "--config has no effect with a request"),
        ("wait ses-1 --house x", "--house has no effect with a session"),
        ("serve --uninstall --house x", "--house has no effect with --uninstall"),
        ("serve --init --stop-sessions", "--stop-sessions has no effect with --init"),
        ("run x --detach --budget 3", "--budget has no effect with --detach"),
        ("run x --script play.yaml --record tape", "--record has no effect with --script"),
        ("guard --script play.yaml -- touch x", "--script has no effect with a command"),
        ("memory propose --script play.yaml", "--script has no effect without a model"),
        ("mcp --config x.yaml install claude", "--config has no effect with install"),
    ],
)
def test_an_option_that_has_no_effect(repo: Path, refused: Callable[..., Said], argv: str, idle: str) -> None:
    configure(repo)
    refused(repo, *argv.split(), code=2, words=(idle, "leave"))


@pytest.mark.parametrize("argv", ["attach --stay --idle", "wait --timeout", "cleanup --older-than"])
def test_a_duration_that_is_none(repo: Path, refused: Callable[..., Said], argv: str) -> None:
    configure(repo)
    refused(repo, *argv.split(), "1y", code=2, words=(argv.rsplit(maxsplit=1)[-1], "1y", "a number of seconds"))
    refused(repo, *argv.split(), "9999d", code=2, words=(argv.rsplit(maxsplit=1)[-1], "365d"))
    refused(repo, *argv.split(), "30", code=2, words=("nothing has been run",))


def test_a_runtime_that_nothing_drives(repo: Path, refused: Callable[..., Said]) -> None:
    configure(repo, {"roles": {"worker": {"runtime": "goose"}}, "runtimes": {"goose": {"command": "goose"}}})
    refused(repo, *RUN, code=3, words=("goose", "scripted", "roles.<role>.runtime", "runtimes.<name>.kind"))


def test_a_runtime_whose_program_is_not_there(repo: Path, refused: Callable[..., Said]) -> None:
    lost = {"claude": {"command": "no-such-claude", "credential": "none"}}
    configure(repo, {"roles": {"worker": {"runtime": "claude"}}, "runtimes": lost})
    refused(repo, *RUN, code=3, words=("claude", "no-such-claude"))


def test_a_configuration_from_the_future(repo: Path, refused: Callable[..., Said]) -> None:
    configure(repo, {"schema_version": 99})
    refused(repo, *RUN, code=2, words=("blueflame.yaml", "99"))


def test_a_configuration_with_several_mistakes(repo: Path, refused: Callable[..., Said]) -> None:
    configure(repo, {"concurency": {}, "limits": {"max_retries": -1}})
    refused(repo, *RUN, code=2, words=("concurency", "did you mean concurrency", "max_retries", "-1"))


PLANS: Mapping[str, tuple[Mapping[str, Any] | str, tuple[str, ...]]] = {
    "empty": ("", ("plan",)),
    "no tasks": ({"tasks": []}, ("no tasks", "at least one")),
    "no YAML": ("tasks: [}{", ("план.yaml:1",)),
    "traversal": ({"tasks": [task(1, id="../../etc/passwd")]}, ("../../etc/passwd", "task-001")),
    "cycle": (
        {"tasks": [task(1, dependencies=["task-002"]), task(2, dependencies=["task-001"])]},
        ("task-001", "task-002"),
    ),
    "unknown dependency": ({"tasks": [task(1, dependencies=["task-009"])]}, ("task-009", "not in the plan")),
    "a twin": ({"tasks": [task(1), task(1)]}, ("task-001",)),
    "locks outside": ({"tasks": [task(1, file_locks=["/etc/"])]}, ("/etc/",)),
    "locks that are not allowed": ({"tasks": [task(1, file_locks=["secret/"])]}, ("secret/",)),
}


@pytest.mark.verification(42)
@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_will_not_do(name: str, repo: Path, tmp_path: Path, refused: Callable[..., Said]) -> None:
    content, words = PLANS[name]
    configure(repo)
    plan = write(tmp_path / "план.yaml", content)
    refused(repo, "run", "--plan", plan, "--quiet", code=2, words=("план.yaml", *words))


def test_a_plan_in_json_that_is_not_json(repo: Path, tmp_path: Path, refused: Callable[..., Said]) -> None:
    configure(repo)
    plan = write(tmp_path / "plan.json", "tasks: []")
    refused(repo, "run", "--plan", plan, code=2, words=("plan.json", "JSON"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("tasks: {task-001: {worker: god}}", ("игра.yaml:1", "god", "good")),
        ("planner: [", ("игра.yaml",)),
        ("schema_version: 7", ("игра.yaml", "7")),
    ],
)
def test_a_script_with_mistakes(
    content: str, words: tuple[str, ...], repo: Path, tmp_path: Path, refused: Callable[..., Said]
) -> None:
    configure(repo)
    refused(repo, *RUN, "--script", write(tmp_path / "игра.yaml", content), code=2, words=words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("plan: [aprove]", ("решения.yaml", "aprove", "did you mean approve?")),
        ("plann: [approve]", ("решения.yaml", "plann", "did you mean plan?")),
        ("changeset: [reject]", ("решения.yaml:1", "'reject' needs a 'note'")),
        ("plan: [", ("решения.yaml:1", "not YAML")),
    ],
)
def test_decisions_with_mistakes(
    content: str, words: tuple[str, ...], repo: Path, tmp_path: Path, refused: Callable[..., Said]
) -> None:
    configure(repo)
    refused(repo, *RUN, "--decisions-file", write(tmp_path / "решения.yaml", content), code=2, words=words)


@pytest.mark.parametrize("flag", ["--script", "--decisions-file", "--plan", "--config"])
def test_a_file_that_is_not_there(flag: str, repo: Path, refused: Callable[..., Said]) -> None:
    configure(repo)
    refused(repo, *RUN, flag, "нет такого.yaml", code=2, words=("нет такого.yaml",))


@pytest.mark.parametrize("verb", ["status", "gates", "log", "cleanup", "stop", "proceed", "kill task-001", "resume"])
def test_nothing_has_been_run_yet(verb: str, repo: Path, refused: Callable[..., Said]) -> None:
    configure(repo)
    refused(repo, *verb.split(), code=2, words=("blueflame run",))


def test_a_damaged_journal_is_never_replaced(repo: Path, refused: Callable[..., Said]) -> None:
    configure(repo)
    (repo / ".git" / "info" / "exclude").write_text("/.blueflame/\n")
    (repo / ".blueflame").mkdir()
    (repo / ".blueflame" / "journal.db").write_text("this is no database, " * 500)
    refused(repo, "status", code=4, words=("journal.db",))


def test_a_plan_of_ten_thousand_tasks_can_be_rehearsed(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(repo)
    monkeypatch.chdir(repo)
    tasks = [task(n, id=f"task-{n:05d}", dependencies=[f"task-{n - 1:05d}"] if n % 10 else []) for n in range(10_000)]
    plan = write(tmp_path / "plan.json", {"tasks": [{**each, "priority": 1} for each in tasks]})
    before = state_of(repo)
    said = here(capsys, "run", "--plan", plan, "--dry-run", "--json")
    assert said.code == 0, said.err
    assert len(said.json["tasks"]) == 10_000
    assert said.json["would_spawn"][0]["agents"] == 10_000
    assert state_of(repo) == before


def test_a_configuration_of_schema_one_is_used_with_a_warning(
    repo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {name: section for name, section in CONFIG.items() if name != "schema_version"}
    write(repo / "blueflame.yaml", json.dumps(old))
    monkeypatch.chdir(repo)
    said = here(capsys, *RUN, "--dry-run")
    assert said.code == 0
    assert "schema_version" in said.err
    assert "blueflame config migrate" in said.err


@pytest.mark.usefixtures("forked_wardens")
def test_changes_are_left_alone_when_they_are_allowed(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(repo)
    monkeypatch.chdir(repo)
    (repo / "мои заметки.txt").write_text("mine")
    decisions = write(tmp_path / "решения.yaml", YES)
    said = here(capsys, *RUN, "--allow-dirty", "--workflow", "direct", "--decisions-file", decisions)
    assert said.code == 0, said
    assert (repo / "мои заметки.txt").read_text() == "mine"
    assert "мои заметки.txt" in run_git(repo, "-c", "core.quotePath=false", "status", "--porcelain")
