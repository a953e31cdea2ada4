"""A sandbox as bubblewrap's arguments, and in plain words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.model.sandbox import (
    BubblewrapFeatures,
    Mount,
    MountKind,
    Network,
    ResourceLimits,
    SandboxLevel,
    SandboxSpec,
)
from blueflame.sandbox.bwrap import (
    arrange_mounts,
    build_bwrap_argv,
    build_rlimits,
    find_nearest_mount,
    is_below,
)
from blueflame.sandbox.describe import describe_network, describe_sandbox

WORK = "/srv/мой repo/.trees/one"
BOX = SandboxSpec(
    cwd=WORK,
    mounts=arrange_mounts(
        [
            Mount(kind=MountKind.RW, source=WORK, target=WORK, why="the checkout"),
            Mount(kind=MountKind.RO, source="/usr", target="/usr", why="programs"),
            Mount(kind=MountKind.SYMLINK, source="usr/bin", target="/bin"),
            Mount(kind=MountKind.FILE, source="/a/box/passwd", target="/etc/passwd"),
            Mount(kind=MountKind.RW, source="/a/tmp", target="/tmp", why="private"),
            Mount(kind=MountKind.DEV, target="/dev"),
            Mount(kind=MountKind.TMPFS, target="/dev/shm"),
            Mount(kind=MountKind.PROC, target="/proc"),
            Mount(kind=MountKind.RO, source=f"{WORK}/.env", target=f"{WORK}/.env", why="not to be changed"),
        ]
    ),
    bounds=ResourceLimits(cpu_seconds=600, memory_mb=2048, processes=512, open_files=1024, file_bytes=50 << 20),
    environment=(("PATH", "/usr/bin"), ("PETS", "кот")),
    path=("/usr/bin",),
)
ENGINE = BubblewrapFeatures()


def pairs(argv: tuple[str, ...], flag: str) -> list[tuple[str, str]]:
    return [(argv[n + 1], argv[n + 2]) for n, word in enumerate(argv) if word == flag]


def test_every_namespace_is_its_own_and_no_capability_is_left() -> None:
    argv = build_bwrap_argv(BOX, ENGINE)
    for flag in ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--new-session"):
        assert flag in argv
    assert "--disable-userns" in argv
    assert "--die-with-parent" in argv
    assert argv[argv.index("--cap-drop") + 1] == ("ALL")
    assert argv[-1] == "--"


def test_the_root_of_the_machine_is_never_bound() -> None:
    argv = build_bwrap_argv(BOX, ENGINE)
    for flag in ("--bind", "--ro-bind"):
        assert "/" not in [source for source, _ in pairs(argv, flag)]
        assert "/" not in [target for _, target in pairs(argv, flag)]


def test_only_the_checkout_and_private_places_can_be_written() -> None:
    assert sorted(target for _, target in pairs(build_bwrap_argv(BOX, ENGINE), "--bind")) == [WORK, "/tmp"]


def test_what_holds_the_mount_points_is_sealed_after_them() -> None:
    argv = build_bwrap_argv(BOX, ENGINE)
    sealed = [n for n, word in enumerate(argv) if word == "--remount-ro"]
    assert [argv[n + 1] for n in sealed] == ["/", "/dev", "/proc"]
    assert sealed[0] > max(n for n, word in enumerate(argv) if word in ("--bind", "--ro-bind", "--tmpfs", "--symlink"))


def test_doors_leave_the_network_to_the_process_that_starts_the_sandbox() -> None:
    assert "--unshare-net" not in build_bwrap_argv(replace(BOX, network=Network.DOORS), ENGINE)
    assert "--unshare-net" not in build_bwrap_argv(replace(BOX, network=Network.HOST), ENGINE)


def test_the_filter_is_read_where_the_warden_opens_it() -> None:
    argv = build_bwrap_argv(BOX, ENGINE)
    assert argv[argv.index("--seccomp") + 1] == "10"
    assert "--seccomp" not in build_bwrap_argv(replace(BOX, seccomp=False), ENGINE)


def test_an_older_bubblewrap_is_not_asked_for_what_it_cannot_do() -> None:
    argv = build_bwrap_argv(BOX, BubblewrapFeatures(disable_userns=False, size=False))
    assert "--disable-userns" not in argv
    assert "--size" not in argv


def test_a_mount_comes_after_the_place_it_is_in() -> None:
    targets = [mount.target for mount in BOX.mounts]
    assert targets.index(WORK) < targets.index(f"{WORK}/.env")
    assert targets.index("/dev") < targets.index("/dev/shm")


def test_on_the_way_through_a_writable_folder_is_an_empty_mount_of_ours() -> None:
    mounts = arrange_mounts(
        [
            Mount(kind=MountKind.RW, source="/a/tmp", target="/tmp"),
            Mount(kind=MountKind.RW, source="/tmp/x/y/repo", target="/tmp/x/y/repo"),
        ]
    )
    assert [(mount.kind, mount.target) for mount in mounts] == [
        (MountKind.RW, "/tmp"),
        (MountKind.EMPTY, "/tmp/x"),
        (MountKind.RW, "/tmp/x/y/repo"),
    ]
    assert build_bwrap_argv(replace(BOX, mounts=mounts), ENGINE).count("/tmp/x") == 2  # made, and sealed


def test_a_part_of_the_checkout_mounted_over_itself_hides_none_of_its_neighbours() -> None:
    mounts = arrange_mounts(
        [
            Mount(kind=MountKind.RW, source="/w", target="/w"),
            Mount(kind=MountKind.RO, source="/w/a/b/.env", target="/w/a/b/.env"),
        ]
    )
    assert MountKind.EMPTY not in [mount.kind for mount in mounts]


def test_what_is_read_only_as_a_whole_is_not_mounted_in_parts() -> None:
    whole = Mount(kind=MountKind.RO, source="/r/.git", target="/r/.git")
    part = Mount(kind=MountKind.RO, source="/r/.git/objects", target="/r/.git/objects")
    other = Mount(kind=MountKind.RO, source="/elsewhere", target="/r/.git/modules")
    assert arrange_mounts([part, whole, other]) == (whole, other)


PATHS = st.lists(st.sampled_from(["a", "b", "tmp", "x y"]), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


@given(st.lists(st.tuples(st.sampled_from([MountKind.RO, MountKind.RW]), PATHS), max_size=8))
def test_arranging_is_the_same_whatever_the_order_and_never_repeats_a_place(
    wanted: list[tuple[MountKind, str]],
) -> None:
    unique = {target: Mount(kind=kind, source=f"/out{target}", target=target) for kind, target in wanted}
    mounts = arrange_mounts(unique.values())
    assert mounts == arrange_mounts(reversed(list(unique.values())))
    targets = [mount.target for mount in mounts]
    assert len(targets) == len(set(targets))
    for n, target in enumerate(targets):
        assert not any(is_below(earlier, target) for earlier in targets[:n])


@given(st.lists(st.tuples(st.sampled_from([MountKind.RO, MountKind.RW]), PATHS), max_size=8))
def test_no_mount_point_deep_inside_a_writable_place_is_left_to_those_inside(
    wanted: list[tuple[MountKind, str]],
) -> None:
    mounts = arrange_mounts(
        Mount(kind=kind, source=f"/out{n}", target=target) for n, (kind, target) in enumerate(wanted)
    )
    for mount in mounts:
        above = find_nearest_mount(mount.target.rpartition("/")[0] or "/", mounts)
        if above is not None and above.kind is MountKind.RW:
            assert "/" not in mount.target[len(above.target) :].strip("/")


@pytest.mark.verification(18)
def test_limits_for_the_kernel_name_what_is_set_and_no_address_space() -> None:
    assert build_rlimits(BOX.bounds) == {"core": 0, "cpu": 600, "fsize": 50 << 20, "nofile": 1024}
    assert build_rlimits(ResourceLimits()) == {"core": 0}


def test_plain_words_say_what_can_be_written_reached_and_used() -> None:
    words = dict(describe_sandbox(BOX))
    assert f"{WORK}  (the checkout)" in words["Can be written"]
    assert "/tmp = /a/tmp  (private)" in words["Can be written"]
    assert "/bin -> usr/bin" in words["Can be read"]
    assert words["Network"] == ("none",)
    assert "2,048 MB of memory in total" in words["Limits"]
    assert words["Environment"] == ("PATH, PETS",)
    assert "кот" not in str(words)


@pytest.mark.parametrize(
    ("network", "hosts", "expected"),
    [
        (Network.NONE, (), "none"),
        (Network.DOORS, (), "none"),
        (
            Network.DOORS,
            ("example.org", "*.example.net:443"),
            "none, except example.org, *.example.net:443 through the gateway",
        ),
        (Network.HOST, (), "the host's network, by sandbox.allow_network: this is a hole in the sandbox"),
    ],
)
def test_the_network_is_described(network: Network, hosts: tuple[str, ...], expected: str) -> None:
    assert describe_network(replace(BOX, network=network, hosts=hosts)) == expected


def test_level_off_is_described_as_no_sandbox() -> None:
    ((heading, (line,)),) = describe_sandbox(replace(BOX, level=SandboxLevel.OFF))
    assert heading == "No sandbox"
    assert "as you" in line
