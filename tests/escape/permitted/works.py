"""Real small projects, built and tested in the sandbox: all of them must succeed."""

# ruff: noqa: E501 (a row is a row, as in any table)
from __future__ import annotations

from collections.abc import Mapping

FILES: Mapping[str, str] = {
    "src/__init__.py": "",
    "tests/__init__.py": "",
    "src/answer.py": "def answer() -> int:\n    return 42\n",
    "tests/test_answer.py": """\
import multiprocessing
import os
import pathlib
import socket
import sqlite3
import tempfile
import threading
import unittest

from src.answer import answer


def double(n):
    return 2 * n


class TestAnswer(unittest.TestCase):
    def test_answer(self):
        self.assertEqual(answer(), 42)

    def test_temporary_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x"
            path.write_text("x")
            self.assertEqual(path.read_text(), "x")

    def test_home(self):
        path = pathlib.Path.home() / ".cache" / "thing"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")

    def test_sqlite(self):
        with tempfile.TemporaryDirectory() as folder:
            base = sqlite3.connect(folder + "/x.db")
            base.execute("pragma journal_mode = wal")
            base.execute("create table t (x)")
            base.commit()
            base.close()

    def test_processes(self):
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            self.assertEqual(pool.map(double, [1, 2]), [2, 4])

    def test_processes_forked(self):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            self.assertEqual(pool.map(double, [1, 2]), [2, 4])

    def test_semaphores(self):
        with multiprocessing.Semaphore(1):
            pass

    def test_shared_memory(self):
        from multiprocessing import shared_memory

        block = shared_memory.SharedMemory(create=True, size=10000)
        block.close()
        block.unlink()

    def test_threads(self):
        threads = [threading.Thread(target=sum, args=([1],)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def test_sockets(self):
        with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as line:
            door.accept()[0].sendall(b"x")
            self.assertEqual(line.recv(1), b"x")

    def test_sockets_by_name(self):
        with socket.create_server(("localhost", 0)) as door, socket.create_connection(("localhost", door.getsockname()[1])):
            pass

    def test_unix_sockets(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as door:
            door.bind(folder + "/s")
            door.listen()
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(folder + "/s")

    def test_asyncio(self):
        import asyncio

        async def run():
            process = await asyncio.create_subprocess_exec("true")
            return await process.wait()

        self.assertEqual(asyncio.run(run()), 0)

    def test_who_and_where(self):
        import getpass
        import pwd

        self.assertEqual(pwd.getpwuid(os.getuid()).pw_name, getpass.getuser())
        self.assertTrue(os.access(pathlib.Path.home(), os.W_OK))

    def test_time_zones(self):
        import datetime
        import zoneinfo

        self.assertIsNotNone(datetime.datetime.now(zoneinfo.ZoneInfo("Europe/Berlin")).utcoffset())

    def test_randomness(self):
        import secrets
        import uuid

        self.assertEqual(len(secrets.token_bytes(8)), 8)
        self.assertTrue(uuid.uuid4())
""",
    "package.json": '{"name": "sample", "version": "1.0.0", "type": "module", "scripts": {"test": "node --test test/", "hello": "echo hello"}}\n',
    "src/answer.js": "export const answer = () => 42;\n",
    "test/answer.test.js": """\
import assert from "node:assert";
import http from "node:http";
import os from "node:os";
import fs from "node:fs";
import { spawnSync } from "node:child_process";
import { Worker } from "node:worker_threads";
import test from "node:test";
import { answer } from "../src/answer.js";

test("answer", () => assert.equal(answer(), 42));
test("files", () => fs.writeFileSync(os.tmpdir() + "/x", "x"));
test("children", () => assert.equal(spawnSync("true").status, 0));
test("workers", async () => {
  const worker = new Worker("process.exit(0)", { eval: true });
  await new Promise((done) => worker.on("exit", done));
});
test("a server", async () => {
  const server = http.createServer((_, reply) => reply.end("fine"));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const reply = await fetch(`http://127.0.0.1:${server.address().port}/`);
  assert.equal(await reply.text(), "fine");
  server.close();
});
""",
    "Makefile": """\
OBJECTS = $(patsubst src/%.c,build/%.o,$(wildcard src/*.c))
build/app: $(OBJECTS)
\t$(CC) -o $@ $^ -lpthread
build/%.o: src/%.c
\t@mkdir -p build
\t$(CC) -c -Wall -o $@ $<
test: build/app
\t./build/app
""",
    "src/main.c": '#include <stdio.h>\nint answer(void);\nint main(void) { printf("%d\\n", answer()); return answer() != 42; }\n',
    "src/one.c": "int one(void) { return 1; }\n",
    "src/two.c": "int two(void) { return 2; }\n",
    "src/answer.c": "int one(void); int two(void);\nint answer(void) { return 39 + one() + two(); }\n",
}

