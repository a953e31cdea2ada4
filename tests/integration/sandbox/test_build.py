"""What is inside of a sandbox, what is not, and what those inside cannot do to those outside."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from blueflame.model.errors import Refused
from blueflame.model.sandbox import Mount, MountKind, Network
from blueflame.model.settings.permissions import SandboxSettings
from blueflame.sandbox.build import choose_inner_path
from blueflame.sandbox.prepare import prepare_sandbox
from blueflame.sandbox.toolchains import Toolchains
from support.sandboxes import SandboxFixture, make_sandbox_fixture, needs_sandbox, run_in_sandbox
from support.small_sandbox import find_processes_with
from support.wardens import wait_until

pytestmark = needs_sandbox


@pytest.fixture
def room(tmp_path: Path) -> SandboxFixture:
    return make_sandbox_fixture(tmp_path)


def test_only_a_few_folders_of_the_machine_exist_inside(room: SandboxFixture) -> None:
    said = room.sh("ls -A /")
    assert said.code == 0, said.err
    found = set(said.out.split())
    assert {"usr", "bin", "etc", "dev", "proc", "tmp", "home"} <= found
    assert not found & {"run", "sys", "boot", "mnt", "media", "srv", "opt"}


def test_the_checkout_home_and_tmp_can_be_written_and_nothing_else(room: SandboxFixture) -> None:
    said = room.sh(
        "for place in . ~ /tmp /var/tmp /dev/shm / /etc /usr /usr/bin /dev /home /proc /var; do"
        " (echo x >$place/canary) 2>/dev/null && echo $place; done"
    )
    assert said.out.split() == [".", "/home/agent", "/tmp", "/var/tmp", "/dev/shm"]
    assert (room.worktree / "canary").read_text() == "x\n"
    assert (room.folder / "home" / "canary").exists()
    assert (room.folder / "tmp" / "canary").exists()


def test_the_home_of_the_person_is_not_there(room: SandboxFixture) -> None:
    secret = room.home / ".ssh" / "id_ed25519"
    secret.parent.mkdir()
    secret.write_text("canary")
    said = room.sh(f"cat '{secret}' ~/.ssh/id_ed25519; ls -A ~")
    assert "canary" not in said.out + said.err
    assert said.out.split() == []


def test_no_user_of_the_machine_is_named_inside(room: SandboxFixture) -> None:
    said = room.sh("cut -d: -f1 /etc/passwd; id -un; hostname")
    assert said.out.split() == ["root", "agent", "nobody", "agent", "blueflame"]


def test_a_process_inside_is_not_root_and_has_no_capability(room: SandboxFixture) -> None:
    said = room.sh("id -u; grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status")
    uid, *lines = said.out.splitlines()
    assert int(uid) == (os.geteuid() or 1000)
    assert dict(line.split(":\t") for line in lines) == {
        **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0" * 16),
        "NoNewPrivs": "1",
        "Seccomp": "2",
    }


def test_processes_of_the_machine_are_not_to_be_seen_nor_signalled(room: SandboxFixture) -> None:
    with subprocess.Popen(["sleep", "60"]) as outside:
        said = room.sh(f"ls -d /proc/[0-9]* | wc -l; kill -9 {outside.pid}; kill -9 -1; true")
        assert int(said.out.split()[0]) < 10
        assert outside.poll() is None
        outside.kill()


def test_its_own_daemons_die_with_the_sandbox(room: SandboxFixture) -> None:
    mark = f"daemon-{uuid4().hex}"
    said = room.sh(f"setsid sh -c 'sleep 60; echo {mark}' >/dev/null 2>&1 & sleep 0.1; echo ended")
    assert said.out == "ended\n"
    wait_until(lambda: not find_processes_with(mark), "the daemon is dead")


def test_there_is_no_network(room: SandboxFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        port = server.getsockname()[1]
        said = room.run("/bin/bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo canary >&3")
        assert said.code != 0
        with pytest.raises(TimeoutError):
            server.accept()


def test_sockets_of_the_machine_are_not_reached(room: SandboxFixture, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as abstract:
        server.bind(str(path))
        server.listen()
        abstract.bind(f"\0blueflame-test-{os.getpid()}")
        abstract.listen()
        for each in (server, abstract):
            each.settimeout(0.2)
        script = (
            "import socket,sys\n"
            "for name in sys.argv[1], '\\0' + sys.argv[2]:\n"
            "    try: socket.socket(socket.AF_UNIX).connect(name)\n"
            "    except OSError as e: print(e.errno)\n"
        )
        said = room.run("/usr/bin/python3", "-c", script, str(path), f"blueflame-test-{os.getpid()}")
        assert len(said.out.split()) == 2, said
        for each in (server, abstract):
            with pytest.raises(TimeoutError):
                each.accept()


def test_no_namespace_and_no_mount_can_be_made_inside(room: SandboxFixture) -> None:
    said = room.sh(
        "unshare -U true && echo user; unshare -m true && echo mount; mount -o remount,rw,bind / && echo remount;"
        " mount -t tmpfs none /tmp && echo tmpfs; chroot / true && echo chroot; umount /proc && echo umount"
    )
    assert said.out == ""


def test_a_setuid_file_cannot_be_made(room: SandboxFixture) -> None:
    said = room.sh("cp /bin/true mine; chmod 4755 mine && echo made; chmod 755 mine && chmod u+s mine && echo made")
    assert said.out == ""
    assert not (room.worktree / "mine").stat().st_mode & stat.S_ISUID


def test_open_files_and_variables_of_ours_are_not_inherited(
    room: SandboxFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "canary")
    room.environ = dict(os.environ)
    said = room.sh("ls /proc/self/fd | wc -l; env; tr '\\0' '\\n' </proc/1/environ")
    assert "canary" not in said.out
    assert int(said.out.split()[0]) <= 5  # three, the pipe's and the folder's; the filter's own is ours to close here


def test_what_setup_installs_in_the_private_home_is_found_and_hides_nothing(room: SandboxFixture) -> None:
    make = "mkdir -p ~/.local/bin && printf 'echo ours\\n' | tee ~/.local/bin/ls > ~/.local/bin/own-tool"
    ended = room.sh(f"{make} && chmod +x ~/.local/bin/* && own-tool && ls /dev/null")
    assert ended.out.split() == ["ours", "/dev/null"]


def test_variables_that_the_configuration_names_are_passed_on(room: SandboxFixture) -> None:
    room.settings = SandboxSettings(environment=("MY_TOKEN",))
    room.environ = {**os.environ, "MY_TOKEN": "wanted", "OTHER_TOKEN": "not wanted"}
    said = room.sh("env")
    assert "MY_TOKEN=wanted" in said.out
    assert "OTHER_TOKEN" not in said.out


def test_kernel_secrets_in_proc_are_empty(room: SandboxFixture) -> None:
    assert room.sh("cat /proc/timer_list /proc/kmsg /proc/kcore /proc/vmallocinfo 2>/dev/null").out == ""
    if os.geteuid() == 0:  # an ordinary user sees there no more than is their own
        assert room.sh("cat /proc/keys /proc/key-users").out == ""


def test_no_setting_of_the_kernel_can_be_changed(room: SandboxFixture) -> None:
    """A caller that is root owns these files inside; opening one for writing must fail, without writing to it."""
    script = (
        "import os\n"
        "for place, folders, names in os.walk('/proc'):\n"
        "    if place == '/proc': folders[:] = [f for f in folders if not f.isdigit() and 'self' not in f]\n"
        "    for name in names:\n"
        "        try: os.close(os.open(place + '/' + name, os.O_WRONLY | os.O_NONBLOCK))\n"
        "        except OSError: continue\n"
        "        print(place + '/' + name)\n"
    )
    said = room.run("/usr/bin/python3", "-c", script)
    assert (said.code, said.out) == (0, ""), said.err


def test_named_folders_are_shown_read_only_or_writable(room: SandboxFixture, tmp_path: Path) -> None:
    for name in ("shown", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    room.settings = SandboxSettings(read_only=(str(tmp_path / "shown"),), writable=(str(tmp_path / "open"),))
    said = room.sh(f"cd '{tmp_path}'; cat shown/f open/f; echo x >open/new; echo x >shown/new || echo refused")
    assert said.out == "shownopenrefused\n"
    assert (tmp_path / "open/new").exists()
    assert not (tmp_path / "shown/new").exists()


@pytest.mark.parametrize(
    ("key", "name", "why"),
    [
        ("writable", "/", "whole home"),
        ("writable", "~", "whole home"),
        ("writable", "/usr/local", "the system"),
        ("writable", "/etc", "the system"),
        ("writable", "/opt", "the system"),
        ("writable", ".", "the repository itself"),
        ("writable", ".git/hooks", "the repository itself"),
        ("writable", ".blueflame/logs", "Blue Flame itself"),
        ("writable", "~/../..", "whole home"),
        ("read_only", "/", "whole home"),
        ("read_only", "~/", "whole home"),
        ("read_only", "/run", "running services"),
        ("read_only", "/proc/1", "the kernel"),
        ("read_only", "/dev/null", "the kernel"),
        ("read_only", ".blueflame", "Blue Flame itself"),
        ("read_only", "door", "a socket"),
        ("writable", "link", "whole home"),
    ],
)
def test_a_hole_that_would_make_the_wall_useless_is_refused(
    room: SandboxFixture, tmp_path: Path, key: str, name: str, why: str
) -> None:
    room.repo_root = tmp_path
    (tmp_path / "link").symlink_to(room.home)
    os.mkfifo(tmp_path / "door")
    room.settings = SandboxSettings.model_validate({key: [name]})
    with pytest.raises(Refused, match=why):
        room.build()


@pytest.mark.parametrize("name", ["~/.local", "~/.local/state/blueflame", "~/.local/state/blueflame/trust", "way"])
def test_agents_cannot_write_what_a_person_trusts(
    room: SandboxFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(room.home / ".local" / "state"))
    room.repo_root = tmp_path
    (tmp_path / "way").symlink_to(room.home / ".local" / "state")
    room.settings = SandboxSettings(writable=(name,))
    with pytest.raises(Refused, match="what you trust"):
        room.build()


def test_a_named_folder_that_is_not_there_is_reported(room: SandboxFixture) -> None:
    room.settings = SandboxSettings(read_only=("~/.нет",))
    assert any("does not exist" in note for note in room.build().notes)


@pytest.mark.parametrize(
    ("place", "why"),
    [("/", "more than a project"), ("home", "more than a project"), ("/usr", "the system's"), ("/etc", "the system's")],
)
def test_a_checkout_that_is_no_project_is_refused(room: SandboxFixture, place: str, why: str) -> None:
    room.worktree = room.home if place == "home" else Path(place)
    with pytest.raises(Refused, match=why):
        room.build()


@pytest.mark.parametrize("parent", ["/usr/src", "/dev/shm", "/var/tmp"])  # as images and people with much memory do
def test_a_repository_in_a_folder_of_the_system_is_hidden_as_elsewhere(room: SandboxFixture, parent: str) -> None:
    if not os.access(parent, os.W_OK):
        pytest.skip("only root may write there")
    with tempfile.TemporaryDirectory(dir=parent) as made:
        room.repo_root = root = Path(made, "project")
        room.worktree = root / ".trees" / "worker"
        room.worktree.mkdir(parents=True)
        (root / ".env").write_text("SECRET")
        (root / ".venv" / "bin").mkdir(parents=True)
        (root / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
        (shown := root / "prompt.txt").write_text("the task\n")
        script = f"cat {shown}; echo new > file; ls -A {root}; echo x > {root}/other"
        said = room.sh(script, inside="/work/project", shown=[shown])
        assert said.out.split() == ["the", "task", ".venv", "prompt.txt"]
        assert (room.worktree / "file").read_text() == "new\n"


def test_frozen_files_stay_as_they_are(room: SandboxFixture) -> None:
    deep = room.worktree / "a" / "b c"
    deep.mkdir(parents=True)
    for path in (room.worktree / ".env", deep / "пакет.key"):
        path.write_text("old")
    said = room.sh(
        "echo new >.env; rm -f .env; mv .env x; ln -sf /etc/passwd .env; echo new >'a/b c/пакет.key'; rm -rf a;"
        " mv a z; mv 'a/b c' a/d; cat .env 'a/b c/пакет.key'; echo ok >a/neighbour",
        frozen=[".env", "a/b c/пакет.key", "missing"],
    )
    assert said.out == "oldold"
    assert (room.worktree / ".env").read_text() == (deep / "пакет.key").read_text() == "old"
    assert (room.worktree / "a/neighbour").exists()


def test_hidden_files_and_folders_are_empty_inside(room: SandboxFixture) -> None:
    (room.worktree / ".env").write_text("PASSWORD=canary")
    (room.worktree / "private").mkdir()
    (room.worktree / "private" / "x").write_text("canary")
    said = room.sh("cat .env; ls -A private; echo x >private/y; rm -f .env", hidden=[".env", "private"])
    assert "canary" not in said.out
    assert said.out == ""
    assert (room.worktree / ".env").read_text() == "PASSWORD=canary"
    assert not (room.worktree / "private" / "y").exists()


def test_a_link_on_the_way_to_a_frozen_file_is_not_followed_out(room: SandboxFixture, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "server.key").write_text("canary")
    (room.worktree / "x").symlink_to(outside)
    box = room.build(frozen=["x/server.key"])
    assert str(outside) not in str(box.mounts)
    with pytest.raises(Refused, match="not in the checkout"):
        room.build(frozen=["../outside/server.key"])


def test_links_planted_between_two_starts_lead_nowhere(room: SandboxFixture, tmp_path: Path) -> None:
    """The checkout lies below /tmp, which is private inside: the way to it must not be theirs to change."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (room.worktree / "a").mkdir()
    (room.worktree / "a" / "server.key").write_text("old")
    prepared = prepare_sandbox(room.build(frozen=["a/server.key"]), room.folder)
    first = str(room.worktree).split("/")[2]
    tricks = (
        f"cd /; mv /tmp/{first} /tmp/z; rm -rf /tmp/{first}; ln -s '{outside}' /tmp/{first};"
        f" cd '{room.worktree}'; mv a b; ln -s '{outside}' a"
    )
    run_in_sandbox(prepared, ("/bin/sh", "-c", tricks))
    said = run_in_sandbox(prepared, ("/bin/sh", "-c", "pwd; cat a/server.key; echo x >here"))
    assert said.out == f"{room.worktree}\nold", said.err
    assert list(outside.iterdir()) == []
    assert (room.worktree / "here").exists()


