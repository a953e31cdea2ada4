"""The player as a real process in a real checkout: what it does, what it prints and how it ends."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.agents import fence as fence_program
from blueflame.agents.hook import find_hook
from blueflame.agents.scripted import ScriptedRuntime, player
from blueflame.checks.audit_gaps import find_defied_refusals, find_unaudited_calls
from blueflame.model.audit import ObservedCall, compute_input_digest
from blueflame.model.settings.permissions import BashRules, PermissionSettings
from blueflame.telemetry.audit import read_audit
from support.hook_servers import WatchedAttempt, run_hook_server

Git = Callable[..., str]


class Played(NamedTuple):
    code: int
    lines: list[dict[str, Any]]
    err: str

    @property
    def result(self) -> dict[str, Any]:
        assert self.lines[-1]["type"] == "result"
        return self.lines[-1]


def play(
    where: Path,
    *steps: dict[str, Any],
    prompt: str = "the prompt",
    env: dict[str, str] | None = None,
    watched: bool | None = False,
    fence: str = "",
) -> Played:
    program = where.parent / "program.json"
    reported = {} if watched is None else {"watched": watched}
    program.write_text(json.dumps({"attempt": "ses-1.task-001.worker.1", "steps": steps, "fence": fence, **reported}))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-E", player.__file__, str(program)],
        cwd=where,
        input=prompt,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
    )
    return Played(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr)


def test_files_are_written_changed_and_removed(repo: Path) -> None:
    played = play(
        repo,
        {"do": "write", "path": "новая папка/файл.txt", "text": "раз\r\n"},
        {"do": "append", "path": "новая папка/файл.txt", "text": "два"},
        {"do": "write", "path": "run.sh", "text": "#!/bin/sh\n", "executable": True},
        {"do": "mkdir", "path": "empty/deep"},
        {"do": "delete", "paths": ["src", "README.md"]},
    )

    assert played.code == 0
    assert (repo / "новая папка" / "файл.txt").read_bytes() == "раз\r\nдва".encode()
    assert os.access(repo / "run.sh", os.X_OK)
    assert (repo / "empty" / "deep").is_dir()
    assert not (repo / "src").exists()
    assert not (repo / "README.md").exists()
    assert [(line["tool"], line["target"]) for line in played.lines[:-1]] == [
        ("Write", "новая папка/файл.txt"),
        ("Edit", "новая папка/файл.txt"),
        ("Write", "run.sh"),
        ("Bash", "mkdir -p -- empty/deep"),
        ("Bash", "rm -r -- src"),
        ("Bash", "rm -- README.md"),
    ]


def test_a_commit_takes_everything_or_the_named_paths(repo: Path, git: Git) -> None:
    played = play(
        repo,
        {"do": "write", "path": "a", "text": "a"},
        {"do": "write", "path": "b", "text": "b"},
        {"do": "commit", "message": "feat(task-001): only a", "paths": ["a"]},
        {"do": "delete", "paths": ["src/app.py"]},
        {"do": "commit", "message": "feat(task-001): the rest"},
    )

    assert played.code == 0
    assert git(repo, "log", "--format=%s", "-2").splitlines() == ["feat(task-001): the rest", "feat(task-001): only a"]
    assert git(repo, "show", "--name-status", "--format=").split() == ["A", "b", "D", "src/app.py"]
    assert git(repo, "status", "--porcelain") == ""


def test_a_commit_of_nothing_is_a_failure_unless_it_is_meant(repo: Path) -> None:
    empty = {"do": "commit", "message": "feat(task-001): nothing"}

    assert play(repo, {**empty, "allow_empty": True}).code == 0
    failed = play(repo, empty, {"do": "say", "text": "never said"})

    assert failed.code == 1
    assert failed.result["is_error"] is True
    assert "anything to commit" in failed.result["result"]
    assert all(line.get("text") != "never said" for line in failed.lines)


def test_a_command_runs_in_the_checkout_and_keeps_our_output_clean(repo: Path) -> None:
    played = play(repo, {"do": "run", "command": "pwd; cat; echo made > by-shell"})

    assert played.code == 0
    assert played.err == f"{repo}\n"
    assert (repo / "by-shell").read_text() == "made\n"


def test_a_failing_command_fails_the_agent_unless_it_may(repo: Path) -> None:
    assert play(repo, {"do": "run", "command": "exit 3", "allow_failure": True}).code == 0
    failed = play(repo, {"do": "run", "command": "exit 3"})

    assert failed.code == 1
    assert "ended with 3" in failed.result["result"]


def test_a_command_over_its_time_is_killed(repo: Path) -> None:
    assert play(repo, {"do": "run", "command": "exec sleep 600", "timeout": 0.1}).code == 1


def test_answers_usage_and_texts_are_lines_of_json(repo: Path) -> None:
    played = play(
        repo,
        {"do": "say", "text": "готово"},
        {"do": "usage", "input_tokens": 5, "cost_usd": 0.5},
        {"do": "answer", "output": {"status": "pass"}},
    )

    given = compute_input_digest({"status": "pass"})
    assert played.lines == [
        {"type": "say", "text": "готово"},
        {"type": "usage", "input_tokens": 5, "cost_usd": 0.5},
        {"type": "action", "tool": "StructuredOutput", "target": "", "call": "call-0001", "digest": given},
        {"type": "result", "is_error": False, "result": "готово", "structured_output": {"status": "pass"}},
    ]


def test_an_answer_in_the_wrong_form_is_only_text(repo: Path) -> None:
    result = play(repo, {"do": "answer", "output": "LGTM"}).result

    assert "structured_output" not in result
    assert result["result"] == "LGTM"


def test_an_exit_ends_it_with_the_code_and_what_it_has(repo: Path) -> None:
    played = play(repo, {"do": "exit", "code": 7}, {"do": "say", "text": "never said"})

    assert played.code == 7
    assert [line["type"] for line in played.lines] == ["result"]


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_a_crash_leaves_no_result(repo: Path, number: signal.Signals) -> None:
    played = play(repo, {"do": "say", "text": "here"}, {"do": "exit", "signal": int(number)})

    assert played.code == -number
    assert [line["type"] for line in played.lines] == ["say"]


def test_expectations_of_files_and_of_the_prompt(repo: Path) -> None:
    long = "слово " * 100_000 + "the end"

    assert play(repo, {"do": "expect", "contains": "the end"}, prompt=long).code == 0
    assert play(repo, {"do": "expect", "path": "src/app.py", "contains": "42", "lacks": "43"}).code == 0
    for wrong in ({"contains": "absent"}, {"path": "src/app.py", "lacks": "42"}, {"path": "none", "contains": "x"}):
        failed = play(repo, {"do": "expect", **wrong})
        assert failed.code == 1
        assert failed.result["result"].startswith("expect: ")


@pytest.mark.parametrize(
    ("lock", "place", "text"),
    [
        ("src/", "src/n.md", "hello\n"),
        ("src", "src/n.md", "hello\n"),
        ("src/**", "src/n.md", "hello\n"),
        ("новое/", "новое/n.md", "hello\n"),
        ("docs/new.md", "docs/new.md", "hello\n"),
        ("src/new.py", "src/new.py", "# hello\n"),
        ("src/app.py", "src/app.py", "def answer():\n    return 42\n# hello\n"),
        ("README.md", "README.md", "# sample\n<!-- hello -->\n"),
        ("src/ap*", "src/n.md", "hello\n"),
    ],
)
def test_a_note_stays_inside_the_locks(repo: Path, lock: str, place: str, text: str) -> None:
    played = play(repo, {"do": "note", "text": "hello", "file": "n.md", "locks": [lock]})

    assert played.code == 0
    assert (repo / place).read_text() == text


def test_a_step_that_cannot_be_done_is_an_error_and_no_traceback(repo: Path) -> None:
    failed = play(repo, {"do": "delete", "paths": ["none"]})

    assert (failed.code, failed.err) == (1, "")
    assert "none" in failed.result["result"]


def test_the_ledger_counts_starts_and_ends(repo: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    env = {"BLUEFLAME_LEDGER": str(ledger), "BLUEFLAME_ATTEMPT": "ses-1.task-001.worker.1"}

    play(repo, {"do": "say", "text": "x"}, env=env)
    play(repo, {"do": "exit", "signal": int(signal.SIGKILL)}, env=env)

    lines = [line.rpartition(" ")[0] for line in ledger.read_text().splitlines()]
    assert lines == ["start ses-1.task-001.worker.1", "end ses-1.task-001.worker.1", "start ses-1.task-001.worker.1"]


def test_a_flood_is_as_big_as_asked(repo: Path) -> None:
    played = play(repo, {"do": "flood", "megabytes": 0.1})

    assert sum(len(line.get("text", "")) for line in played.lines) == 100_000


# --- asking ------------------------------------------------------------------------------------------------------


def watched_play(watch: WatchedAttempt, *steps: dict[str, Any]) -> Played:
    return watch.during(lambda: play(watch.folder, *steps, env=watch.env, watched=None))


def acts_of(played: Played) -> list[ObservedCall]:
    reader = ScriptedRuntime()
    signals = [signal for line in played.lines for signal in reader.parse_line(json.dumps(line))]
    return [signal for signal in signals if isinstance(signal, ObservedCall)]


def gaps(watch: WatchedAttempt, played: Played) -> tuple[str, ...]:
    return find_unaudited_calls(acts_of(played), read_audit(watch.audit).lines)


def test_a_good_agent_asks_before_each_step_and_leaves_no_gap(repo: Path, git: Git) -> None:
    with run_hook_server(repo) as watch:
        watch.prove()
        played = watched_play(
            watch,
            {"do": "write", "path": "src/новый файл.py", "text": "x = 'ж'\n"},
            {"do": "append", "path": "src/новый файл.py", "text": "y = 1\n"},
            {"do": "note", "text": "it's a note", "file": "n.md", "locks": ["src/"]},
            {"do": "run", "command": "git status --short"},
            {"do": "commit", "message": 'feat(task-001): it\'s "done" $(really)'},
        )

    assert (played.code, played.result["result"]) == (0, "")
    assert git(repo, "log", "-1", "--format=%s") == 'feat(task-001): it\'s "done" $(really)\n'
    lines = read_audit(watch.audit).lines
    assert [(line.tool, line.decision) for line in lines[1:]] == [
        ("Write", "allow"),
        ("Edit", "allow"),
        ("Write", "allow"),
        ("Bash", "allow"),
        ("Bash", "allow"),
    ]
    assert [line.call for line in lines[1:]] == [act.call for act in acts_of(played)]
    assert gaps(watch, played) == ()


def test_an_answer_is_asked_for_as_structured_output(repo: Path) -> None:
    verdict = {"do": "answer", "output": {"status": "pass"}}
    with run_hook_server(repo, schema=True) as watch:
        watch.prove()
        played = watched_play(watch, verdict)
    assert played.result["structured_output"] == {"status": "pass"}
    assert gaps(watch, played) == ()
    watch.audit.unlink()

    with run_hook_server(repo, schema=False) as watch:  # a role without a schema
        watch.prove()
        refused = watched_play(watch, verdict)
    assert "structured_output" not in refused.result
    assert refused.result["result"] == "1 step was refused."


def test_what_is_refused_is_not_done_and_the_next_step_is(repo: Path, git: Git) -> None:
    before = git(repo, "rev-parse", "HEAD")
    with run_hook_server(
        repo, permissions=PermissionSettings(bash_rules=BashRules(allowed_commands=("git status",)))
    ) as watch:
        watch.prove()
        played = watched_play(
            watch,
            {"do": "say", "text": "I try."},
            {"do": "write", "path": "../outside", "text": "x"},
            {"do": "append", "path": ".env", "text": "x"},
            {"do": "delete", "paths": ["README.md", "src"]},
            {"do": "mkdir", "path": "deep"},
            {"do": "run", "command": "touch ran"},
            {"do": "commit", "message": "feat(task-001): x", "allow_empty": True},
            {"do": "write", "path": "src/well.py", "text": "well\n"},
        )

    assert played.code == 0
    assert (repo / "src" / "well.py").read_text() == "well\n"
    assert not any((repo / name).exists() for name in ("../outside", ".env", "deep", "ran"))
    assert (repo / "README.md").exists()
    assert git(repo, "rev-parse", "HEAD") == before
    denied = [line for line in played.lines if line.get("denied")]
    assert all(line["reason"] for line in denied)
    assert [act.denied for act in acts_of(played)] == [True] * 6 + [False]
    assert played.result["result"] == "I try. 6 steps were refused."
    assert gaps(watch, played) == ()


def test_a_rogue_step_asks_and_is_done_regardless_of_the_answer(repo: Path) -> None:
    with run_hook_server(repo) as watch:
        watch.prove()
        played = watched_play(watch, {"do": "write", "path": ".env", "text": "x", "rogue": True})

    assert (repo / ".env").read_text() == "x"
    audit = read_audit(watch.audit).lines
    assert [line.decision for line in audit] == ["block", "block"]
    assert gaps(watch, played) == ()
    assert [line.target for line in find_defied_refusals(acts_of(played), audit)] == [str(repo / ".env")]


def test_an_unasked_step_shows_and_is_a_gap(repo: Path) -> None:
    with run_hook_server(repo) as watch:
        watch.prove()
        played = watched_play(
            watch,
            {"do": "write", "path": "src/a.py", "text": "x"},
            {"do": "run", "command": "touch ran", "rogue": "unasked"},
        )

    assert (repo / "ran").exists()
    assert gaps(watch, played) == ("Bash 'touch ran' was never asked for",)


def test_a_hidden_step_shows_nowhere(repo: Path) -> None:
    with run_hook_server(repo) as watch:
        watch.prove()
        played = watched_play(watch, {"do": "write", "path": ".env", "text": "x", "rogue": "hidden"})

    assert (repo / ".env").exists()
    assert [line["type"] for line in played.lines] == ["result"]
    assert len(read_audit(watch.audit).lines) == 1


STEP = {"do": "write", "path": "src/a.py", "text": "x"}


def test_without_a_hook_nothing_is_done_unless_the_program_says_so(repo: Path) -> None:
    for watched in (None, True):
        played = play(repo, STEP, watched=watched)
        assert played.lines[0]["denied"] is True
        assert not (repo / "src" / "a.py").exists()

    assert "denied" not in play(repo, STEP, watched=False).lines[0]
    assert (repo / "src" / "a.py").exists()


@pytest.mark.parametrize(
    "env",
    [
        {"BLUEFLAME_HOOK_PORT": "1"},
        {"BLUEFLAME_HOOK_PORT": "1", "BLUEFLAME_HOOK": "/nonexistent"},
        {"BLUEFLAME_HOOK_PORT": "1", "BLUEFLAME_HOOK": "/"},
        {"BLUEFLAME_HOOK_PORT": "1", "BLUEFLAME_HOOK": "/bin/false"},
        {"BLUEFLAME_HOOK_PORT": "1", "BLUEFLAME_HOOK": str(find_hook())},
        {"BLUEFLAME_HOOK_PORT": "nonsense", "BLUEFLAME_HOOK": str(find_hook())},
    ],
)
def test_a_broken_hook_refuses_even_an_unwatched_agent(repo: Path, env: dict[str, str]) -> None:
    played = play(repo, STEP, env=env, watched=False)

    assert played.lines[0]["denied"] is True
    assert played.lines[0]["reason"]
    assert not (repo / "src" / "a.py").exists()


def test_an_agent_whose_hook_was_killed_ends_as_a_shell_does(repo: Path, tmp_path: Path) -> None:
    """So that its warden sees a kill, and no refusal of the step."""
    hook = tmp_path / "hook"
    hook.write_text("#!/bin/sh\nkill -9 $$\n")
    hook.chmod(0o755)
    played = play(repo, STEP, env={"BLUEFLAME_HOOK_PORT": "1", "BLUEFLAME_HOOK": str(hook)})

    assert played.code == 137
    assert not (repo / "src" / "a.py").exists()


@pytest.mark.parametrize("fence", ["", fence_program.__file__])
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("kill -XFSZ $$", 153),
        ("kill -XCPU $$", 152),
        ("sh -c 'kill -XCPU $$'; exit $?", 152),
        ("kill -PIPE $$", 1),
        ("exit 7", 1),
    ],
)
def test_an_agent_whose_command_reaches_a_limit_ends_as_a_shell_does(
    repo: Path, command: str, code: int, fence: str
) -> None:
    """So that its warden names the limit. Python ignores the signal of a file that is too large."""
    played = play(repo, {"do": "run", "command": command}, fence=fence)

    assert played.code == code


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=12)


@given(st.dictionaries(st.text(max_size=8), st.recursive(SCALARS, st.lists, max_leaves=5), max_size=4))
def test_the_digest_is_the_one_of_the_audit_log(tool_input: dict[str, Any]) -> None:
    assert player._compute_digest(tool_input) == compute_input_digest(tool_input)


@given(st.text().filter(lambda word: "\0" not in word))
def test_words_are_quoted_so_that_a_shell_reads_them_back(word: str) -> None:
    assert player._quote_word(word) == shlex.quote(word) or shlex.split(player._quote_word(word)) == [word]
