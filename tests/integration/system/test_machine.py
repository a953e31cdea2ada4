"""The machine's room: memory, control groups and disk decide how many agents run at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from blueflame.model.errors import WorldError
from blueflame.model.settings import Settings
from blueflame.system import machine
from blueflame.system.machine import (
    MB,
    MIN_MEMORY_MB,
    UNLIMITED_AGENTS,
    UNLIMITED_BYTES,
    FreeResources,
    compute_memory_share,
    measure_capacity,
    measure_cgroup_memory,
    measure_free,
)

PLENTY = FreeResources(memory=64_000 * MB, disk=64_000 * MB)


def settings(**concurrency: object) -> Settings:
    return Settings.model_validate({"project": {"name": "x"}, "concurrency": concurrency})


@pytest.mark.verification(36)
def test_agents_that_run_already_count_beside_what_the_free_memory_has_room_for() -> None:
    found = measure_capacity(settings(), 3, lambda: FreeResources(memory=1_300 * MB, disk=PLENTY.disk))

    assert found.agents == 3 + 2
    assert "1,300 MB of memory are free, 600 MB are required for each agent" in found.reason


@pytest.mark.verification(36)
def test_one_agent_may_always_run() -> None:
    assert measure_capacity(settings(), 0, lambda: FreeResources(memory=0, disk=0), 10 * MB).agents == 1


def test_a_full_disk_counts_as_much_as_full_memory() -> None:
    found = measure_capacity(settings(), 0, lambda: FreeResources(memory=PLENTY.memory, disk=350 * MB), 100 * MB)

    assert found.agents == 3
    assert "350 MB of disk are free, a checkout takes 100 MB" in found.reason


def test_without_adaptation_only_the_configuration_bounds_and_nothing_is_measured() -> None:
    def refuse() -> FreeResources:
        raise AssertionError("it costs time at every decision")

    assert measure_capacity(settings(adaptive=False), 0, refuse, MB).agents == UNLIMITED_AGENTS


def test_agents_share_most_of_the_free_memory_and_none_has_less_than_it_needs() -> None:
    assert compute_memory_share(20 << 30, 4) == 4096
    assert compute_memory_share(20 << 30, 1) == 16384
    assert compute_memory_share(1 << 30, 8) == MIN_MEMORY_MB


def test_the_room_of_this_machine_can_be_read(tmp_path: Path) -> None:
    found = measure_free(tmp_path / "not" / "there" / "yet")

    assert found.memory > 0
    assert found.disk > 0


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_a_version_2_group_bounds_and_so_does_every_group_above_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/user/session\n")
    group(tmp_path / "fs" / "user" / "session", memory__max="max\n", memory__current="5\n")
    group(tmp_path / "fs" / "user", memory__max="1000\n", memory__current="400\n")

    assert measure_cgroup_memory(own, tmp_path / "fs") == 600


def test_a_version_1_memory_group_bounds(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("11:cpu,cpuacct:/a\n4:memory:/a\n")
    group(tmp_path / "fs" / "memory" / "a", memory__limit_in_bytes="900", memory__usage_in_bytes="1000")

    assert measure_cgroup_memory(own, tmp_path / "fs") == 0


@pytest.mark.parametrize("text", ["", "0::/\n", "4:memory:/a\n", "nonsense"])
def test_no_limit_anywhere_is_no_bound(tmp_path: Path, text: str) -> None:
    own = tmp_path / "own"
    own.write_text(text)
    group(tmp_path / "fs" / "memory" / "a", memory__limit_in_bytes="9223372036854771712")

    assert measure_cgroup_memory(own, tmp_path / "fs") == UNLIMITED_BYTES


def test_no_control_groups_at_all_is_no_bound(tmp_path: Path) -> None:
    assert measure_cgroup_memory(tmp_path / "absent", tmp_path) == UNLIMITED_BYTES


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="only Linux has it")
def test_without_proc_the_fix_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    with pytest.raises(WorldError, match="Mount /proc"):
        measure_free(tmp_path)


def test_a_limit_on_file_sizes_is_named_before_a_session_and_by_a_journal_that_meets_it(tmp_path: Path) -> None:
    meet = f"Journal.open(Path({str(tmp_path / 'journal.db')!r}))"
    words = "files are limited to 8 kB each, which is too little: raise it to 16 MB ('ulimit -f 16384') or more"
    assert run_limited("check_file_sizes()") == f"{words}, then try again"
    assert f"journal.db: {words}, then run `blueflame resume`" in run_limited(meet)


def run_limited(act: str) -> str:
    lines = (
        "from pathlib import Path",
        "from blueflame.journal.journal import Journal",
        "from blueflame.model.errors import BlueFlameError",
        "from blueflame.system.disk import check_file_sizes",
        f"try: {act}",
        "except BlueFlameError as e: print(e)",
    )
    limited = ("bash", "-c", 'ulimit -f 8; exec "$0" -c "$1"', sys.executable, "\n".join(lines))
    return subprocess.run(limited, capture_output=True, text=True, check=True).stdout.strip()
