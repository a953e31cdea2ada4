"""The filter of system calls, run here as the kernel runs it: a few lines that understand classic BPF."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.sandbox.seccomp import AARCH64, ABSENT, NEWEST_CALL, REFUSED, X86_64, Architecture, build_program

ALLOWED, KILLED = "allow", "kill"
ARCHITECTURES = [pytest.param(X86_64, "x86_64", id="x86_64"), pytest.param(AARCH64, "aarch64", id="aarch64")]
JUNK = 0xDEADBEEF << 32  # the upper half of a register, which the kernel ignores for an int


def verdict(code: bytes, *, audit: int, number: int, args: tuple[int, ...] = ()) -> str | int:
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, audit, 0, *(args + (0,) * 6)[:6])
    instructions = list(struct.iter_unpack("<HBBI", code))
    at, value = 0, 0
    while True:
        operation, yes, no, operand = instructions[at]
        at += 1
        match operation:
            case 0x20:
                (value,) = struct.unpack_from("<I", data, operand)
            case 0x54:
                value &= operand
            case 0x15:
                at += yes if value == operand else no
            case 0x35:
                at += yes if value >= operand else no
            case 0x45:
                at += yes if value & operand else no
            case 0x06:
                return _named(operand)
            case _:
                raise AssertionError(f"unknown instruction {operation:#x} at {at - 1}")


def _named(operand: int) -> str | int:
    if operand == 0x7FFF0000:
        return ALLOWED
    if operand == 0x80000000:
        return KILLED
    assert operand >> 16 == 5
    return operand & 0xFFFF


def judge(arch: Architecture, machine: str, name: str, *args: int) -> str | int:
    return verdict(build_program(machine), audit=arch.audit, number=arch.calls[name], args=args)


@pytest.mark.parametrize(("arch", "machine"), ARCHITECTURES)
def test_what_no_build_needs_is_refused_whatever_its_arguments(arch: Architecture, machine: str) -> None:
    for name in REFUSED:
        if name in arch.calls:
            assert judge(arch, machine, name, 1, 2, 3) == errno.EPERM, name


@pytest.mark.parametrize(("arch", "machine"), ARCHITECTURES)
def test_calls_whose_flags_cannot_be_seen_are_absent(arch: Architecture, machine: str) -> None:
    assert [judge(arch, machine, name) for name in ABSENT] == [errno.ENOSYS] * len(ABSENT)


@pytest.mark.parametrize(("arch", "machine"), ARCHITECTURES)
@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("clone", (0x1200011,), ALLOWED),  # fork
        ("clone", (0x3D0F00,), ALLOWED),  # a thread
        ("clone", (0x10000011,), errno.EPERM),  # CLONE_NEWUSER
        ("clone", (0x10000011 | JUNK,), errno.EPERM),
        ("clone", (0x40000011,), errno.EPERM),  # CLONE_NEWNET
        ("clone", (0x00020011,), errno.EPERM),  # CLONE_NEWNS
        ("ioctl", (0, 0x5401), ALLOWED),  # TCGETS
        ("ioctl", (0, 0x5412), errno.EPERM),  # TIOCSTI
        ("ioctl", (0, 0x5412 | JUNK), errno.EPERM),
        ("ioctl", (0, 0x541C), errno.EPERM),  # TIOCLINUX
        ("personality", (0,), ALLOWED),
        ("personality", (0xFFFFFFFF,), ALLOWED),
        ("personality", (0x0040000,), ALLOWED),
        ("personality", (0x0400000,), errno.EPERM),  # READ_IMPLIES_EXEC
        ("socket", (1, 1, 0), ALLOWED),
        ("socket", (2, 0x80001, 6), ALLOWED),
        ("socket", (10, 0x80802, 17), ALLOWED),
        ("socket", (2, 3, 1), errno.EPERM),  # raw
        ("socket", (2, 0x80003, 255), errno.EPERM),
        ("socket", (10, 3 | JUNK, 58), errno.EPERM),
        ("socket", (2, 5, 132), errno.EPERM),  # SCTP
        ("socket", (16, 0x80003, 0), ALLOWED),  # netlink route, as getaddrinfo asks for it
        ("socket", (16, 3, 9), errno.EAFNOSUPPORT),  # audit
        ("socket", (17, 3, 0), errno.EAFNOSUPPORT),  # packet
        ("socket", (40, 1, 0), errno.EAFNOSUPPORT),  # vsock
        ("socket", (40 | JUNK, 1, 0), errno.EAFNOSUPPORT),
        ("socket", (38, 5, 0), errno.EAFNOSUPPORT),  # kernel crypto
        ("socketpair", (1, 1, 0), ALLOWED),
        ("socketpair", (30, 1, 0), errno.EAFNOSUPPORT),
        ("fchmod", (3, 0o755), ALLOWED),
        ("fchmod", (3, 0o4755), errno.EPERM),
        ("fchmodat", (0, 0, 0o2755), errno.EPERM),
        ("fchmodat", (0, 0, 0o6755), errno.EPERM),
        ("fchmodat2", (0, 0, 0o4755, 0), errno.EPERM),
        ("mknodat", (0, 0, 0o104755), errno.EPERM),
        ("openat", (0, 0, 0o102, 0o644), ALLOWED),
        ("openat", (0, 0, 0o102, 0o4755), errno.EPERM),
        ("openat", (0, 0, 0o20200002, 0o4755), errno.EPERM),  # O_TMPFILE
        ("openat", (0, 0, 0, 0o4755), ALLOWED),  # nothing is made, so that the mode is no mode
    ],
)  # fmt: skip
def test_arguments_decide(
    arch: Architecture, machine: str, name: str, args: tuple[int, ...], expected: str | int
) -> None:
    assert judge(arch, machine, name, *args) == expected


@pytest.mark.parametrize(
    ("name", "args"),
    [("chmod", (0, 0o4755)), ("creat", (0, 0o4755)), ("open", (0, 0o101, 0o4755)), ("mknod", (0, 0o4644))],
)
def test_the_older_calls_of_x86_64_make_no_setuid_files_either(name: str, args: tuple[int, ...]) -> None:
    assert judge(X86_64, "x86_64", name, *args) == errno.EPERM


@pytest.mark.parametrize(("arch", "machine"), ARCHITECTURES)
@given(number=st.integers(0, 2**32 - 1))
def test_another_architecture_is_killed(arch: Architecture, machine: str, number: int) -> None:
    assert verdict(build_program(machine), audit=0x40000003, number=number) == KILLED  # i386, by int 0x80


@given(number=st.integers(512, 2**32 - 1))
def test_x32_calls_are_refused(number: int) -> None:
    assert verdict(build_program("x86_64"), audit=X86_64.audit, number=number) == errno.EPERM


@pytest.mark.parametrize(("arch", "machine"), ARCHITECTURES)
@given(number=st.integers(NEWEST_CALL + 1, 511))
def test_calls_that_were_never_reviewed_are_absent(arch: Architecture, machine: str, number: int) -> None:
    assert verdict(build_program(machine), audit=arch.audit, number=number) == errno.ENOSYS


@pytest.mark.parametrize(("arch", "machine"), ARCHITECTURES)
@given(number=st.integers(0, NEWEST_CALL), args=st.tuples(*[st.integers(0, 2**64 - 1)] * 6))
def test_every_call_gets_an_answer_and_unnamed_ones_are_allowed(
    arch: Architecture, machine: str, number: int, args: tuple[int, ...]
) -> None:
    said = verdict(build_program(machine), audit=arch.audit, number=number, args=args)
    assert said == ALLOWED or number in arch.calls.values()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "arm64", "AMD64"])
def test_the_kernel_can_take_it(machine: str) -> None:
    code = build_program(machine)
    assert len(code) % 8 == 0
    assert len(code) // 8 <= 4096
    assert struct.unpack_from("<HBBI", code, len(code) - 8)[0] == 0x06


def test_there_is_no_filter_for_an_unknown_machine() -> None:
    with pytest.raises(KeyError):
        build_program("m68k")
