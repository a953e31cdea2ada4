"""What a project needs is found where it is, comes in read-only, and brings no secret along."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import pytest

from blueflame.model.sandbox import MountKind
from blueflame.sandbox.toolchains import SYSTEM_PATH, Toolchains, find_toolchains
from support.sandboxes import make_sandbox_fixture, needs_sandbox


def find(home: Path, *path: Path | str, repo_root: Path | None = None, **environ: str) -> Toolchains:
    written = os.pathsep.join([*(str(each) for each in path), *SYSTEM_PATH])
    return find_toolchains({"PATH": written, **environ}, repo_root=repo_root, home=home)


def program(path: Path, text: str = "#!/bin/sh\necho $0\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def shown(tools: Toolchains, within: Path) -> list[str]:
    return sorted(mount.target for mount in tools.mounts if mount.target.startswith(str(within)))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "дом"
    made.mkdir()
    return made


def test_a_bare_home_shows_nothing(home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / "projects").mkdir()
    assert shown(find(home), home) == []


def test_rust_is_shown_without_its_credentials(home: Path) -> None:
    program(home / ".cargo/bin/cargo")
    (home / ".cargo/credentials.toml").write_text("token")
    (home / ".cargo/registry/cache").mkdir(parents=True)
    (home / ".rustup/toolchains/stable/bin").mkdir(parents=True)
    tools = find(home, home / ".cargo/bin")
    assert shown(tools, home) == [f"{home}/{part}" for part in (".cargo/bin", ".cargo/registry", ".rustup")]
    assert tools.path[0] == f"{home}/.cargo/bin"
    assert tools.variables["RUSTUP_HOME"] == f"{home}/.rustup"
    assert tools.links == ((".cargo/registry", f"{home}/.cargo/registry"),)


def test_go_reads_its_downloaded_modules_from_where_they_are(home: Path) -> None:
    (home / "go/pkg/mod/cache/download").mkdir(parents=True)
    program(home / "go/bin/gopls")
    (home / "go/src/private").mkdir(parents=True)
    tools = find(home, home / "go/bin")
    assert shown(tools, home) == [f"{home}/go/bin", f"{home}/go/pkg/mod"]
    assert tools.variables["GOPROXY"] == f"file://{home}/go/pkg/mod/cache/download"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([".pyenv/versions/3.12/bin/python3", ".pyenv/shims/python"], [".pyenv"]),
        ([".nvm/versions/node/v22/bin/node", ".nvm/.git/config"], [".nvm/versions"]),
        ([".bun/bin/bun", ".bun/install/cache/x"], [".bun/bin"]),
        ([".deno/bin/deno"], [".deno/bin"]),
        ([".volta/bin/node", ".volta/tools/image/node/x"], [".volta/bin", ".volta/tools"]),
        ([".local/share/uv/python/cpython/bin/python3", ".local/share/secret/x"], [".local/share/uv/python"]),
        ([".sdkman/candidates/java/21/bin/java", ".sdkman/etc/config"], [".sdkman/candidates"]),
        ([".m2/repository/x/y.jar", ".m2/settings.xml"], [".m2/repository"]),
        ([".gem/ruby/3.0/gems/x", ".gem/credentials"], [".gem/ruby"]),
        ([".rbenv/versions/3.3/bin/ruby"], [".rbenv"]),
        (["miniconda3/conda-meta/history", "miniconda3/bin/python"], ["miniconda3"]),
        ([".npm-global/bin/tsc", ".npm-global/lib/node_modules/x"], [".npm-global/bin", ".npm-global/lib"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_places_where_toolchains_are_kept_are_known(home: Path, made: list[str], expected: list[str]) -> None:
    for name in made:
        program(home / name)
    assert shown(find(home), home) == [f"{home}/{name}" for name in expected]


def test_a_variable_that_names_another_place_is_believed(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "cargo"
    program(elsewhere / "bin/cargo")
    assert shown(find(home, CARGO_HOME=str(elsewhere)), elsewhere) == [f"{elsewhere}/bin"]


@pytest.mark.parametrize("variable", ["CARGO_HOME", "PYENV_ROOT", "JAVA_HOME", "GOROOT", "VIRTUAL_ENV", "NVM_DIR"])
@pytest.mark.parametrize("value", ["/", "home", "home/.ssh", "relative", "/etc", "/proc/self", "/run"])
def test_a_variable_that_names_too_much_is_not(home: Path, variable: str, value: str) -> None:
    program(home / ".ssh" / "bin" / "id")
    (home / ".ssh" / "pyvenv.cfg").write_text("home = /root/secret\n")
    value = value.replace("home", str(home))
    targets = [mount.target for mount in find(home, repo_root=None, **{variable: value}).mounts]
    assert not {"/", "/etc", "/run", "/proc/self", str(home)} & set(targets)
    assert not any(".ssh" in target for target in targets)


def test_programs_on_the_path_are_shown_with_their_installation(home: Path, tmp_path: Path) -> None:
    program(tmp_path / "opt/tool/bin/tool")
    (tmp_path / "opt/tool/lib").mkdir()
    program(home / "bin/script")
    tools = find(home, tmp_path / "opt/tool/bin", home / "bin")
    assert shown(tools, tmp_path) == sorted([f"{tmp_path}/opt/tool", f"{home}/bin"])
    assert tools.path[:2] == (f"{tmp_path}/opt/tool/bin", f"{home}/bin")


def test_local_bin_does_not_bring_the_rest_of_local_along(home: Path) -> None:
    program(home / ".local/bin/tool")
    program(home / ".local/share/keyrings/login.keyring")
    program(home / ".local/lib/x")
    assert shown(find(home, home / ".local/bin"), home) == [f"{home}/.local/bin"]


def test_links_are_followed_to_what_they_need(home: Path, tmp_path: Path) -> None:
    real = program(home / ".local/share/claude/versions/1.2.3")
    (home / ".local/bin").mkdir(parents=True)
    (home / ".local/bin/claude").symlink_to(real)
    python = program(tmp_path / "pythons/3.13/bin/python3")
    (tmp_path / "pythons/3.13/lib").mkdir()
    (home / ".local/bin/py").symlink_to(python)
    program(home / ".local/bin/script", f"#!{tmp_path}/other/bin/run -x\n")
    runner = program(tmp_path / "other/bin/run")
    tools = find(home, home / ".local/bin")
    assert shown(tools, tmp_path) == sorted([f"{home}/.local/bin", str(real), f"{tmp_path}/pythons/3.13", str(runner)])


def test_links_in_a_folder_that_is_one_itself_lead_where_the_kernel_goes(home: Path, tmp_path: Path) -> None:
    program(tmp_path / "kept/tools/first")
    runner = program(tmp_path / "kept/run/second")
    (tmp_path / "kept/tools/again").symlink_to("../run/second")
    (home / "mine").symlink_to(tmp_path / "kept/tools")
    tools = find(home, home / "mine")
    assert shown(tools, tmp_path) == sorted([f"{home}/mine", f"{tmp_path}/kept/tools", str(runner)])


def test_a_link_to_a_secret_is_not_followed(home: Path) -> None:
    program(home / ".ssh/key")
    (home / "bin").mkdir()
    (home / "bin/key").symlink_to(home / ".ssh/key")
    tools = find(home, home / "bin")
    assert shown(tools, home) == [f"{home}/bin"]
    assert any(".ssh/key is not mounted" in note for note in tools.notes)


def test_a_path_that_others_can_write_or_that_is_relative_is_left_out(home: Path, tmp_path: Path) -> None:
    program(tmp_path / "open/x").parent.chmod(0o777)
    tools = find(home, "", ".", "node_modules/.bin", tmp_path / "open", tmp_path / "missing")
    assert tools.path == SYSTEM_PATH
    assert len([note for note in tools.notes if note.startswith("PATH:")]) == 4
    assert shown(tools, tmp_path) == []


def test_folders_of_the_repository_on_the_path_are_left_out_but_for_its_environment(home: Path, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    program(repo / "scripts/x")
    program(repo / "node_modules/.bin/tsc")
    tools = find(home, repo / "scripts", repo / "node_modules/.bin", repo_root=repo)
    assert tools.path[0] == f"{repo}/node_modules/.bin"
    assert f"{repo}/scripts" not in tools.path
    assert shown(tools, repo) == [f"{repo}/node_modules"]


def test_a_virtual_environment_comes_with_its_python(home: Path, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    base = program(tmp_path / "base/bin/python3")
    (tmp_path / "base/lib").mkdir()
    (repo / ".venv/bin").mkdir(parents=True)
    (repo / ".venv/bin/python").symlink_to(base)
    (repo / ".venv/pyvenv.cfg").write_text(f"home = {base.parent}\nversion = 3.11\n")
    tools = find(home, repo / ".venv/bin", repo_root=repo)
    assert shown(tools, tmp_path) == sorted([f"{repo}/.venv", f"{tmp_path}/base"])
    assert tools.path[0] == f"{repo}/.venv/bin"


def test_an_editable_install_is_noticed(home: Path, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    packages = repo / ".venv/lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    (repo / ".venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    (packages / "_editable.pth").write_text(f"{repo}/src\n")
    (packages / "__editable___x_finder.py").write_text(f"MAPPING = {{'x': '{repo}/lib/x', 'y': '/elsewhere/y'}}\n")
    assert find(home, repo_root=repo).editable == ("lib/x", "src")


def test_certificates_that_are_named_come_in_but_no_key_does(home: Path, tmp_path: Path) -> None:
    bundle, both = tmp_path / "ca.pem", tmp_path / "both.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\n")
    both.write_text("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n")
    tools = find(home, SSL_CERT_FILE=str(bundle), NODE_EXTRA_CA_CERTS=str(both))
    assert shown(tools, tmp_path) == [str(bundle)]


def test_everything_found_is_read_only(home: Path) -> None:
    program(home / ".cargo/bin/cargo")
    tools = find_toolchains(os.environ, repo_root=None, home=home, ours=True)
    assert {mount.kind for mount in tools.mounts} <= {MountKind.RO, MountKind.SYMLINK}


@needs_sandbox
def test_our_own_python_runs_inside(tmp_path: Path) -> None:
    room = make_sandbox_fixture(tmp_path, ours=True)
    said = room.run(sys.executable, "-I", "-S", "-E", "-c", "import json, sys; print(sys.version_info[:2])")
    assert said.out.strip() == str(sys.version_info[:2]), said.err


@needs_sandbox
@pytest.mark.slow
def test_a_virtual_environment_works_inside_and_cannot_be_changed(tmp_path: Path) -> None:
    repo = tmp_path / "мой repo"
    venv.create(repo / ".venv", symlinks=True, with_pip=False)
    packages = next(iter((repo / ".venv/lib").glob("python3*/site-packages")))
    (packages / "_editable.pth").write_text(f"{repo}/src\n")
    worktree = repo / ".trees" / "one"
    (worktree / "src").mkdir(parents=True)
    (worktree / "src" / "mine.py").write_text("WHERE = __file__\n")
    (repo / "src").mkdir()
    (repo / "src" / "mine.py").write_text("raise SystemExit('the wrong one')\n")
    environ = {**os.environ, "PATH": f"{repo}/.venv/bin:/usr/bin:/bin", "VIRTUAL_ENV": str(repo / ".venv")}
    room = make_sandbox_fixture(tmp_path, environ=environ, repo_root=repo)
    room.worktree = worktree
    said = room.sh("python -c 'import mine; print(mine.WHERE)'; echo x >$VIRTUAL_ENV/x || echo refused")
    assert said.out.splitlines() == [f"{repo}/src/mine.py", "refused"], said.err
