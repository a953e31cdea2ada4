"""Build the seccomp filter: which system calls a sandboxed process may make.

The filter is a classic BPF program with eight bytes per instruction; the assembler at the end needs no library. It
refuses what builds and tests do not need. Namespaces are the main barrier; the filter reduces the reachable part of the
kernel, and closes what namespaces leave open: key rings, io_uring, AF_VSOCK, typing into a terminal.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
ALLOW, KILL = 0x7FFF0000, 0x80000000
NEWEST_CALL = 466  # removexattrat, Linux 6.13; later calls do not exist inside until reviewed
FIRST_X32_CALL = 512  # x86_64: from here on the x32 ABI, whose other numbers would bypass the rules


class Architecture(NamedTuple):
    audit: int  # how the kernel names it
    calls: Mapping[str, int]


# name:number on x86_64:number on aarch64
REFUSED_CALLS = """
    mount:165:40 umount2:166:39 pivot_root:155:41 chroot:161:51 open_tree:428:428
    move_mount:429:429 fsopen:430:430 fsconfig:431:431 fsmount:432:432 fspick:433:433 mount_setattr:442:442
    unshare:272:97 setns:308:268
    ptrace:101:117 process_vm_readv:310:270 process_vm_writev:311:271 pidfd_getfd:438:438 kcmp:312:272
    bpf:321:280 perf_event_open:298:241 userfaultfd:323:282 io_uring_setup:425:425 io_uring_enter:426:426
    io_uring_register:427:427 memfd_secret:447:447
    keyctl:250:219 add_key:248:217 request_key:249:218
    kexec_load:246:104 kexec_file_load:320:294 init_module:175:105 finit_module:313:273 delete_module:176:106
    create_module:174:- query_module:178:- get_kernel_syms:177:-
    swapon:167:224 swapoff:168:225 reboot:169:142 acct:163:89 quotactl:179:60 quotactl_fd:443:443 syslog:103:116
    lookup_dcookie:212:18 nfsservctl:180:42 uselib:134:- ustat:136:- sysfs:139:- _sysctl:156:-
    open_by_handle_at:304:265 name_to_handle_at:303:264 fanotify_init:300:262 fanotify_mark:301:263
    iopl:172:- ioperm:173:- modify_ldt:154:- move_pages:279:239 migrate_pages:256:238
    settimeofday:164:170 clock_settime:227:112 clock_adjtime:305:266 adjtimex:159:171 sethostname:170:161
    setdomainname:171:162 vhangup:153:58
"""
ABSENT_CALLS = "clone3:435:435 openat2:437:437"
FILTERED_CALLS = """
    clone:56:220 ioctl:16:29 personality:135:92 socket:41:198 socketpair:53:199 chmod:90:- fchmod:91:52
    fchmodat:268:53 fchmodat2:452:452 creat:85:- mknod:133:- mknodat:259:33 open:2:- openat:257:56