def test_the_history_of_the_repository_can_be_read_and_not_changed(
    room: SandboxFixture, repo: Path, tmp_path: Path
) -> None:
    lender = tmp_path / "lender"
    subprocess.run(["git", "clone", "-q", "--bare", str(repo), str(lender)], check=True)
    middle, checkout = tmp_path / "middle", room.worktree
    subprocess.run(["git", "clone", "-q", "--shared", str(lender), str(middle)], check=True)
    checkout.rmdir()
    subprocess.run(["git", "clone", "-q", "--shared", str(middle), str(checkout)], check=True)
    room.objects = middle / ".git" / "objects"
    said = room.sh(
        "git log --format=%s; echo x >new; git add -A; git commit -q -m 'feat(task-001): work'; git log --format=%s -1;"
        f" rm -rf '{lender}'/objects/* '{middle}'/.git/objects/*; ls -A '{middle}' '{middle}/.git'",
        variables={name: os.environ[name] for name in os.environ if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))},
    )
    lines = said.out.splitlines()
    assert lines[:2] == ["Begin", "feat(task-001): work"], said.err
    assert lines[2:] == [f"{middle}:", ".git", "", f"{middle}/.git:", "objects"]
    assert subprocess.run(["git", "-C", str(lender), "fsck"], check=True, capture_output=True).returncode == 0


