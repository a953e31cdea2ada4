from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blueflame.model.policy import UnparsableCommand
from blueflame.watcher import world as policy_world
from blueflame.watcher.policy_file import find_shfmt
from blueflame.watcher.world import NOWHERE, LocalWorld


@pytest.fixture
def top(tmp_path: Path) -> Path:
    found = tmp_path / "рабочее дерево"
    (found / "src").mkdir(parents=True)
    return found


def world_of(top: Path, mounts: dict[str, str] | None = None) -> LocalWorld:
    return LocalWorld(str(top), shfmt=find_shfmt(), mounts=mounts)


# --- links -------------------------------------------------------------------------------------------------------


def test_links_are_followed_also_above_what_is_not_there(top: Path, tmp_path: Path) -> None:
    (top / "out").symlink_to(tmp_path / "elsewhere")
    (top / "near").symlink_to("src")
    (top / "src" / "far").symlink_to("../near/x")
    world = world_of(top)
    assert world.resolve(f"{top}/out/a/b") == f"{tmp_path}/elsewhere/a/b"
    assert world.resolve(f"{top}/near/new/file") == f"{top}/src/new/file"
    assert world.resolve(f"{top}/near/far") == f"{top}/src/x"
    assert world.resolve(f"{top}//src/./x/") == f"{top}/src/x"


def test_a_checkout_that_is_mounted_elsewhere_is_read_where_it_is(top: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary")
    (top / "src" / "in").symlink_to("/work/here/src/file")
    (top / "src" / "out").symlink_to(tmp_path / "secret")
    (top / "src" / "up").symlink_to("../../secret")
    (top / "src" / "file").write_text("text")
    world = LocalWorld("/work/here", shfmt=find_shfmt(), mounts={"/work/here": str(top)})
    assert world.resolve("/work/here/src/in") == "/work/here/src/file"
    assert world.resolve("/work/here/src/out") == f"{tmp_path}/secret"
    assert world.resolve("/work/here/src/up") == "/work/secret"
    assert [world.read_text(f"src/{name}") for name in ("file", "in", "out", "up")] == ["text", "text", None, None]


def test_dot_dot_after_a_link_is_resolved_like_the_kernel_does(top: Path, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (top / "link").symlink_to(tmp_path / "a" / "b")
    assert world_of(top).resolve(f"{top}/link/../x") == f"{tmp_path}/a/x"
    assert world_of(top).resolve("/../../x") == "/x"


def test_a_loop_of_links_resolves_to_nothing(top: Path) -> None:
    (top / "one").symlink_to("two")
    (top / "two").symlink_to("one")
    (top / "self").symlink_to("self/self")
    for name in ("one", "two/x", "self"):
        assert world_of(top).resolve(f"{top}/{name}") == NOWHERE


def test_a_long_chain_is_followed_as_far_as_the_kernel_would(top: Path) -> None:
    (top / "0").write_text("x")
    for n in range(1, 45):
        (top / str(n)).symlink_to(str(n - 1))
    assert world_of(top).resolve(f"{top}/40") == f"{top}/0"
    assert world_of(top).resolve(f"{top}/41") == NOWHERE


@pytest.mark.parametrize("path", ["", "src", "./x", "/x\0y", "/\ud800", "/" + "a" * 300])
def test_an_invalid_path_resolves_to_nothing(top: Path, path: str) -> None:
    assert world_of(top).resolve(path) == NOWHERE


@pytest.mark.skipif(os.geteuid() == 0, reason="root looks into every folder")
def test_an_unreadable_path_resolves_to_nothing(top: Path) -> None:
    (top / "closed").mkdir()
    (top / "closed").chmod(0)
    assert world_of(top).resolve(f"{top}/closed/x") == NOWHERE
    (top / "closed").chmod(0o700)


def test_links_that_depend_on_the_process_are_not_followed(top: Path) -> None:
    (top / "cwd").symlink_to("/proc/self/cwd")
    (top / "fd").symlink_to("/dev/fd/0")
    assert world_of(top).resolve(f"{top}/cwd/x") == "/proc/self/cwd/x"
    assert world_of(top).resolve(f"{top}/fd") == "/dev/fd/0"


def test_names_of_the_sandbox_are_looked_up_where_they_are_outside(top: Path, tmp_path: Path) -> None:
    outside = tmp_path / "attempt" / "tmp"
    outside.mkdir(parents=True)
    (outside / "trap").symlink_to(top / ".env")
    (outside / "up").symlink_to("/sandbox-tmp/trap")
    (top / "to-tmp").symlink_to("/sandbox-tmp/up")
    world = world_of(top, {"/sandbox-tmp": str(outside)})
    assert world.resolve("/sandbox-tmp/trap") == f"{top}/.env"
    assert world.resolve(f"{top}/to-tmp") == f"{top}/.env"
    assert world.resolve("/sandbox-tmp-other/trap") == "/sandbox-tmp-other/trap"


def test_the_worktree_is_at_its_own_place_also_below_a_mount(top: Path, tmp_path: Path) -> None:
    (top / "link").symlink_to("src")
    world = world_of(top, {str(tmp_path): str(tmp_path / "somewhere else")})
    assert world.resolve(f"{top}/link") == f"{top}/src"


NAMES = ["a", "b", "c", "..", ".", "d"]


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    links=st.dictionaries(
        st.sampled_from(["a", "b", "c", "d/a", "d/b"]),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join),
    ),
    path=st.lists(st.sampled_from(NAMES), min_size=1, max_size=5).map("/".join),
)
def test_a_path_is_resolved_as_python_resolves_it(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, str], path: str
) -> None:
    top = tmp_path_factory.mktemp("links")
    (top / "d").mkdir()
    for name, target in links.items():
        (top / name).symlink_to(target)
    found = world_of(top).resolve(f"{top}/{path}")
    try:
        (top / path).stat()
    except FileNotFoundError:
        return  # implementations differ for missing paths; that the result stays inside is another test
    except OSError:
        assert found == NOWHERE or not os.path.lexists(found)
        return
    assert found == os.path.realpath(f"{top}/{path}")


