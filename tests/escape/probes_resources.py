"""Attempts to exhaust the machine. They record how far they came, and stop before they do harm."""

# ruff: noqa: E501 (a row is a row, as in any table)
from __future__ import annotations

from escape.attack import Attack, Probe

TIGHT = {
    "max_cpu_seconds": 1,
    "max_memory_mb": 192,
    "max_file_size_mb": 5,
    "max_open_files": 128,
    "max_processes": 48,
}
"""The limits under which they run; what they may reach follows from these."""

COUNT = """
def count(n):
    draft = E["OUT"] + f"/count.{os.getpid()}"
    with open(draft, "w") as file:
        file.write(str(n))
    os.replace(draft, E["OUT"] + "/count")
count(1)
"""
GUARD = """
if os.readlink("/proc/self/ns/pid") == E["PIDNS"]:
    escaped("the same processes")
    os._exit(0)
"""


def hog(id: str, says: str, held: str, code: str, *, most: int, alone: bool = False, least: int = 1) -> Attack:
    return Attack(
        id,
        "resources",
        "sandbox",
        says,
        held,
        Probe(COUNT + GUARD + code, python=True, alone=alone, most=most, least=least),
    )


PROCESSES, MEMORY, FILES = "limit on processes", "limit on memory", "limit on the size of files"