def test_the_checkouts_own_pointer_to_other_objects_is_never_believed(room: SandboxFixture, tmp_path: Path) -> None:
    secret = tmp_path / "secret" / "objects"
    (secret / "pack").mkdir(parents=True)
    info = room.worktree / ".git" / "objects" / "info"
    info.mkdir(parents=True)
    (info / "alternates").write_text(f"{secret}\n")
    assert str(secret) not in str(room.build().mounts)


def test_an_alternate_that_holds_no_objects_is_not_shown(room: SandboxFixture, tmp_path: Path) -> None:
    objects = tmp_path / "main" / "objects"
    (objects / "info").mkdir(parents=True)
    (objects / "pack").mkdir()
    (objects / "info" / "alternates").write_text(f"{room.home}\n/etc\n../../main/objects\n")
    room.objects = objects
    shown = [mount.source for mount in room.build().mounts if mount.why == "the repository's history"]
    assert shown == [str(objects)]


def test_an_alternate_of_any_name_is_shown_if_it_holds_objects_alone(room: SandboxFixture, tmp_path: Path) -> None:
    objects, lent = tmp_path / "main" / "objects", tmp_path / "lent objects"
    for folder in (objects / "info", objects / "pack", lent / "pack", lent / "info", lent / "0a"):
        folder.mkdir(parents=True)
    (objects / "info" / "alternates").write_text(f"{lent}\n")
    room.objects = objects
    shown = [mount.source for mount in room.build().mounts if mount.why == "the repository's history"]
    assert shown == [str(lent), str(objects)]
    (lent / ".env").touch()
    with pytest.raises(Refused, match=r"lent objects cannot be shown to agents: an alternates file .* other files"):
        room.build()


