"""Git processes that stay: their answers are those of the repository as it is now, whatever happened in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from blueflame.git import batch
from blueflame.git.batch import MAX_ASKED, MAX_IDLE, change_refs, close_idle, find_objects, find_ref, read_objects
from blueflame.git.repository import Repository, open_repository
from blueflame.model.errors import GitFailed, ProcessFailed
from blueflame.system import piped_process
from support.command_line import until

Git = Callable[..., str]
REF = "refs/blueflame/attempts/ses-20260101-000000/task-001/1"


@pytest.fixture(autouse=True)
def _no_process_stays() -> Iterator[None]:
    close_idle()
    yield
    close_idle()
    assert not [child for child in psutil.Process().children() if child.name() == "git"]


@pytest.fixture
def ours(repo: Path) -> Repository:
    return open_repository(repo, base_branch="main")


def write(git: Git, ours: Repository, text: str) -> str:
    (ours.root / "piece").write_text(text)
    return git(ours.root, "hash-object", "-w", "piece").strip()


def commit(git: Git, ours: Repository, text: str) -> str:
    git(ours.root, "commit", "-q", "--allow-empty", "-m", text)
    return git(ours.root, "rev-parse", "HEAD").strip()


def list_idle() -> list[int]:
    return [process.pid for _, process in batch._idle]


def test_objects_are_described_and_read_by_one_process(ours: Repository, git: Git) -> None:
    blob = write(git, ours, "слово\nwithout end")
    tree = git(ours.root, "rev-parse", "HEAD^{tree}").strip()
    found = find_objects(ours, [blob, f"{ours.base_sha}^{{tree}}", "0" * 40, ours.base_sha])
    assert [each and (each.sha, each.kind) for each in found] == [
        *((blob, "blob"), (tree, "tree"), None, (ours.base_sha, "commit"))
    ]
    (process,) = list_idle()
    assert read_objects(ours, [blob]) == {blob: "слово\nwithout end".encode()}
    assert list_idle() == [process]


def test_what_the_person_adds_packs_and_prunes_meanwhile_is_seen(ours: Repository, git: Git) -> None:
    assert find_objects(ours, ["1" * 40]) == [None]
    loose = write(git, ours, "later\n")
    packed = commit(git, ours, "later")
    assert read_objects(ours, [loose]) == {loose: b"later\n"}
    git(ours.root, "gc", "-q", "--prune=now")
    assert [each is not None for each in find_objects(ours, [packed, loose])] == [True, False]
    again = commit(git, ours, "again")
    git(ours.root, "repack", "-q", "-a", "-d")
    assert None not in find_objects(ours, [again, packed])
    assert len(list_idle()) == 1


def test_a_ref_is_read_as_it_is_now(ours: Repository, git: Git) -> None:
    assert find_ref(ours, REF) is None
    for text in ("one", "two"):
        tip = commit(git, ours, text)
        git(ours.root, "update-ref", REF, tip)
        assert find_ref(ours, REF) == tip
        git(ours.root, "pack-refs", "--all")
        assert find_ref(ours, REF) == tip
    git(ours.root, "update-ref", "-d", REF)
    assert find_ref(ours, REF) is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_was_killed_or_stopped_is_replaced(
    ours: Repository, git: Git, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(piped_process, "MAX_STOPPED_SECONDS", 0.02)
    monkeypatch.setattr(piped_process, "END_SECONDS", 0.02)
    find_objects(ours, [ours.base_sha])
    change_refs(ours, [f"update {REF}\0{ours.base_sha}\0\0"])
    for pid in list_idle():
        os.kill(pid, number)
    assert find_objects(ours, [ours.base_sha]) != [None]
    tip = commit(git, ours, "next")
    change_refs(ours, [f"update {REF}\0{tip}\0\0"])
    assert git(ours.root, "rev-parse", REF).strip() == tip


def test_a_missing_object_is_an_error_and_the_next_question_is_answered(ours: Repository) -> None:
    with pytest.raises(GitFailed, match=f"did not return the content of {'2' * 40}"):
        read_objects(ours, [ours.base_sha, "2" * 40, ours.base_sha])
    assert set(read_objects(ours, [ours.base_sha])) == {ours.base_sha}


def test_more_names_than_fit_into_one_request(ours: Repository) -> None:
    names = [ours.base_sha, "3" * 40] * MAX_ASKED
    found = find_objects(ours, names)
    assert [each is not None for each in found] == [True, False] * MAX_ASKED


def test_threads_that_ask_at_once_get_their_own_answers(ours: Repository, git: Git) -> None:
    texts = [f"{n}\n" * (1000 * n) for n in range(12)]
    shas = [write(git, ours, text) for text in texts]
    with ThreadPoolExecutor(12) as pool:
        read = list(pool.map(lambda sha: read_objects(ours, [sha])[sha].decode(), shas * 5))
    assert read == texts * 5
    assert len(list_idle()) <= MAX_IDLE


def test_changed_settings_and_stores_are_read(ours: Repository, git: Git, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", "other")
    (other / "elsewhere").write_text("elsewhere\n")
    blob = git(other, "hash-object", "-w", "elsewhere").strip()
    assert find_objects(ours, [blob]) == [None]
    (ours.objects / "info" / "alternates").write_text(f"{other}/.git/objects\n")
    assert read_objects(ours, [blob]) == {blob: b"elsewhere\n"}


def test_a_repository_that_was_replaced_is_another_one(ours: Repository, git: Git) -> None:
    blob = write(git, ours, "only in the first\n")
    assert find_objects(ours, [blob]) != [None]
    (ours.root / ".git").rename(ours.root / "old.git")
    git(ours.root, "init", "-q")
    assert find_objects(ours, [blob]) == [None]
    (ours.root / ".git").rename(ours.root / "older.git")
    with pytest.raises(ProcessFailed, match="does not exist"):
        find_objects(ours, [blob])


def test_refs_change_together_or_not_at_all_and_without_a_lock_in_between(ours: Repository, git: Git) -> None:
    change_refs(ours, [f"update {REF}\0{ours.base_sha}\0\0", f"update {REF}1\0{ours.base_sha}\0\0"])
    with pytest.raises(GitFailed, match="4444444"):
        change_refs(ours, [f"delete {REF}\0\0", f"update {REF}2\0{'4' * 40}\0\0"])
    assert (find_ref(ours, REF), find_ref(ours, f"{REF}1"), find_ref(ours, f"{REF}2")) == (ours.base_sha,) * 2 + (None,)
    change_refs(ours, [f"delete {REF}\0\0", f"delete {REF}3\0\0"])
    assert find_ref(ours, REF) is None
    assert not list(ours.common_dir.rglob("*.lock"))
    git(ours.root, "update-ref", f"{REF}1", commit(git, ours, "of the person"))


def test_a_forked_child_asks_a_process_of_its_own(ours: Repository) -> None:
    find_objects(ours, [ours.base_sha])
    child = os.fork()
    if child == 0:
        found = not list_idle() and find_objects(ours, [ours.base_sha]) != [None]
        os._exit(0 if found else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert find_objects(ours, [ours.base_sha]) != [None]


def test_a_killed_orchestrator_leaves_no_process(ours: Repository) -> None:
    code = (
        "import sys, time; from pathlib import Path; from blueflame.git import batch, repository\n"
        "repo = repository.open_repository(Path(sys.argv[1]), base_branch='main')\n"
        "batch.find_objects(repo, [repo.base_sha]); batch.change_refs(repo, ['delete refs/blueflame/x\\0\\0'])\n"
        "print(*(git.pid for _, git in batch._idle), flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(ours.root)], stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout is not None
        pids = [int(word) for word in asker.stdout.readline().split()]
        asker.kill()
    assert len(pids) == 2
    until(lambda: not any(psutil.pid_exists(pid) for pid in pids))
