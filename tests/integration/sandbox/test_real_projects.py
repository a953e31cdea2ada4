"""Real projects build and test inside, offline, as they do outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from support.sandboxes import SandboxFixture, make_sandbox_fixture, needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.slow]


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed here")


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def room(tmp_path: Path) -> SandboxFixture:
    """With the person's real home, where toolchains are; no test writes to it."""
    import pwd

    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    return make_sandbox_fixture(tmp_path, home=home, repo_root=tmp_path)


def test_a_python_project_with_its_environment(room: SandboxFixture, tmp_path: Path) -> None:
    venv.create(tmp_path / ".venv", symlinks=True, with_pip=False)
    packages = next(iter((tmp_path / ".venv/lib").glob("python3*/site-packages")))
    site = Path(pytest.__file__).parents[1]
    (packages / "tools.pth").write_text(f"{site}\n")  # as if pytest were installed there
    room.settings = room.settings.model_copy(update={"read_only": (str(site),)})
    room.environ = {**os.environ, "PATH": f"{tmp_path}/.venv/bin:/usr/bin:/bin"}
    write(
        room.worktree,
        {
            "src/calc/__init__.py": "def add(a, b):\n    return a + b\n",
            "tests/test_calc.py": "import subprocess, sys, tempfile\nfrom calc import add\n\n"
            "def test_add():\n    assert add(2, 3) == 5\n\n"
            "def test_world(tmp_path):\n    assert subprocess.run([sys.executable, '-c', 'pass']).returncode == 0\n",
            "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['src']\n",
        },
    )
    said = room.sh("python -m pytest -q -p no:cacheprovider && python -m compileall -q src && git --version")
    assert "2 passed" in said.out, said
    assert said.code == 0


@needs("node", "npm")
def test_a_node_project_with_packages_scripts_and_tests(room: SandboxFixture, tmp_path: Path) -> None:
    package = {
        "name": "calc",
        "version": "1.0.0",
        "type": "module",
        "scripts": {"test": "node --test", "build": "tool build && mkdir -p dist && cp src/*.js dist/"},
    }
    write(
        tmp_path,
        {
            "node_modules/adder/package.json": json.dumps({"name": "adder", "version": "1.0.0", "main": "index.js"}),
            "node_modules/adder/index.js": "module.exports = (a, b) => a + b;\n",
            "node_modules/adder/cli.js": "#!/usr/bin/env node\nconsole.log('tool ran', process.argv[2]);\n",
        },
    )
    (tmp_path / "node_modules/.bin").mkdir()
    (tmp_path / "node_modules/adder/cli.js").chmod(0o755)
    (tmp_path / "node_modules/.bin/tool").symlink_to("../adder/cli.js")
    write(
        room.worktree,
        {
            "package.json": json.dumps(package),
            "src/calc.js": "import adder from 'adder';\nexport const add = (a, b) => adder(a, b);\n",
            "test/calc.test.js": "import test from 'node:test'; import assert from 'node:assert';\n"
            "import { add } from '../src/calc.js';\nimport { Worker } from 'node:worker_threads';\n"
            "test('adds', () => assert.equal(add(2, 3), 5));\n"
            "test('works', () => new Promise(done => new Worker('', { eval: true }).on('exit', done)));\n",
        },
    )
    said = room.sh("npm test && npm run build && npm pack --silent && ls dist")
    assert said.code == 0, said
    assert "tool ran build" in said.out
    assert said.out.split()[-1] == "calc.js"


@needs("make", "cc")
def test_a_c_project_with_make(room: SandboxFixture) -> None:
    write(
        room.worktree,
        {
            "Makefile": "check: calc\n\t./calc 2 3 | grep -qx 5\ncalc: calc.o\n\t$(CC) -o $@ $^ -lm -lpthread\n"
            "clean:\n\trm -f calc *.o\n",
            "calc.c": "#include <stdio.h>\n#include <stdlib.h>\n#include <pthread.h>\n"
            "static void *sum(void *p){int *n=p;n[2]=n[0]+n[1];return 0;}\n"
            "int main(int c,char**v){int n[3]={atoi(v[1]),atoi(v[2]),0};pthread_t t;"
            'pthread_create(&t,0,sum,n);pthread_join(t,0);printf("%d\\n",n[2]);return 0;}\n',
        },
    )
    said = room.sh("make -j4 check && make clean check")
    assert said.code == 0, said


@needs("cargo")
def test_a_rust_project_with_cargo(room: SandboxFixture) -> None:
    write(
        room.worktree,
        {
            "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a + b }\n"
            "#[test]\nfn adds() { assert_eq!(add(2, 3), 5); }\n",
        },
    )
    said = room.sh("cargo test && cargo build --release")
    if "no installed" in said.err or "could not choose a version" in said.err:
        pytest.skip(said.err.strip())
    assert said.code == 0, said
    assert "1 passed" in said.out


@needs("javac", "java")
def test_a_java_program(room: SandboxFixture) -> None:
    write(room.worktree, {"A.java": 'class A { public static void main(String[] a) { System.out.println("да"); } }\n'})
    said = room.sh("javac -encoding UTF-8 A.java && java -Dfile.encoding=UTF-8 -Dstdout.encoding=UTF-8 A")
    assert said.code == 0, said
    assert said.out == "да\n"


@needs("git")
def test_everyday_git_in_a_shared_clone(room: SandboxFixture, repo: Path, tmp_path: Path) -> None:
    room.worktree.rmdir()
    subprocess.run(["git", "clone", "-q", "--shared", str(repo), str(room.worktree)], check=True)
    room.objects = repo / ".git" / "objects"
    variables = {name: value for name, value in os.environ.items() if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))}
    said = room.sh(
        "set -e; echo 1 >a; git add -A; git commit -qm one; git switch -q -c side; echo 2 >>a; git stash -q;"
        " git stash pop -q; git commit -qam two; git switch -q main; git merge -q --no-edit side; git tag v1;"
        " git rebase -q HEAD~1; git gc -q; git fsck --no-progress --no-dangling;"
        " git log --oneline | wc -l; git status --short",
        variables=variables,
    )
    assert said.code == 0, said
    assert said.out.split() == ["3"]


@pytest.mark.skipif(sys.platform != "linux", reason="a Linux matter")
def test_a_local_server_and_its_client_meet_on_the_loopback(room: SandboxFixture) -> None:
    """bubblewrap brings the loopback device of its own network up: tests that listen on 127.0.0.1 go on working."""
    script = (
        "import http.server, threading, urllib.request\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "print(urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}/').status)\n"
    )
    assert room.run("/usr/bin/python3", "-c", script).out == "200\n"