def test_files_named_one_by_one_are_shown_and_their_folder_is_not(room: SandboxFixture) -> None:
    program, other = room.folder / "program.json", room.folder / "policy.json"
    program.write_text("{}")
    other.write_text("canary")
    said = room.sh(f"cat '{program}'; ls -A '{room.folder}'; echo x >'{program}'", shown=[program])
    assert said.out == "{}program.json\n"
    assert program.read_text() == "{}"


def test_there_is_no_network_unless_a_host_is_allowed(room: SandboxFixture) -> None:
    assert room.build().network is Network.NONE
    assert room.build(watched=True).network is Network.DOORS
    assert room.build(hosts=["example.org"]).hosts == ("example.org",)
    room.settings = SandboxSettings(allowed_hosts=("*.example.net:443",))
    assert room.build().network is Network.DOORS
    room.settings = SandboxSettings(allow_network=True)
    assert room.build(watched=True).network is Network.HOST


def test_level_off_changes_nothing_but_cleans_the_environment(room: SandboxFixture) -> None:
    room.settings = SandboxSettings(level="off")
    room.environ = {**os.environ, "X_TOKEN": "canary"}
    prepared = prepare_sandbox(room.build(), room.folder)
    assert prepared.sandbox is None
    assert "X_TOKEN" not in prepared.env
    assert prepared.env["HOME"] == os.environ["HOME"]
    assert list(room.folder.iterdir()) == []


