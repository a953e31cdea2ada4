from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from blueflame import __version__
from blueflame.cli.command_table import COMMANDS, KEEP, START, WATCH, CommandEntry, LazyCommandGroup
from blueflame.cli.main import run
from blueflame.journal.mark import unlink_wal
from blueflame.model.exit_codes import ExitCode
from blueflame.system.crash_log import write_crash_log

VERB_MODULE = '''
import click
from blueflame.model.errors import ConfigError, InternalError, Refused

@click.command()
@click.option("--name", help="A name.")
def fine(name: str) -> int:
    """Do it well."""
    click.echo(f"hello {name}")
    return 6

@click.command()
def refused() -> None:
    raise Refused("another orchestrator is at work (pid 4711) \\x1b[2Jон тут")

@click.command()
def misconfigured() -> None:
    raise ConfigError("blueflame.yaml:", ["line 1: a", "line 2: b"])

@click.command()
def broken() -> None:
    raise ZeroDivisionError("our fault")

@click.command()
def illegal() -> None:
    raise InternalError("a merged task cannot fail")

@click.command()
def greedy() -> None:
    bytearray(1 << 60)

@click.command()
def moved() -> None:
    import json.gone  # as when its environment is moved while a session runs

@click.command()
def interrupted() -> None:
    raise KeyboardInterrupt

class Interrupting:
    def __repr__(self) -> str:
        raise KeyboardInterrupt

@click.command()
def building() -> None:
    from pydantic_core import SchemaSerializer, core_schema
    SchemaSerializer(core_schema.literal_schema([Interrupting()]))

@click.command()
def writing() -> None:
    from pydantic_core import SchemaSerializer, core_schema
    writer = core_schema.plain_serializer_function_ser_schema(repr)
    SchemaSerializer(core_schema.any_schema(serialization=writer)).to_json(Interrupting())
'''
NAMES = (
    "fine",
    "greedy",
    "moved",
    "refused",
    "misconfigured",
    "broken",
    "illegal",
    "interrupted",
    "building",
    "writing",
)


