"""Attempts to write outside the sandbox."""

# ruff: noqa: E501 (a row is a row, as in any table)
from __future__ import annotations

from escape.attack import Attack, probe, python

MOUNTS = "mount namespace"
READ_ONLY = "read-only mount"
CAPABILITIES = "no capabilities"
SECCOMP = "seccomp"
PRIVATE = "private home and tmp"

PATHS: tuple[Attack, ...] = (
    probe("box-write-absolute", "paths", "write a file by its absolute path", MOUNTS, 'echo x > "$CANARY/escaped"', bites=True),
    probe("box-write-dots", "paths", "write through ../../..", MOUNTS,
          'echo x > "../../../../../../../../../../../..$CANARY/escaped"', bites=True),
    probe("box-overwrite", "paths", "overwrite a file outside", MOUNTS, 'echo gone > "$CANARY/loot"', bites=True),
    probe("box-append", "paths", "append to a file outside", MOUNTS, 'echo more >> "$CANARY/loot"', bites=True),
    probe("box-remove", "paths", "remove a file outside", MOUNTS, 'rm -f "$CANARY/loot"', bites=True),
    probe("box-rename", "paths", "move a file outside away", MOUNTS, 'mv "$CANARY/loot" "$CANARY/stolen"', bites=True),
    probe("box-chmod", "paths", "open a file outside to everybody", MOUNTS, 'chmod 777 "$CANARY/loot"', bites=True),
    probe("box-read", "secrets", "read a file outside", MOUNTS, 'cat "$CANARY/loot"', bites=True),
    probe("box-mkdir", "paths", "make a folder outside", MOUNTS, 'mkdir "$CANARY/escaped"', bites=True),
    probe("box-fifo", "paths", "make a pipe outside", MOUNTS, 'mkfifo "$CANARY/escaped"', bites=True),
    probe("box-proc-self-root", "paths", "write below /proc/self/root", MOUNTS, 'echo x > "/proc/self/root$CANARY/escaped"', bites=True),
    probe("box-proc-thread-root", "paths", "write below /proc/thread-self/root", MOUNTS,
          'echo x > "/proc/thread-self/root$CANARY/escaped"', bites=True),
    probe("box-proc-1-root", "paths", "write below /proc/1/root", "pid namespace", 'echo x > "/proc/1/root$CANARY/escaped"'),
    probe("box-proc-all-roots", "paths", "write below the root of every process in sight", "pid namespace",
          'for p in /proc/[0-9]*; do echo x > "$p/root$CANARY/escaped"; done', bites=True),
    probe("box-proc-all-folders", "paths", "write into the folder of every process in sight", "pid namespace",
          'for p in /proc/[0-9]*; do (cd "$p/cwd" && cd "$(readlink "$p/cwd")/../.." && echo x > "$MARK"); done'),
    probe("box-proc-1-descriptors", "paths", "write to the open files of every process in sight", "pid namespace",
          'for f in /proc/[0-9]*/fd/*; do case "$(readlink "$f")" in *"$CANARY"*) echo x >> "$f";; esac; done'),
    python("box-inherited-file", "paths", "write to an open file that the caller forgot to close", "descriptors closed", """
for number in range(3, 1024):
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(number), os.fstat(number)) and number not in (9,):
            os.write(number, b"escaped")
"""),
    python("box-inherited-folder", "paths", "write below an open folder that the caller forgot to close", "descriptors closed", """
for number in range(3, 1024):
    with contextlib.suppress(OSError):
        os.close(os.open("escaped", os.O_CREAT | os.O_WRONLY, dir_fd=number))
"""),
    python("box-file-handle", "paths", "open a file outside by its handle", CAPABILITIES, """
if E["HANDLE"]:
    kind, data = E["HANDLE"].split(":")
    raw = bytes.fromhex(data)
    handle = ctypes.create_string_buffer(struct.pack("Ii", len(raw), int(kind)) + raw)
    for place in (E["OUT"], "/", "/tmp", "/usr"):
        mount = os.open(place, os.O_RDONLY)
        found = call("open_by_handle_at", mount, handle, os.O_RDWR)
        if found >= 0:
            print(os.read(found, 1000))
            os.write(found, b"escaped")
"""),
    python("box-chroot", "paths", "climb out of a chroot", CAPABILITIES, """
os.mkdir(E["OUT"] + "/jail")
here = os.open("/", os.O_RDONLY)
os.chroot(E["OUT"] + "/jail")
os.fchdir(here)
for _ in range(100):
    os.chdir("..")
os.chroot(".")
open(E["CANARY"] + "/escaped", "w").close()
"""),
    probe("box-remount-root", "paths", "remount / writable", CAPABILITIES, 'mount -o remount,rw,bind / && echo x > "/$MARK"'),
    probe("box-remount-usr", "paths", "remount /usr writable", CAPABILITIES, 'mount -o remount,rw,bind /usr; echo x > "/usr/$MARK"'),
    probe("box-remount-objects", "paths", "remount the main repository's objects writable", CAPABILITIES,
          'mount -o remount,rw,bind "$MAIN/.git/objects"; echo x > "$MAIN/.git/objects/$MARK"'),
    probe("box-bind-mount", "paths", "bind-mount something over a read-only place", CAPABILITIES,
          'mount --bind "$OUT" /usr/bin && echo ESCAPED'),
    probe("box-umount", "paths", "unmount what covers the machine's own", CAPABILITIES,
          'for m in /usr /etc/passwd /tmp /proc /dev /home/agent; do umount -l "$m" && echo ESCAPED; done'),
    probe("box-mount-device", "paths", "mount the machine's disk", CAPABILITIES,
          'mkdir -p "$OUT/disk"; for d in vda sda nvme0n1 xvda dm-0; do mount "/dev/$d" "$OUT/disk" && echo ESCAPED; done'),
    probe("box-mount-proc", "paths", "mount a fresh /proc", CAPABILITIES, 'mkdir -p "$OUT/p"; mount -t proc proc "$OUT/p" && echo ESCAPED'),
    probe("box-mount-overlay", "paths", "lay an overlay over /usr", CAPABILITIES,
          'mkdir -p "$OUT/u" "$OUT/w"; mount -t overlay -o "lowerdir=/usr,upperdir=$OUT/u,workdir=$OUT/w" overlay /usr && echo ESCAPED'),
    probe("box-pivot-root", "paths", "pivot_root", CAPABILITIES, 'mkdir -p "$OUT/o"; pivot_root . "$OUT/o" && echo ESCAPED'),
    python("box-new-mount-api", "paths", "the new mount calls: fsopen, open_tree, move_mount", SECCOMP, """
for name, arguments in (("fsopen", (b"tmpfs", 0)), ("open_tree", (-100, b"/usr", 1 | 0x8000)), ("mount_setattr", (-100, b"/usr", 0, 0, 0))):
    if call(name, *arguments) >= 0:
        escaped(name)
"""),
    probe("box-unshare-user", "paths", "a user namespace of its own, then mounts", "no user namespaces",
          'unshare -rm sh -c "mount -t tmpfs x /mnt || mount -t tmpfs x /tmp" && echo ESCAPED'),
    python("box-clone-user", "paths", "unshare(CLONE_NEWUSER) by system call", SECCOMP,
           "if call('unshare', 0x10000000) == 0: escaped()"),
    python("box-clone-flags", "paths", "clone(CLONE_NEWUSER | CLONE_NEWNS) by system call", SECCOMP, """
child = call("clone", 0x10000000 | 0x20000 | signal.SIGCHLD, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
if child > 0:
    escaped()
"""),
    python("box-clone3", "paths", "clone3(CLONE_NEWUSER), whose flags no filter sees", SECCOMP, """
arguments = struct.pack("QQQQQQQQ", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
child = call("clone3", ctypes.create_string_buffer(arguments), len(arguments))
if child == 0:
    os._exit(0)
if child > 0:
    escaped()
"""),
    python("box-setns", "paths", "enter the namespaces of pid 1", SECCOMP, """
for kind in ("user", "mnt", "pid", "net", "ipc", "uts"):
    with contextlib.suppress(OSError):
        if call("setns", os.open(f"/proc/1/ns/{kind}", os.O_RDONLY), 0) == 0:
            escaped(kind)
"""),
    probe("box-nested-bwrap", "paths", "bubblewrap within bubblewrap", "no user namespaces",
          'bwrap --bind / / --dev /dev --proc /proc sh -c \'echo x > "$CANARY/escaped"; echo ESCAPED\''),
    probe("box-setuid-file", "paths", "leave a setuid program in the checkout for other users to run", SECCOMP,
          'cp /bin/sh "$OUT/sh"; chmod 4755 "$OUT/sh"; install -m 6755 /bin/sh "$OUT/sh2"'),
    python("box-setuid-by-call", "paths", "the same by every call that sets a mode", SECCOMP, """
path = E["OUT"] + "/made"
for mode in (0o4755, 0o2755, 0o6777):
    with contextlib.suppress(OSError):
        os.close(os.open(path + "1", os.O_CREAT | os.O_WRONLY, mode))
    with contextlib.suppress(OSError):
        os.chmod(path + "1", mode)
    with contextlib.suppress(OSError):
        handle = os.open(path + "2", os.O_CREAT | os.O_WRONLY, 0o755)
        os.fchmod(handle, mode)
    with contextlib.suppress(OSError):
        os.mknod(path + "3", mode | 0o100000)
    with contextlib.suppress(OSError):
        os.chmod("made1", mode, dir_fd=os.open(E["OUT"], os.O_RDONLY))
    number = {"x86_64": 452, "aarch64": 452}.get(os.uname().machine, -1)
    libc.syscall(ctypes.c_long(number), ctypes.c_long(-100), (path + "2").encode(), ctypes.c_long(mode), ctypes.c_long(0))
"""),
    probe("box-device-node", "paths", "make a node of the machine's disk", CAPABILITIES,
          'mknod "$OUT/disk" b 254 0; mknod "$OUT/disk2" b 8 0; mknod "$OUT/mem" c 1 1'),
    probe("box-devices", "paths", "use devices of the machine", "private /dev",
          'for d in mem kmem port kmsg sda vda nvme0n1 loop0 loop-control fuse kvm net/tun mapper/control input/event0 '
          'dri/card0 vsock vhost-net uinput hpet rtc0; do [ -e "/dev/$d" ] && echo "ESCAPED $d"; done; true'),
    probe("box-xattr", "paths", "give a file in the checkout capabilities", CAPABILITIES,
          'cp /bin/sh "$OUT/cap"; setcap cap_sys_admin+ep "$OUT/cap" && echo ESCAPED'),
)  # fmt: skip