def test_preparing_twice_is_like_preparing_once(room: SandboxFixture) -> None:
    first = prepare_sandbox(room.build(), room.folder)
    run_in_sandbox(first, ("/bin/sh", "-c", "echo kept >~/kept"))
    again = prepare_sandbox(room.build(), room.folder)
    assert again == first
    assert (room.folder / "home" / "kept").exists()
    assert stat.S_IMODE((room.folder / "home").stat().st_mode) == 0o700


def test_first_sandboxes_that_are_prepared_at_once_build_our_files_together(tmp_path: Path) -> None:
    """Two of them raced for the links below etc."""
    places = [tmp_path / str(n) for n in range(8)]
    for place in places:
        place.mkdir()
    rooms = [make_sandbox_fixture(place) for place in places]
    for n in range(5):
        for room in rooms:
            room.common = tmp_path / f"common-{n}"
        specs = [(room.build(), room.folder) for room in rooms]
        with ThreadPoolExecutor(len(rooms)) as pool:
            prepared = list(pool.map(lambda each: prepare_sandbox(*each), specs))
        assert all(each.sandbox for each in prepared)
        assert (tmp_path / f"common-{n}" / "ready").exists()


def test_sandboxes_that_share_our_files_are_made_ready_quickly_and_work(room: SandboxFixture, tmp_path: Path) -> None:
    room.common = tmp_path / "common"
    for n in range(2):
        room.folder = tmp_path / f"attempt {n}"
        assert room.sh("id -un; ls /etc/ssl/certs | head -1 | wc -l").out.split() == ["agent", "1"]
        assert sorted(path.name for path in room.folder.iterdir()) == ["home", "tmp"]
    (tmp_path / "common").rename(tmp_path / "gone")
    assert room.sh("id -un").out == "agent\n"