RESOURCES: tuple[Attack, ...] = (
    hog(
        "hog-processes",
        "fork without end",
        PROCESSES,
        """
for n in range(1, 400):
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    count(n)
""",
        most=64,
        alone=True,
    ),
    hog(
        "hog-fork-bomb",
        "a fork bomb whose children fork as well",
        PROCESSES,
        """
import random
end = time.monotonic() + 1.5
while time.monotonic() < end:
    try:
        if os.fork():
            n = len([name for name in os.listdir("/proc") if name.isdigit()])
            count(n) if n > int(open(E["OUT"] + "/count").read() or 0) else None
    except (OSError, ValueError):
        time.sleep(0.01)
""",
        most=72,
        alone=True,
    ),
    hog(
        "hog-threads",
        "threads without end",
        PROCESSES,
        """
import threading
threading.stack_size(65536)
for n in range(1, 400):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    count(n)
""",
        most=64,
        alone=True,
    ),
    hog(
        "hog-descriptors",
        "open files without end",
        "limit on open files",
        """
held = []
for n in range(1, 3000):
    held.append(os.open("/dev/null", os.O_RDONLY))
    if n < 100 or n > 120:
        held and n % 10 == 0 and os.write(1, b"")
    open_now = n
    with contextlib.suppress(OSError):
        os.ftruncate(1, 0)
    os.pwrite(1, b"%d" % n, 0)
    if n > 128:
        escaped(n)
        break
""",
        most=128,
    ),
    hog(
        "hog-raise-limits",
        "raise its own limits again",
        "limits that cannot be raised",
        """
for name in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_CORE):
    soft, hard = resource.getrlimit(name)
    for more in (resource.RLIM_INFINITY, hard + 1 if hard >= 0 else 0):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(name, (more, more))
            escaped((name, soft, hard, more)) if hard != resource.RLIM_INFINITY or name != resource.RLIMIT_NPROC else None
""",
        most=1,
    ),
    hog(
        "hog-large-file",
        "one large file in the checkout",
        FILES,
        """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
block = bytes(1 << 20)
with contextlib.suppress(OSError), open(E["OUT"] + "/large", "wb", 0) as file:
    for n in range(1, 40):
        file.write(block)
        count(n)
""",
        most=5,
    ),
    hog(
        "hog-large-file-tmp",
        "one large file in /tmp, and one in HOME",
        FILES,
        """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
block = bytes(1 << 20)
for place in ("/tmp", E["HOME"]):
    with contextlib.suppress(OSError), open(place + "/large", "wb", 0) as file:
        for n in range(1, 40):
            file.write(block)
            count(n)
""",
        most=5,
    ),
    hog(
        "hog-sparse-file",
        "a file with a hole of a terabyte",
        FILES,
        """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with contextlib.suppress(OSError):
    os.truncate(os.open(E["OUT"] + "/sparse", os.O_CREAT | os.O_RDWR), 1 << 40)
    count(1 << 20)
with contextlib.suppress(OSError):
    os.posix_fallocate(os.open(E["OUT"] + "/allocated", os.O_CREAT | os.O_RDWR), 0, 1 << 26)
    count(1 << 20)
""",
        most=1,
    ),
    hog(
        "hog-core-file",
        "a core file of a crash",
        "limit on core files",
        """
os.chdir(E["OUT"])
if os.fork() == 0:
    block = bytearray(1 << 22)
    os.abort()
os.wait()
if any(name.startswith("core") for name in os.listdir(".")) or resource.getrlimit(resource.RLIMIT_CORE)[1] != 0:
    escaped()
""",
        most=1,
    ),
    hog(
        "hog-cpu",
        "compute without end",
        "limit on CPU time",
        """
end = time.monotonic() + 12
while time.monotonic() < end:
    pass
escaped("twelve seconds of CPU time")
""",
        most=1,
    ),
    hog(
        "hog-memory",
        "memory without end",
        MEMORY,
        """
held = []
for n in range(1, 1200 // 16):
    held.append(bytearray(os.urandom(4096)) * 4096)
    count(n * 16)
    time.sleep(0.04 if n * 16 < 512 else 1)  # it is watched, and a busy machine watches slowly
time.sleep(8)
escaped("more than a gigabyte")
""",
        most=640,
        alone=True,
    ),
    hog(
        "hog-memory-many",
        "memory without end, in many small processes",
        MEMORY,
        """
for n in range(1, 40):
    if os.fork() == 0:
        held = bytearray(os.urandom(4096)) * (4096 * 2)
        time.sleep(20)
        os._exit(0)
    count(n * 32)
    time.sleep(0.1 if n * 32 < 800 else 1)  # without a control group it is watched, and a busy machine watches slowly
time.sleep(8)
escaped("more than a gigabyte in all")
""",
        most=960,
        alone=True,
    ),
    hog(
        "hog-shared-memory",
        "shared memory without end",
        MEMORY,
        """
held = []
for n in range(1, 1200 // 16):
    block = mmap.mmap(-1, 16 << 20)
    for at in range(0, 16 << 20, 4096):
        block[at] = 1
    held.append(block)
    count(n * 16)
    time.sleep(0.04 if n * 16 < 512 else 1)  # it is watched, and a busy machine watches slowly
time.sleep(8)
escaped("more than a gigabyte")
""",
        most=640,
        alone=True,
    ),
    hog(
        "hog-memory-file",
        "memory in a file without a name",
        "limit on memory, limit on the size of files",
        """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
block = bytes(1 << 20)
held = []
for n in range(1, 100):
    held.append(os.memfd_create("x"))
    with contextlib.suppress(OSError):
        for _ in range(16):
            os.write(held[-1], block)
    count(sum(os.fstat(handle).st_size for handle in held) >> 20)
time.sleep(8)
escaped("a gigabyte")
""",
        most=640,
        alone=True,
    ),
    hog(
        "hog-shm-folder",
        "fill /dev/shm",
        "size of the box's own /dev/shm",
        """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
block = bytes(1 << 20)
written = 0
for n in range(300):
    with contextlib.suppress(OSError), open(f"/dev/shm/{n}", "wb", 0) as file:
        for _ in range(4):
            written += file.write(block) >> 20
    count(max(written, 1))
    if written > 400:
        break
for n in range(300):
    with contextlib.suppress(OSError):
        os.remove(f"/dev/shm/{n}")
""",
        most=200,
        alone=True,
    ),
    hog(
        "hog-root-folder",
        "fill the box's own root in memory",
        "read-only root",
        """
block = bytes(1 << 20)
for place in ("/", "/etc", "/var", "/run", "/home", "/opt", "/dev", "/mnt"):
    with contextlib.suppress(OSError), open(place + "/x", "wb", 0) as file:
        escaped(place)
""",
        most=1,
    ),
    hog(
        "hog-disk",
        "go on while the disk is nearly full",
        "floor of free disk space",
        """
for n in range(1, 100):
    with open(E["OUT"] + f"/file-{n}", "wb") as file:
        file.write(bytes(1 << 16))
    count(n)
    time.sleep(0.1)
escaped("all of it")
""",
        most=99,
        alone=True,
        least=0,
    ),
)