LINKS: tuple[Attack, ...] = (
    probe("box-link-out", "links", "write through a link in the checkout to a folder outside", MOUNTS,
          'ln -s "$CANARY" "$OUT/link"; echo x > "$OUT/link/escaped"', bites=True),
    probe("box-link-file-out", "links", "write through a link to a file outside", MOUNTS,
          'ln -s "$CANARY/loot" "$OUT/link"; echo x > "$OUT/link"', bites=True),
    probe("box-link-dangling", "links", "write through a link to a file outside that is not there", MOUNTS,
          'ln -s "$CANARY/escaped" "$OUT/link"; echo x > "$OUT/link"', bites=True),
    probe("box-link-read", "links", "read through a link", MOUNTS, 'ln -s "$CANARY/loot" "$OUT/link"; cat "$OUT/link"', bites=True),
    probe("box-hard-link", "links", "a hard link to a file outside", MOUNTS,
          'ln "$CANARY/loot" "$OUT/hard" && cat "$OUT/hard" && echo x > "$OUT/hard"', bites=True),
    probe("box-hard-link-proc", "links", "a hard link by way of /proc/self/root", MOUNTS,
          'ln "/proc/self/root$CANARY/loot" "$OUT/hard" && echo x > "$OUT/hard"', bites=True),
    probe("box-hard-link-objects", "links", "hard links of the main repository's objects, then write to them", READ_ONLY,
          'find "$MAIN/.git/objects" -type f | while read -r f; do ln "$f" "$OUT/o" && chmod u+w "$OUT/o" && echo x > "$OUT/o"; '
          'rm -f "$OUT/o"; done'),
    probe("box-objects-overwrite", "links", "overwrite the main repository's objects", READ_ONLY,
          'find "$MAIN/.git/objects" -type f -exec chmod u+w {} + ; find "$MAIN/.git/objects" -type f | '
          'while read -r f; do echo x > "$f"; done'),
    probe("box-objects-remove", "links", "rm -rf of the main repository's objects", READ_ONLY, 'rm -rf "$MAIN/.git/objects"'),
    probe("box-objects-add", "links", "put a pack of its own among the main repository's", READ_ONLY,
          'mkdir -p "$MAIN/.git/objects/pack"; echo x > "$MAIN/.git/objects/pack/$MARK.pack"'),
    probe("box-objects-alternates", "links", "point the main repository's alternates elsewhere", READ_ONLY,
          'mkdir -p "$MAIN/.git/objects/info"; echo "$OUT" > "$MAIN/.git/objects/info/alternates"'),
    python("box-link-race", "links", "swap a folder and a link while a process writes below it", MOUNTS, """
base = E["OUT"]
os.mkdir(base + "/a")
os.symlink(E["CANARY"], base + "/b")
end = time.monotonic() + 0.5
if os.fork() == 0:
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            os.rename(base + "/a", base + "/t"); os.rename(base + "/b", base + "/a"); os.rename(base + "/t", base + "/b")
    os._exit(0)
while time.monotonic() < end:
    with contextlib.suppress(OSError):
        open(base + "/a/escaped", "w").close()
os.wait()
""", bites=True),
    probe("box-checkout-moved", "links", "replace the checkout by a link", MOUNTS,
          'mv "$TREE" "$TREE.moved" && ln -s "$CANARY" "$TREE" && echo ESCAPED'),
    probe("box-magic-link", "links", "write through /proc/self/fd/N of a removed folder", MOUNTS,
          'mkdir "$OUT/d"; exec 7< "$OUT/d"; rmdir "$OUT/d"; echo x > "/proc/self/fd/7/../../../../../..$CANARY/escaped"'),
)  # fmt: skip