def test_launch_json_gets_the_sandbox_and_its_limits(room: SandboxFixture) -> None:
    room.settings = SandboxSettings(max_memory_mb=300, max_processes=99, min_free_disk_mb=7)
    prepared = prepare_sandbox(room.build(), room.folder)
    keys = prepared.build_launch_keys()
    assert (keys["memory_mb"], keys["processes"], keys["min_free_disk_mb"]) == (300, 99, 7)
    assert keys["sandbox"]["net"] == "none"
    assert Path(keys["sandbox"]["seccomp"]).stat().st_size % 8 == 0
    assert prepared.mounts == {
        "/home/agent": f"{room.folder}/home",
        "/tmp": f"{room.folder}/tmp",
        str(room.worktree): str(room.worktree),
    }
    assert prepared.limits["fsize"] == 1024 << 20


# --- where the checkout is ------------------------------------------------------------------------------------------


@pytest.fixture
def moved(room: SandboxFixture, tmp_path: Path) -> SandboxFixture:
    room.repo_root = tmp_path / "мой.project (2)"
    room.repo_root.mkdir()
    room.worktree = room.repo_root / ".trees" / "worker-1"
    room.worktree.mkdir(parents=True)
    return room


def test_a_checkout_has_the_same_undotted_path_whatever_its_own_is(moved: SandboxFixture) -> None:
    site, other = moved.build_site(), moved.worktree.with_name("worker-2")
    inside = choose_inner_path(site, moved.worktree)
    assert inside == choose_inner_path(site, other) == "/work/project-2"
    said = moved.sh("pwd; pwd -P; echo $PWD; echo x >new; ls -A /work", inside=inside)
    assert said.out.split() == [inside, inside, inside, "project-2"], said.err
    assert (moved.worktree / "new").read_text() == "x\n"


def test_its_own_path_does_not_exist_inside(moved: SandboxFixture) -> None:
    said = moved.sh(f"ls -d '{moved.worktree}'", inside="/work/here")
    assert said.code != 0


def test_frozen_and_hidden_files_of_a_moved_checkout_stay_so(moved: SandboxFixture) -> None:
    for name in ("go.mod", "a/b/go.mod", ".env", "private/key"):
        (moved.worktree / name).parent.mkdir(parents=True, exist_ok=True)
        (moved.worktree / name).write_text("canary")
    script = "for f in go.mod a/b/go.mod; do echo x >$f; rm -f $f; mv a z; done; cat .env private/key; echo y >a/b/new"
    said = moved.sh(script, inside="/work/here", frozen=("go.mod", "a/b/go.mod"), hidden=(".env", "private"))
    assert "canary" not in said.out
    assert [(moved.worktree / name).read_text() for name in ("go.mod", "a/b/go.mod", "a/b/new")] == [
        "canary",
        "canary",
        "y\n",
    ]


def test_a_checkout_is_not_mounted_over_what_else_is_inside(moved: SandboxFixture) -> None:
    site = moved.build_site()
    at_work = replace(site, repo_root=Path("/work/project"))
    assert choose_inner_path(at_work, moved.worktree) == "/workspace/project"
    tools = Toolchains(mounts=(Mount(kind=MountKind.RO, source="/work", target="/work"),))
    assert choose_inner_path(replace(site, tools=tools), moved.worktree) == "/workspace/project-2"


def test_without_a_sandbox_a_checkout_is_where_it_is(moved: SandboxFixture) -> None:
    moved.settings = SandboxSettings(level="off")
    assert choose_inner_path(moved.build_site(), moved.worktree) == str(moved.worktree)


def test_node_still_finds_the_packages_of_the_repository_above_a_moved_checkout(moved: SandboxFixture) -> None:
    assert moved.repo_root is not None
    (moved.repo_root / "node_modules" / "left-pad").mkdir(parents=True)
    inside = choose_inner_path(moved.build_site(), moved.worktree)
    assert moved.sh("ls ../node_modules", inside=inside).out.split() == ["left-pad"]


def test_a_home_called_like_ours_is_not_mixed_up_with_it(room: SandboxFixture, tmp_path: Path) -> None:
    room.home = Path("/home/agent")
    box = room.build()
    assert box.home == "/home/agent-box"
    assert dict(box.environment)["HOME"] == "/home/agent-box"
    assert all(mount.kind is not MountKind.RW or mount.target != "/home/agent" for mount in box.mounts)
