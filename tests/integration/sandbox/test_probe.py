"""The probe tries whether the sandbox works here, and reports what is missing and how to fix it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from blueflame.model.sandbox import SandboxLevel
from blueflame.sandbox import probe
from blueflame.sandbox import probe as module
from blueflame.sandbox.probe import (
    _find_standard_problems,
    _holds_everything,
    find_bubblewrap,
    find_problems,
    find_supported_level,
)


def all_groups() -> tuple[bool, bool]:
    return True, True


def no_groups() -> tuple[bool, bool]:
    return False, False


@pytest.fixture
def forgetting() -> Iterator[None]:
    """What was tried before is tried again, and what is tried here is not remembered."""
    forget()
    yield
    forget()


def forget() -> None:
    for cached in (_find_standard_problems, _holds_everything, find_bubblewrap):
        cached.cache_clear()


def fake(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_off_needs_nothing(forgetting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_problems("off", no_groups) == ()


def test_macos_is_refused_with_what_works_there(forgetting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    (problem,) = find_problems("standard", all_groups)
    assert problem.words.startswith("agents cannot be sandboxed on macOS: run it in a Linux virtual machine")
    assert "plans, reports and views work here" in problem.words


@pytest.mark.verification(18)
def test_without_bubblewrap_the_message_says_how_to_install_it(
    forgetting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (problem,) = find_problems("standard", all_groups)
    assert problem.guard == "bubblewrap"
    assert "apt-get install bubblewrap" in problem.words
    assert "level: off" in problem.words
    assert find_supported_level(all_groups) is SandboxLevel.OFF


def test_an_old_bubblewrap_is_reported(forgetting: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, "echo bubblewrap 0.1.2", monkeypatch)
    (problem,) = find_problems("strict", all_groups)
    assert "0.1.2" in problem.words


def test_a_bubblewrap_that_cannot_build_says_why(
    forgetting: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "bwrap: setting up uid map: Permission denied"
    fake(tmp_path, f'[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit; echo "{said}" >&2; exit 1', monkeypatch)
    (problem,) = find_problems("standard", all_groups)
    assert problem.guard == "namespaces"
    assert said in problem.words


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("APPARMOR_RESTRICTION", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("USERNS_CLONE", "0", "kernel.unprivileged_userns_clone=1"),
        ("MAX_USER_NAMESPACES", "0", "user.max_user_namespaces"),
    ],
)
def test_the_advice_fits_what_is_forbidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, advice: str
) -> None:
    setting = tmp_path / "setting"
    setting.write_text(f"{value}\n")
    for each in ("APPARMOR_RESTRICTION", "USERNS_CLONE", "MAX_USER_NAMESPACES"):
        monkeypatch.setattr(module, each, setting if each == name else tmp_path / "none")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert advice in module._choose_advice()


def test_a_filter_that_the_kernel_rejects_is_reported(
    forgetting: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bubblewrap that drops the option in silence: the process inside is not filtered, and that is noticed."""
    script = (
        '[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit\n'
        'while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done; shift; exec "$@"'
    )
    fake(tmp_path, script, monkeypatch)
    (problem,) = find_problems("standard", all_groups)
    assert problem.guard == "seccomp"


def test_one_sandbox_is_started_where_everything_works(forgetting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    run = probe._run_program

    def count(argv: list[str], keep: tuple[int, ...] = ()) -> probe.SandboxProbeResult:
        started.append(argv)
        return run(argv, keep)

    monkeypatch.setattr(probe, "_run_program", count)
    if find_problems("standard", all_groups):
        pytest.skip("no sandbox on this machine")
    assert find_bubblewrap().disable_userns
    assert [argv[1:] for argv in started if "/bin/sh" not in argv] == [["--version"], ["--help"]]
    assert len(started) == 3


@pytest.mark.verification(18)
def test_strict_needs_the_kernel_to_hold_memory_and_processes() -> None:
    if find_problems("standard", all_groups):
        pytest.skip("no sandbox on this machine")
    assert find_problems("strict", all_groups) == ()
    (problem,) = find_problems("strict", no_groups)
    assert "memory and the number of processes" in problem.words
    (problem,) = find_problems("strict", lambda: (True, False))
    assert "memory" not in problem.words.partition(";")[0]
    assert find_supported_level(no_groups) is SandboxLevel.STANDARD
    assert find_supported_level(all_groups) is SandboxLevel.STRICT


def test_an_unknown_machine_has_no_filter(forgetting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_problems("standard", all_groups):
        pytest.skip("no sandbox on this machine")
    forget()
    monkeypatch.setattr("platform.machine", lambda: "m68k")
    (problem,) = find_problems("standard", all_groups)
    assert "m68k" in problem.words