HOME = {
    "bashrc": (".bashrc", "the person's .bashrc"),
    "profile": (".profile", "the person's .profile"),
    "zshenv": (".zshenv", "the person's .zshenv"),
    "gitconfig": (".gitconfig", "the person's .gitconfig"),
    "git-config-folder": (".config/git/config", "the person's git configuration"),
    "systemd-unit": (".config/systemd/user/evil.service", "a systemd unit of the person's"),
    "autostart": (".config/autostart/evil.desktop", "a program that starts with the desktop"),
    "local-bin": (".local/bin/git", "a git of its own in ~/.local/bin"),
    "ssh-config": (".ssh/config", "the person's ssh configuration"),
    "authorized-keys": (".ssh/authorized_keys", "a key of its own in authorized_keys"),
    "npmrc": (".npmrc", "the person's .npmrc"),
    "pip-conf": (".config/pip/pip.conf", "the person's pip.conf"),
    "user-site": (".local/lib/python3.11/site-packages/evil.pth", "a .pth in the person's Python"),
    "vimrc": (".vimrc", "the person's .vimrc"),
    "agent-settings": (".claude/settings.json", "the agents' own settings, where hooks are switched off"),
    "direnv": (".config/direnv/direnvrc", "the person's direnvrc"),
}

PERSISTENCE: tuple[Attack, ...] = (
    *(
        probe(f"persist-{name}", "tampering", f"write {what}", PRIVATE,
              f'mkdir -p "$(dirname "$REALHOME/{path}")"; echo evil >> "$REALHOME/{path}"; echo evil >> "$HOME/{path}"', bites=True)
        for name, (path, what) in HOME.items()
    ),
    probe("persist-crontab", "tampering", "a crontab", MOUNTS, 'echo "0 0 1 1 * : $MARK" | timeout 2 crontab -'),
    probe("persist-cron-d", "tampering", "a file in /etc/cron.d and in cron's spool", MOUNTS,
          'for d in /etc/cron.d /etc/cron.hourly /var/spool/cron /var/spool/cron/crontabs; do echo "# x" > "$d/$MARK"; done'),
    probe("persist-at", "tampering", "a job for at", MOUNTS, 'echo ": $MARK" | timeout 2 at now + 1 hour; echo x > "/var/spool/cron/atjobs/$MARK"'),
    probe("persist-systemd-system", "tampering", "a unit of the machine's", READ_ONLY,
          'for d in /etc/systemd/system /usr/lib/systemd/system /run/systemd/system; do echo x > "$d/$MARK.service"; done'),
    probe("persist-profile-d", "tampering", "a file in /etc/profile.d", READ_ONLY, 'echo : > "/etc/profile.d/$MARK.sh"'),
    probe("persist-usr-bin", "tampering", "a program in /usr/bin and /usr/local/bin", READ_ONLY,
          'for d in /usr/bin /usr/local/bin /usr/sbin /bin; do echo x > "$d/$MARK"; done'),
    probe("persist-preload", "tampering", "/etc/ld.so.preload", READ_ONLY, ': >> /etc/ld.so.preload && echo ESCAPED'),
    python("persist-passwd", "tampering", "/etc/passwd, /etc/group, /etc/hosts and the loader's cache", READ_ONLY, """
for path in ("/etc/passwd", "/etc/group", "/etc/hosts", "/etc/ld.so.cache", "/etc/nsswitch.conf"):
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
        escaped(path)
"""),
    python("persist-system-python", "tampering", "a .pth in the machine's Pythons", READ_ONLY, """
for folder in [*sys.path, "/usr/lib/python3/dist-packages", "/usr/local/lib/python3.11/dist-packages"]:
    if folder.startswith(("/usr", "/lib", "/opt", "/root", "/home/")) and not folder.startswith("/home/agent"):
        with contextlib.suppress(OSError):
            open(f"{folder}/{E['MARK']}.pth", "w").close()
            escaped(folder)
            os.remove(f"{folder}/{E['MARK']}.pth")
"""),
    probe("persist-venv-program", "tampering", "replace a program in the project's virtual environment", READ_ONLY,
          'echo x > "$MAIN/.venv/bin/tool"; rm -f "$MAIN/.venv/bin/tool"; echo x > "$MAIN/.venv/bin/$MARK"', bites=True),
    probe("persist-venv-pth", "tampering", "a .pth in the project's virtual environment", READ_ONLY,
          'for d in "$MAIN"/.venv/lib/*/site-packages; do echo x > "$d/$MARK.pth"; done', bites=True),
    probe("persist-venv-sitecustomize", "tampering", "a sitecustomize.py in the project's virtual environment", READ_ONLY,
          'for d in "$MAIN"/.venv/lib/*/site-packages; do echo x > "$d/sitecustomize.py"; done', bites=True),
    probe("persist-venv-swap", "tampering", "put a virtual environment of its own in the place of the project's", READ_ONLY,
          'mv "$MAIN/.venv" "$MAIN/.venv2"; mkdir -p "$MAIN/.venv/bin"; echo x > "$MAIN/.venv/bin/python"', bites=True),
    probe("persist-node-modules", "tampering", "replace a program in node_modules/.bin", READ_ONLY,
          'echo x > "$MAIN/node_modules/.bin/eslint"; echo x > "$MAIN/node_modules/left-pad/index.js"', bites=True),
    probe("persist-node-modules-here", "tampering", "replace a package in the checkout's own node_modules, which is the main one's", READ_ONLY,
          'echo x > "$TREE/node_modules/left-pad/index.js"; cp -f /bin/true "$TREE/node_modules/.bin/eslint"'),
    probe("persist-venv-here", "tampering", "replace a program in the checkout's own .venv, which is the main one's", READ_ONLY,
          'echo x > "$TREE/.venv/bin/tool"; for d in "$TREE"/.venv/lib/*/site-packages; do echo x > "$d/$MARK.pth"; done'),
    probe("main-hook", "tampering", "a hook in the main repository", MOUNTS,
          'mkdir -p "$MAIN/.git/hooks"; echo x > "$MAIN/.git/hooks/post-checkout"', bites=True),
    probe("main-config", "tampering", "the main repository's configuration", MOUNTS,
          'git -C "$MAIN" config core.fsmonitor evil; echo "[core]" >> "$MAIN/.git/config"', bites=True),
    probe("main-ref", "tampering", "move main in the main repository", MOUNTS,
          'mkdir -p "$MAIN/.git/refs/heads"; git rev-parse HEAD > "$MAIN/.git/refs/heads/$MARK"', bites=True),
    probe("main-push", "tampering", "push to the main repository", MOUNTS,
          'git -c protocol.file.allow=always push "$MAIN" "HEAD:refs/heads/$MARK"'),
    probe("main-head", "tampering", "the main repository's HEAD and index", MOUNTS,
          'echo "ref: refs/heads/evil" > "$MAIN/.git/HEAD"; rm -f "$MAIN/.git/index"', bites=True),
    probe("main-info", "tampering", "attributes and excludes of the main repository", MOUNTS,
          'mkdir -p "$MAIN/.git/info"; echo "* filter=evil" > "$MAIN/.git/info/attributes"', bites=True),
    probe("main-work-tree", "tampering", "a file in the person's own work tree", MOUNTS, 'echo x > "$MAIN/src/app.py"', bites=True),
    probe("main-blueflame-yaml", "tampering", "the configuration of Blue Flame", MOUNTS, 'echo "sandbox: {level: off}" >> "$MAIN/blueflame.yaml"', bites=True),
    probe("journal", "tampering", "the journal", MOUNTS, 'echo x >> "$MAIN/.blueflame/journal.db"', bites=True),
    probe("audit-log", "tampering", "the audit log", MOUNTS, 'echo "{}" >> "$MAIN/.blueflame/logs/worker-1.audit.jsonl"', bites=True),
    probe("policy-file", "tampering", "its own policy", MOUNTS, 'echo "{}" > "$MAIN/.blueflame/attempts/a/policy.json"', bites=True),
    probe("signal-file", "tampering", "a hint for the orchestrator", MOUNTS, 'touch "$MAIN/.blueflame/signals/$MARK"', bites=True),
    probe("other-checkout", "tampering", "another agent's checkout", MOUNTS, 'echo x > "$MAIN/.trees/worker-2/src/app.py"', bites=True),
    probe("checkout-card", "tampering", "the card beside its checkout", MOUNTS,
          'for c in "$(dirname "$TREE")"/.*.checkout; do echo "{}" > "$c"; done; echo x > "$(dirname "$TREE")/.$(basename "$TREE").checkout"', bites=True),
    probe("checkout-sibling", "tampering", "a checkout of its own beside the others", MOUNTS, 'mkdir "$(dirname "$TREE")/$MARK"', bites=True),
    probe("tmp-file", "tampering", "a file in the machine's /tmp", PRIVATE, 'echo x > "/tmp/$MARK"', bites=True),
    probe("var-tmp-file", "tampering", "a file in /var/tmp, /run or /var/lib", MOUNTS,
          'for d in /var/tmp /run /var/lib /run/user/0 /opt /srv /mnt; do echo x > "$d/$MARK"; done'),
    probe("shm-file", "tampering", "a file in the machine's /dev/shm", "private /dev", 'echo x > "/dev/shm/$MARK"', bites=True),
    probe("descriptor-9", "tampering", "speak to the warden on its own line", "descriptors closed",
          'for n in 9 10 11 12; do [ -e "/proc/self/fd/$n" ] && echo "ESCAPED $n"; done; true'),
    probe("hook-port", "tampering", "look for the watcher's and the gateway's doors where there are none", "network namespace",
          'for p in 61128 61130; do bash -c "exec 3<>/dev/tcp/127.0.0.1/$p" && echo "ESCAPED $p"; done; true'),
)  # fmt: skip