WORKS: Mapping[str, tuple[str, str]] = {
    # name: the programs that must be on this machine, and what must end with 0
    "python-unittest": ("python3", "python3 -m unittest discover -s tests -t . -v"),
    "python-compile": ("python3", "python3 -m compileall -q src"),
    "python-venv": ("python3", "python3 -m venv --without-pip /tmp/venv && /tmp/venv/bin/python -c 'import json'"),
    "python-pty": (
        "python3",
        'python3 -c \'import pty, sys; sys.exit(pty.spawn(["sh", "-c", "test -t 0 && test -t 1"]))\' </dev/null',
    ),
    "script": ("script", "script -qec 'test -t 0' /dev/null </dev/null"),
    "node-test": ("node", "node --test test/"),
    "npm-test": ("npm", "npm test --silent"),
    "npm-run": ("npm", 'test "$(npm run -s hello)" = hello'),
    "make": ("cc", "make -j4 test && make -n"),
    "cc": ("cc", "cc -fsanitize=undefined -o /tmp/app src/*.c && /tmp/app"),
    "git-commit": (
        "git",
        "echo more >> README.md && git add README.md && git commit -q -m 'feat(task-001): more' && git log -1 --format=%s | grep -q more",
    ),
    "git-identity": ("git", 'test -n "$(git log -1 --format=%an)" && git var GIT_AUTHOR_IDENT'),
    "git-status": (
        "git",
        "git status --short >/dev/null && git diff HEAD~1 --stat && git show HEAD >/dev/null && git blame README.md",
    ),
    "git-stash": (
        "git",
        "echo stashed >> README.md && git stash -q && ! grep -q stashed README.md && git stash pop -q && grep -q stashed README.md && git checkout -q README.md",
    ),
    "git-rebase": (
        "git",
        "git switch -qc side HEAD~1 && git commit -q --allow-empty -m 'feat(task-001): side' && git rebase -q - && git switch -q - && git branch -D side",
    ),
    "git-merge": (
        "git",
        "b=$(git branch --show-current); git switch -qc other && git commit -q --allow-empty -m 'feat(task-001): other' && git switch -q \"$b\" && git merge -q --no-ff -m 'feat(task-001): merge' other",
    ),
    "git-tag-gc": ("git", "git tag -a -m x v1 && git gc -q && git fsck --no-progress"),
    "git-worktree": ("git", "git worktree add -q /tmp/wt HEAD && ls /tmp/wt/README.md && git worktree remove /tmp/wt"),
    "sqlite": (
        "sqlite3",
        "sqlite3 /tmp/x.db 'create table t (x); insert into t values (1); select * from t' | grep -q 1",
    ),
    "locale": ("sh", "printf 'ü' | LC_ALL=C.UTF-8 wc -m | grep -q 1"),
    "time-zone": ("date", 'test "$(TZ=Europe/Berlin date -d @0 +%H)" = 01'),
    "temporary": ("mktemp", 'f=$(mktemp) && echo x > "$f" && d=$(mktemp -d) && touch "$d/x" && rm -r "$f" "$d"'),
    "shared-memory": ("sh", "echo x > /dev/shm/x && rm /dev/shm/x"),
    "devices": (
        "sh",
        "head -c 10 /dev/urandom >/dev/null && echo x >/dev/null && head -c 1 /dev/zero >/dev/full 2>/dev/null; test -e /dev/fd/0",
    ),
    "who": ("id", 'test -n "$(id -un)" && test -n "$(whoami)" && test "$HOME" = "$(cd && pwd -P)"'),
    "processes": ("ps", "sleep 30 & kill $!; wait $!; ps aux >/dev/null"),
    "permissions": (
        "sh",
        "echo 'echo fine' > build.sh && chmod 755 build.sh && ./build.sh | grep -q fine && rm build.sh",
    ),
    "links": ("ln", "ln -s README.md link && ln README.md hard && cat link hard >/dev/null && rm link hard"),
    "tar": (
        "tar",
        "tar czf /tmp/x.tgz src && mkdir /tmp/unpacked && tar xzf /tmp/x.tgz -C /tmp/unpacked && diff -r src /tmp/unpacked/src",
    ),
    "pipes": ("mkfifo", "mkfifo /tmp/p && (echo x > /tmp/p &) && grep -q x /tmp/p"),
    "here-documents": ("bash", "bash -c 'cat <<< fine | grep -q fine && diff <(echo a) <(echo a)'"),
    "loopback": (
        "bash",
        "python3 -m http.server --bind 127.0.0.1 18080 >/dev/null 2>&1 & sleep 1; for i in 1 2 3 4 5 6 7 8; do bash -c 'exec 3<>/dev/tcp/127.0.0.1/18080' 2>/dev/null && exit 0; sleep 0.5; done; exit 1",
    ),
    "perl": ("perl", "perl -e 'print 42' | grep -q 42"),
    "jq": ("jq", "jq -r .name package.json | grep -q sample"),
}