# --- small files -------------------------------------------------------------------------------------------------


def test_a_small_file_is_read(top: Path) -> None:
    (top / "package.json").write_text("{}")
    (top / "link.json").symlink_to("package.json")
    (top / "binary").write_bytes(b"\xff\x00")
    world = world_of(top)
    assert (
        world.read_text("package.json")
        == "{}"
        == world.read_text(f"{top}/package.json")
        == world.read_text("link.json")
    )
    assert world.read_text("binary") == "\ufffd\0"


def test_other_files_are_not_read(top: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (top / "out").symlink_to(tmp_path / "secret")
    (top / "large").write_bytes(b"x" * 1_000_001)
    os.mkfifo(top / "pipe")
    (top / "loop").symlink_to("loop")
    world = world_of(top)
    for name in ("out", "large", "pipe", "loop", "src", "none", "../secret", str(tmp_path / "secret"), "a\0b", ""):
        assert world.read_text(name) is None


# --- shell commands ----------------------------------------------------------------------------------------------


def test_a_command_is_read_as_a_tree(top: Path) -> None:
    tree = world_of(top).parse("git add 'с пробелом' && make -j2 <<< $(date)")
    assert tree["Type"] == "File" and len(tree["Stmts"]) == 1


@pytest.mark.parametrize(
    "command", ["echo 'x", "if true", "$(", "a ||| b", "\ud800", "((", "case x in", "echo <<EOF\nx", "f() {"]
)
def test_what_a_shell_could_not_read_is_unreadable(top: Path, command: str) -> None:
    with pytest.raises(UnparsableCommand):
        world_of(top).parse(command)


def test_the_reason_of_the_parser_is_reported(top: Path) -> None:
    with pytest.raises(UnparsableCommand, match=r"1:6: .*closing quote"):
        world_of(top).parse("echo 'x")


@pytest.mark.parametrize("command", ["echo " + "$(" * 400 + "a" + ")" * 400, "(" * 5000 + "a" + ")" * 5000])
def test_deep_nesting_is_unreadable_or_read_but_never_a_crash(top: Path, command: str) -> None:
    with pytest.raises(UnparsableCommand):
        world_of(top).parse(command)


def test_a_large_command_is_read_without_getting_stuck(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_world, "PARSE_TIMEOUT", 60.0)  # a busy machine must not fail this test
    many = "\n".join(f"echo line {n}" for n in range(5_000))
    assert len(world_of(top).parse(many)["Stmts"]) == 5_000
    text = "cat <<'EOF'\n" + "x" * 500_000 + "\nEOF"
    assert len(world_of(top).parse(text)["Stmts"]) == 1


def fake_parser(tmp_path: Path, script: str) -> str:
    path = tmp_path / "разбор"
    path.write_text(f"#!{sys.executable} -IS\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("import time; time.sleep(60)", "seconds"),
        ("import sys, time; sys.stdin.close(); print('{}', flush=True); time.sleep(60)", "seconds"),
        ("import sys; sys.exit(3)", "no reason"),
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
        ("print('not JSON')", "not JSON"),
        ("print('[]')", "not a tree"),
        ("print('[' * 500000)", "nested"),
        ("print('x' * 3000000)", "too large"),
        ("pass", "not JSON"),
    ],
)
def test_a_parser_that_misbehaves_makes_a_command_unreadable(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    monkeypatch.setattr(policy_world, "PARSE_TIMEOUT", 0.6)
    monkeypatch.setattr(policy_world, "MAX_TREE_BYTES", 2_000_000)
    card = tmp_path / "pid"
    noted = f"import os; open({str(card)!r}, 'w').write(str(os.getpid()))\n{script}"
    with pytest.raises(UnparsableCommand, match=why):
        LocalWorld(str(top), shfmt=fake_parser(tmp_path, noted)).parse("ls " + "x" * 200_000)
    with pytest.raises(ProcessLookupError):
        os.kill(int(card.read_text()), 0)  # nothing is left running


def test_a_parser_that_is_not_there_makes_a_command_unreadable(top: Path, tmp_path: Path) -> None:
    before = open_handles()
    for path in ("/nowhere/shfmt", str(tmp_path), ""):
        with pytest.raises(UnparsableCommand, match="cannot be started"):
            LocalWorld(str(top), shfmt=path).parse("ls")
    assert open_handles() == before


def test_a_parser_that_was_killed_is_asked_again(top: Path, tmp_path: Path) -> None:
    parser, notes = counting_parser(tmp_path)
    once = tmp_path / "once"
    (tmp_path / "killed").mkdir()
    first = f"not os.path.exists({str(once)!r})"
    kills = f"import os, sys\nif {first}:\n    open({str(once)!r}, 'w')\n    os.kill(os.getpid(), 9)"
    killed = fake_parser(tmp_path / "killed", f"{kills}\nos.execv({parser!r}, sys.argv)")
    assert LocalWorld(str(top), shfmt=killed).parse("ls")["Type"] == "File"
    assert notes.read_text() == "x"


def open_handles() -> int:
    folder = Path("/dev/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def counting_parser(tmp_path: Path) -> tuple[str, Path]:
    """Write a wrapper of the real shfmt that notes each start."""
    notes = tmp_path / "notes"
    script = f"import os, sys\nopen({str(notes)!r}, 'a').write('x')\nos.execv({find_shfmt()!r}, sys.argv)"
    return fake_parser(tmp_path, script), notes


def test_a_command_is_parsed_once(top: Path, tmp_path: Path) -> None:
    parser, notes = counting_parser(tmp_path)
    world = LocalWorld(str(top), shfmt=parser)
    assert world.parse("git status") is world.parse("git status")
    world.parse("git status ")
    assert notes.read_text() == "xx"


def test_what_was_not_readable_is_asked_again(top: Path, tmp_path: Path) -> None:
    parser, notes = counting_parser(tmp_path)
    world = LocalWorld(str(top), shfmt=parser)
    for _ in range(2):
        with pytest.raises(UnparsableCommand):
            world.parse("echo 'x")
    assert notes.read_text() == "xx"


def test_the_oldest_trees_are_forgotten_by_number_and_by_size(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser, notes = counting_parser(tmp_path)
    monkeypatch.setattr(policy_world, "MAX_CACHED_TREES", 2)
    world = LocalWorld(str(top), shfmt=parser)
    for command in ("a", "b", "a", "c", "a"):  # b is dropped: a was used since
        world.parse(command)
    assert len(notes.read_text()) == 3
    world.parse("b")
    assert len(notes.read_text()) == 4
    monkeypatch.setattr(policy_world, "MAX_CACHED_BYTES", 4)  # no tree is that small
    fresh = LocalWorld(str(top), shfmt=parser)
    fresh.parse("a")
    fresh.parse("a")
    assert len(notes.read_text()) == 6


@pytest.mark.parametrize(("fails", "hindered"), [("True", True), ("b'$(' in sys.stdin.buffer.read()", False)])
def test_a_parser_that_fails_at_everything_is_the_fault_of_the_machine(
    top: Path, tmp_path: Path, fails: str, hindered: bool
) -> None:
    """As one without memory does; a single command that it cannot hold is the agent's."""
    gives_up = "print('fatal error: out of memory\\ngoroutine 1', file=sys.stderr); sys.exit(2)"
    world = LocalWorld(str(top), shfmt=fake_parser(tmp_path, f"import sys\nif {fails}: {gives_up}"))
    with pytest.raises(UnparsableCommand, match=r"fatal error: out of memory$"):
        world.parse("echo $(ls)")
    assert bool(world.hindrance) is hindered
