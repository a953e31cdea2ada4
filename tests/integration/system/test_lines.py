from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.system.lines import BLOCK_BYTES, MAX_LINE_BYTES, SkippedBytes, read_spool_lines, split_lines

SAID = st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line))


def blank(line: bytes) -> bool:
    return not line.strip()


@given(SAID, st.sampled_from([b"", b"\n"]))
def test_lines_are_those_that_were_written(said: list[bytes], end: bytes) -> None:
    data = b"\n".join(said) + end
    assert list(split_lines(data)) == [line.decode("utf-8", "replace") for line in said if not blank(line)]


@given(said=SAID, limit=st.integers(min_value=2, max_value=200))
def test_nothing_is_read_twice_and_gaps_are_reported(
    tmp_path_factory: pytest.TempPathFactory, said: list[bytes], limit: int
) -> None:
    path = tmp_path_factory.mktemp("spool") / "stdout.log"
    path.write_bytes(b"".join(line + b"\n" for line in said))
    found = list(read_spool_lines(path, limit))
    gaps = [part for part in found if isinstance(part, SkippedBytes)]
    whole = [line.decode("utf-8", "replace") for line in said if not blank(line)]
    if path.stat().st_size <= limit:
        assert (found, gaps) == (whole, [])
        return
    (gap,) = gaps
    at = found.index(gap)
    head, tail = found[:at], found[at + 1 :]
    assert head == whole[: len(head)]
    assert tail == whole[len(whole) - len(tail) :]
    assert path.stat().st_size - gap.size <= limit


def test_a_line_that_is_too_long_is_left_out_and_the_next_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    path.write_bytes(b"before\n" + b"x" * (2 * MAX_LINE_BYTES + 5) + b"\nafter\n" + b"y" * (MAX_LINE_BYTES + 1))
    assert list(read_spool_lines(path, 100 * MAX_LINE_BYTES)) == [
        "before",
        SkippedBytes(2 * MAX_LINE_BYTES + 6, in_one_line=True),
        "after",
        SkippedBytes(MAX_LINE_BYTES + 1, in_one_line=True),
    ]


@pytest.mark.parametrize(
    ("line", "times", "most"), [(b"word " * 20 + b"\n", 40_000, 2 * BLOCK_BYTES), (b"x" * 3_000_000, 8, 14_000_000)]
)
def test_a_large_spool_costs_little_memory(tmp_path: Path, line: bytes, times: int, most: int) -> None:
    path = tmp_path / "stdout.log"
    path.write_bytes(line * times)
    tracemalloc.start()
    try:
        for _line in read_spool_lines(path, path.stat().st_size - 1):
            pass
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most
