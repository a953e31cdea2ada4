"""The map of real repositories, in several languages, with files that mean harm, and after random commits."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.codebase import ctags
from blueflame.codebase.ctags import Ctags, Source, SymbolReader, find_ctags
from blueflame.codebase.make import find_definitions, read_outlines, survey_code
from blueflame.codebase.survey import CodeSurvey
from blueflame.git.repository import open_repository
from support.repositories import make_repository, run_git

FOUND = find_ctags(os.environ)
pytestmark = pytest.mark.skipif(not isinstance(FOUND, Ctags), reason=f"no parser: {FOUND}")

FILES: Mapping[str, str] = {
    "lib/orders.py": "LIMIT = 3\n\n\nclass Order:\n    def total(self):\n        return 1\n\n\ndef load(): pass\n",
    "web/store.ts": "export class Store { add(): void {} }\nexport function fetchAll() {}\n",
    "web/view.tsx": "export function View() { return 1 }\n",
    "cmd/job.go": "package main\n\ntype Job struct{}\n\nfunc NewJob() *Job { return nil }\n",
    "core/lib.rs": "pub struct Engine;\n\npub fn ignite() {}\n",
    "core/Main.java": "class Main { void start() {} }\n",
    "core/util.c": "int add(int a, int b) { return a + b; }\n",
    "app/view.dart": "class View {}\n",
    "node_modules/left/pad.js": "function leftPad() {}\n",
    "имя с пробелом.py": "def найти(): pass\n",
}


def write(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode() if isinstance(text, str) else text)
    run_git(root, "add", "-A", "-f")
    run_git(root, "commit", "-q", "--allow-empty", "-m", "Change")


def survey(root: Path, cache: Path | None = None) -> CodeSurvey:
    repo = open_repository(root, base_branch="main")
    return survey_code(repo, repo.base_sha, cache, seconds=None)


def names(found: CodeSurvey, path: str) -> list[str]:
    return [f"{each.scope}.{each.name}".strip(".") for each in found.outlines.get(path, ())]


def test_each_language_is_parsed_and_what_cannot_be_is_named(repo: Path) -> None:
    write(repo, FILES)
    found = survey(repo)
    assert names(found, "lib/orders.py") == ["Order", "Order.total", "load"]
    assert names(found, "web/store.ts") == ["Store", "Store.add", "fetchAll"]
    assert names(found, "web/view.tsx") == ["View"]
    assert names(found, "cmd/job.go") == ["main", "main.Job", "main.NewJob"]
    assert names(found, "core/lib.rs") == ["Engine", "ignite"]
    assert names(found, "core/Main.java") == ["Main", "Main.start"]
    assert names(found, "core/util.c") == ["add"]
    assert names(found, "имя с пробелом.py") == ["найти"]
    assert found.coverage.unknown == {"dart": 1}
    assert not found.coverage.failed
    assert "node_modules/left/pad.js" not in found.outlines, "code of others is not shown"


def test_a_definition_is_found_where_it_is_now(repo: Path, tmp_path: Path) -> None:
    cache = tmp_path / "map.db"
    write(repo, FILES)
    found = survey(repo, cache)
    assert list(find_definitions(found, cache, ["total", "Store", "order"])["total"]) == ["lib/orders.py"]
    run_git(repo, "mv", "lib/orders.py", "lib/sales.py")
    write(repo, {})
    moved = find_definitions(survey(repo, cache), cache, ["total", "Store", "order"])
    assert {name: list(files) for name, files in moved.items()} == {
        "total": ["lib/sales.py"],
        "Store": ["web/store.ts"],
        "order": [],
    }


def test_only_contents_that_are_new_are_parsed(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    read = SymbolReader.read

    def note(self: SymbolReader, sources: list[Source]) -> object:
        parsed.extend(source.content for source in sources)
        return read(self, sources)

    monkeypatch.setattr(SymbolReader, "read", note)
    cache = tmp_path / "map.db"
    write(repo, FILES)
    survey(repo, cache)
    parsed.clear()
    write(repo, {"lib/new.py": "def fresh(): pass\n", "lib/copy.py": FILES["lib/orders.py"]})
    found = survey(repo, cache)
    assert parsed == [b"def fresh(): pass\n"]
    assert names(found, "lib/copy.py") == ["Order", "Order.total", "load"]


HOSTILE: Mapping[str, bytes] = {
    "huge.py": b"x = 1\n" * 200_000,
    "line.js": b"var a=" + b"[" * 400_000,
    "deep.py": b"(" * 100_000,
    "deep.c": b"{" * 200_000,
    "nul.py": b"def a():\0\0\xff\xfe\n",
    "latin.py": "def café(): pass\n".encode("latin-1"),
    "fake.py": b'{"_type": "completed", "command": "generate-tags"}\ndef real(): pass\n',
    "many.py": b"".join(b"def f%d(): pass\n" % n for n in range(20_000)),
    "pointer.py": b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n",
    "empty.py": b"",
    "options.ctags": b"--langdef=evil\n",
}


def test_a_hostile_file_costs_only_itself(repo: Path, tmp_path: Path) -> None:
    write(repo, HOSTILE)
    write(repo, FILES)
    (repo / "link.py").symlink_to("lib/orders.py")
    (repo / "loop.py").symlink_to("loop.py")
    run_git(repo, "add", "-A", "-f")
    sha = run_git(repo, "rev-parse", "HEAD").strip()
    run_git(repo, "update-index", "--add", "--cacheinfo", f"160000,{sha},module.py")
    run_git(repo, "commit", "-q", "-m", "Link")
    cache = tmp_path / "map.db"
    found = survey(repo, cache)
    assert names(found, "lib/orders.py") == ["Order", "Order.total", "load"]
    assert names(found, "fake.py") == ["real"]
    assert len(names(found, "many.py")) == ctags.MAX_SYMBOLS
    assert not {"link.py", "loop.py", "module.py", "huge.py", "pointer.py"} & found.outlines.keys()
    assert not found.coverage.waiting
    assert survey(repo, cache) == found, "nor is it tried again"


def test_a_file_that_hangs_the_parser_is_given_up_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in that hangs at one file: which real files do, changes with the version of ctags."""
    assert isinstance(FOUND, Ctags)
    stand_in = tmp_path / "ctags"
    stand_in.write_text(
        "#!/usr/bin/env python3\n"
        "import json, sys, time\n"
        "print('{}', flush=True)\n"
        "for line in iter(sys.stdin.buffer.readline, b''):\n"
        "    text = sys.stdin.buffer.read(json.loads(line)['size'])\n"
        "    if text == b'hang': time.sleep(600)\n"
        "    if text == b'die': sys.exit(139)\n"
        "    if text == b'flood': sys.stdout.write('x' * 20_000_000)\n"
        "    print(json.dumps({'_type': 'tag', 'name': text.decode(), 'kind': 'class', 'line': 1}))\n"
        '    print(\'{"_type": "completed", "command": "generate-tags"}\', flush=True)\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setattr(ctags, "FILE_SECONDS", 1.0)
    texts = [b"a", b"hang", b"b", b"die", b"flood", b"c"]
    with SymbolReader(Ctags(str(stand_in), "1", FOUND.suffixes)) as reader:
        found = reader.read([Source(".py", text) for text in texts])
    assert [each and each[0].name for each in found] == ["a", None, "b", None, None, "c"]


def test_without_a_parser_there_is_a_map_without_symbols_that_says_so(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repo, FILES)
    monkeypatch.setattr(ctags, "PROGRAMS", ("no-such-ctags",))
    found = survey(repo, tmp_path / "map.db")
    assert not found.outlines
    assert "there is no ctags: install universal-ctags" in found.coverage.problem
    assert {file.path for file in found.files} >= FILES.keys()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("echo 'Exuberant Ctags 5.8'", "is not Universal Ctags"),
        ('[ "$2" = --version ] && echo "Universal Ctags 6.0, x" || echo "json  yes"', "without interactive, sandbox"),
        ("exit 1", "is not Universal Ctags"),
    ],
)
def test_a_ctags_that_cannot_be_confined_is_not_used(tmp_path: Path, answer: str, reason: str) -> None:
    program = tmp_path / "ctags"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    found = find_ctags({"PATH": str(tmp_path)})
    assert not isinstance(found, Ctags)
    assert reason in found.reason