@pytest.fixture
def verbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Verbs that end in every way there is, from a module that is imported only when one of them is called."""
    (tmp_path / "some_verbs.py").write_text(VERB_MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "some_verbs", raising=False)
    monkeypatch.setattr(
        LazyCommandGroup, "verbs", tuple(CommandEntry(n, START, f"some_verbs:{n}", f"Be {n}.") for n in NAMES)
    )
    work = tmp_path / "рабочая папка"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert re.fullmatch(rf"blueflame {re.escape(__version__)}( \([0-9a-f]{{10,}}\))?\n", capsys.readouterr().out)


def test_the_package_can_be_run_as_a_module() -> None:
    asked = subprocess.run([sys.executable, "-m", "blueflame", "--version"], capture_output=True, text=True, check=True)
    assert asked.stdout.startswith(f"blueflame {__version__}")


@pytest.mark.parametrize("argv", [[], ["-h"], ["--help"]])
def test_help_lists_the_verbs_by_panel_and_imports_none(
    argv: list[str], verbs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(argv) == 0
    out = capsys.readouterr().out
    assert f"{START}:" in out
    assert "fine           Be fine." in out
    assert "some_verbs" not in sys.modules


def test_a_verb_is_run_and_its_number_is_the_exit_code(verbs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fine", "--name", "Ада"]) == 6
    assert capsys.readouterr().out == "hello Ада\n"


def test_a_verb_explains_itself(verbs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fine", "-h"]) == 0
    assert "Do it well." in capsys.readouterr().out


def test_an_error_is_one_message_on_stderr_with_its_exit_code(verbs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["refused"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "blueflame: another orchestrator is at work (pid 4711) ␛[2Jон тут\n"


def test_a_machine_without_room_is_no_bug(verbs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["greedy"]) == ExitCode.WORLD
    assert "the machine has no room: out of memory; end other programs" in capsys.readouterr().err


def test_an_environment_that_was_moved_is_no_bug(verbs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["moved"]) == ExitCode.WORLD
    assert "is incomplete: No module named 'json.gone'; put it back or install it again" in capsys.readouterr().err


def test_all_problems_are_shown(verbs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["misconfigured"]) == 2
    assert capsys.readouterr().err == "blueflame: blueflame.yaml:\n  - line 1: a\n  - line 2: b\n"


@pytest.mark.parametrize("verb", ["interrupted", "building", "writing"])
def test_an_interrupt_ends_with_130(verb: str, verbs: Path) -> None:
    assert run([verb]) == 130


@pytest.mark.parametrize("verb", ["broken", "illegal"])
def test_a_bug_leaves_a_crash_log_beside_the_session(
    verb: str, verbs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = verbs / ".blueflame" / "logs"
    logs.mkdir(parents=True)
    (verbs / "deep").mkdir()
    os.chdir(verbs / "deep")
    assert run([verb]) == 70
    (log,) = logs.iterdir()
    assert str(log) in capsys.readouterr().err
    text = log.read_text(encoding="utf-8")
    assert f"- command: blueflame {verb}" in text
    assert "Traceback (most recent call last)" in text


def test_without_a_session_the_crash_log_is_a_temporary_file(
    verbs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run(["broken"]) == 70
    (log,) = tmp_path.glob("crash-*.log")
    assert str(log) in capsys.readouterr().err


def test_a_folder_that_cannot_be_looked_at_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of a network disk that is gone: to look at it fails, not only to open what is in it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    unseen = tmp_path / ("x" * 300)
    log = write_crash_log(ZeroDivisionError("our fault"), ["run"], start=unseen)
    assert log is not None
    assert "our fault" in log.read_text()
    unlink_wal(unseen)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["fien"], "unknown command 'fien'; did you mean fine?"),
        (["xyz"], "unknown command 'xyz'\n"),
        (["fine", "--nam", "x"], "No such option '--nam'"),
        (["fine", "extra"], "unexpected extra argument"),
        (["--wat"], "No such option '--wat'"),
    ],
)
def test_a_wrong_command_line_gets_what_is_possible(
    argv: list[str], said: str, verbs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(argv) == 2
    err = capsys.readouterr().err
    assert err.startswith("blueflame: ")
    assert said in err
    assert "--help'." in err


def test_the_verbs_of_a_panel_stand_together() -> None:
    panels = [verb.panel for verb in COMMANDS]
    assert panels == sorted(panels, key=[START, WATCH, KEEP].index)


@pytest.mark.parametrize("verb", COMMANDS, ids=lambda verb: verb.name)
def test_every_verb_in_the_table_can_be_loaded(verb: CommandEntry, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb.name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: blueflame {verb.name}")


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    def start(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *args], capture_output=True, text=True, check=False, env={**os.environ, **env}
        )

    return start


HEAVY = {"pydantic", "ruamel", "rich", "jinja2", "asyncio", "watchfiles", "sqlite3", "psutil", "pathspec"}


def test_help_imports_nothing_heavy(python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    script = "import sys; from blueflame.cli.main import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    loaded = {name.split(".")[0] for name in python("-c", script).stderr.split()}
    assert loaded & HEAVY == set()


def test_completion_knows_the_verbs(python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    asked = {"_BLUEFLAME_COMPLETE": "bash_complete", "COMP_WORDS": "blueflame con", "COMP_CWORD": "1"}
    done = python("-c", "from blueflame.cli.main import main; main()", **asked)
    assert done.stdout.split() == ["plain,config"]


def test_a_reader_that_leaves_early_is_no_bug(python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    script = (
        "import os, sys; r, w = os.pipe(); os.close(r); os.dup2(w, 1); "
        "from blueflame.cli.main import main; sys.argv = ['blueflame', '--help']; main()"
    )
    done = python("-c", script)
    assert "bug" not in done.stderr


def test_an_odd_locale_umask_or_signal_of_the_parent_does_not_matter(
    tmp_path: Path, python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Else a file has another name in the next locale, is not readable for us, or children end unseen."""
    other = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    script = "import os, sys; print(sys.getfilesystemencoding()); from blueflame.cli import main; "
    script += "main.run = lambda argv: print(sys.stdout.encoding, ascii(argv[0]), oct(os.umask(0)), "
    script += "signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL); main.main()"
    odd = "import os, signal; os.umask(0o277); signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
    done = python("-c", odd + script, "мой", **other)
    assert done.stdout.splitlines() == ["ascii", "utf-8", "ascii '\\u043c\\u043e\\u0439' 0o77 True"], done.stderr


@pytest.mark.parametrize("command", ["status", "run", "--version"])
def test_a_current_folder_that_was_deleted_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert run([command]) == ExitCode.WORLD
    assert capsys.readouterr().err == (
        "blueflame: the current folder cannot be used: No such file or directory; change to another one (cd)\n"
    )