"""


def _parse_numbers(*tables: str, column: int) -> Mapping[str, int]:
    rows = [entry.split(":") for table in tables for entry in table.split()]
    return MappingProxyType({row[0]: int(row[column]) for row in rows if row[column] != "-"})


def _parse_names(table: str) -> tuple[str, ...]:
    return tuple(entry.partition(":")[0] for entry in table.split())


ALL_CALLS = (REFUSED_CALLS, ABSENT_CALLS, FILTERED_CALLS)
X86_64 = Architecture(0xC000003E, _parse_numbers(*ALL_CALLS, column=1))
AARCH64 = Architecture(0xC00000B7, _parse_numbers(*ALL_CALLS, column=2))
ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {"x86_64": X86_64, "amd64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}
)

REFUSED = _parse_names(REFUSED_CALLS)
"""Refused with EPERM, whatever the arguments."""
ABSENT = _parse_names(ABSENT_CALLS)
"""Refused with ENOSYS: their flags are behind a pointer, which a filter cannot read; libc then uses older calls."""

NEW_NAMESPACES = 0x00000080 | 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
"""CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. NEWTIME shares its bit with the signal
number that clone() sends at the end of a child, where no signal is that high."""
TERMINAL_COMMANDS = (0x5412, 0x541C, 0x541D, 0x5423)
"""TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD: they type into a terminal, or change its owner."""
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
STREAM, DATAGRAM, TYPE_MASK = 1, 2, 0xF
PERSONALITIES = (0, 0x0008, 0x0040000, 0xFFFFFFFF)
"""Linux, Linux32, without address randomisation (race detectors need it), and the query of the current one."""
SETUID_BITS = 0o6000
"""Setuid and setgid: a file with such a bit runs as its owner or group for every user of the machine."""
MODE_ARGUMENTS = (
    *(("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2), ("creat", 1), ("mknod", 1), ("mknodat", 2)),
)
CREATE_FLAGS = 0o100 | 0o20000000
"""O_CREAT and O_TMPFILE: without them open() has no mode, and the argument in its place is meaningless."""


def build_program(machine: str) -> bytes:
    """Build the program for `platform.machine()`; KeyError for a machine without a table."""
    known = ARCHITECTURES[machine.lower()]
    code = [_load_word(ARCH), _jump_equal(known.audit, 1, 0), _return_value(KILL), _load_word(NUMBER)]
    if known is X86_64:
        code += [_jump_at_least(FIRST_X32_CALL, 0, 1), _refuse_with(EPERM)]
    code += [_jump_at_least(NEWEST_CALL + 1, 0, 1), _refuse_with(ENOSYS)]
    for name, body in _list_rules():
        if name in known.calls:
            code += [_jump_equal(known.calls[name], 0, len(body)), *body]
    code.append(ACCEPT)
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _list_rules() -> Iterable[tuple[str, Code]]:
    """Yield each call with its instructions, which always end with an answer."""
    yield from ((name, (_refuse_with(EPERM),)) for name in REFUSED)
    yield from ((name, (_refuse_with(ENOSYS),)) for name in ABSENT)
    yield "clone", (_load_argument(0), *_refuse_any_bit(NEW_NAMESPACES), ACCEPT)
    yield "ioctl", (_load_argument(1), *_when_equal(TERMINAL_COMMANDS, _refuse_with(EPERM)), ACCEPT)
    yield "personality", (_load_argument(0), *_when_equal(PERSONALITIES, ACCEPT), _refuse_with(EPERM))
    yield "socketpair", (_load_argument(0), *_when_equal((AF_UNIX,), ACCEPT), _refuse_with(EAFNOSUPPORT))
    yield "socket", _build_socket_rule()
    for name, mode_at in MODE_ARGUMENTS:
        yield name, (_load_argument(mode_at), *_refuse_any_bit(SETUID_BITS), ACCEPT)
    yield from ((name, _refuse_setuid_on_open(at)) for name, at in (("open", 1), ("openat", 2)))


def _build_socket_rule() -> Code:
    """Allow Unix, TCP, UDP and route netlink; a network namespace does not contain AF_VSOCK."""
    kinds = (
        *(_load_argument(1), _mask_bits(TYPE_MASK)),
        *(*_when_equal((STREAM, DATAGRAM), ACCEPT), _refuse_with(EPERM)),
    )
    route = (_load_argument(2), *_when_equal((0,), ACCEPT), _refuse_with(EAFNOSUPPORT))
    return (
        *(_load_argument(0), *_when_equal((AF_UNIX,), ACCEPT)),
        *(_jump_equal(AF_NETLINK, 0, len(route)), *route),
        *(_jump_equal(AF_INET, 1, 0), _jump_equal(AF_INET6, 0, len(kinds)), *kinds),
        _refuse_with(EAFNOSUPPORT),
    )


def _refuse_setuid_on_open(flags_at: int) -> Code:
    check = (_load_argument(flags_at + 1), *_refuse_any_bit(SETUID_BITS))
    return (_load_argument(flags_at), _jump_any_bit(CREATE_FLAGS, 0, len(check)), *check, ACCEPT)


# The assembler: (code, jump if true, jump if false, operand), as struct sock_filter has them.

Instruction: TypeAlias = tuple[int, int, int, int]
Code: TypeAlias = tuple[Instruction, ...]

NUMBER, ARCH, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data


def _load_word(offset: int) -> Instruction:
    return (0x20, 0, 0, offset)


def _load_argument(n: int) -> Instruction:
    """Load the lower half of an argument: the kernel ignores the upper half of an int."""
    return _load_word(ARGUMENTS + 8 * n)


def _mask_bits(bits: int) -> Instruction:
    return (0x54, 0, 0, bits)


def _jump_equal(value: int, yes: int, no: int) -> Instruction:
    return (0x15, yes, no, value)


def _jump_at_least(value: int, yes: int, no: int) -> Instruction:
    return (0x35, yes, no, value)


def _jump_any_bit(bits: int, yes: int, no: int) -> Instruction:
    return (0x45, yes, no, bits)


def _return_value(verdict: int) -> Instruction:
    return (0x06, 0, 0, verdict)


ACCEPT = _return_value(ALLOW)


def _refuse_with(error: int) -> Instruction:
    return _return_value(0x00050000 | error)


def _refuse_any_bit(bits: int) -> Code:
    return (_jump_any_bit(bits, 0, 1), _refuse_with(EPERM))


def _when_equal(values: Iterable[int], answer: Instruction) -> Code:
    return tuple(instruction for value in values for instruction in (_jump_equal(value, 0, 1), answer))