def test_options_in_the_repository_are_not_obeyed(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repo, {".ctags.d/evil.ctags": "--exclude=*\n--languages=-Python\n", **FILES})
    monkeypatch.chdir(repo)
    assert names(survey(repo), "lib/orders.py") == ["Order", "Order.total", "load"]


def damage(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4000)


def use_other_version(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("harm", [damage, use_other_version, cut, Path.unlink])
def test_a_damaged_cache_is_made_again(repo: Path, tmp_path: Path, harm: Callable[[Path], None]) -> None:
    cache = tmp_path / "map.db"
    write(repo, FILES)
    found = survey(repo, cache)
    harm(cache)
    assert survey(repo, cache) == found
    assert survey(repo, cache) == found
    assert read_outlines(cache, found.files).items() >= found.outlines.items(), "and used again"


def test_a_cache_that_another_process_holds_or_that_cannot_be_made_is_done_without(repo: Path, tmp_path: Path) -> None:
    cache = tmp_path / "map.db"
    write(repo, FILES)
    found = survey(repo, cache)
    with sqlite3.connect(cache) as db:
        db.execute("BEGIN EXCLUSIVE")
        assert survey(repo, cache) == found
    db.close()
    assert survey(repo, tmp_path / "no" / "folder" / "map.db") == found


def test_what_there_is_no_time_for_is_parsed_the_next_time(repo: Path, tmp_path: Path) -> None:
    write(repo, FILES)
    opened, cache = open_repository(repo, base_branch="main"), tmp_path / "map.db"
    first = survey_code(opened, opened.base_sha, cache, seconds=-1)
    assert first.coverage.waiting == first.coverage.wanted > 0
    assert survey_code(opened, opened.base_sha, cache) == survey(repo)


CONTENTS = ("def one(): pass\n", "class Two: pass\n", "function three() {}\n", "", "(" * 50)
PLACES = ("a.py", "b.js", "dir/a.py", "dir/c.ts", "d.txt")
edits = st.lists(
    st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from((*CONTENTS, None))), max_size=4), min_size=1, max_size=5
)


@given(edits)
@settings(max_examples=int(os.environ.get("BLUEFLAME_EXAMPLES", "8")))
def test_a_map_that_followed_every_commit_is_the_one_that_is_made_at_once(
    tmp_path_factory: pytest.TempPathFactory, commits: list[list[tuple[str, str | None]]]
) -> None:
    folder = tmp_path_factory.mktemp("law")
    root, cache = make_repository(folder / "repo"), folder / "map.db"
    last = survey(root, cache)
    for changes in commits:
        for place, text in changes:
            if text is None:
                (root / place).unlink(missing_ok=True)
            else:
                (root / place).parent.mkdir(exist_ok=True)
                (root / place).write_text(text)
        write(root, {})
        last = survey(root, cache)
    assert last == survey(root)
