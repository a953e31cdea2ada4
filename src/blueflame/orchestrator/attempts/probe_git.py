"""Find out whether git can read a commit of ours: if not, no agent is to blame for a result that it cannot read."""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from contextlib import suppress
from pathlib import Path

from blueflame.git.checkouts import get_fetch_path
from blueflame.git.command import FALLBACK_EMAIL, FALLBACK_NAME
from blueflame.git.merge import find_tree
from blueflame.git.rebase import reword_commits
from blueflame.git.repository import PROBE_SUFFIX, Repository, is_usable, list_subjects
from blueflame.git.results import collect_result, delete_refs, list_changes, list_step_changes
from blueflame.model.errors import WorldError

BRANCH = "probe"
SOME_TIME = 1_700_000_000  # git refuses a date of few digits


def can_collect(repo: Repository, checkout: Path, *, base: str, ref: str) -> bool:
    """Whether a commit on `base` that changes nothing can be collected and reworded, from beside the agent's checkout.

    Git then fails for its own reasons: a wrapper, a setting of one command, an installation that is being replaced.
    """
    place, probe = get_fetch_path(checkout), f"{ref}{PROBE_SUFFIX}"
    if not is_usable(repo, ref=ref):
        return False
    try:
        tip = _write_commit(repo, place / BRANCH, base)
        delete_refs(repo, (probe,))  # one that is there would be taken as it is
        collect_result(repo, place / BRANCH, branch=BRANCH, base=base, ref=probe)
        list_changes(repo, base, tip)
        list_step_changes(repo, base, tip)
        list_subjects(repo, tip, 1)
        reword_commits(repo, base, tip, lambda message: f"{message.strip()}.")
    except (WorldError, OSError):
        return False
    finally:
        shutil.rmtree(place, ignore_errors=True)
        with suppress(WorldError):
            delete_refs(repo, (probe,))
    return True


def _write_commit(repo: Repository, checkout: Path, base: str) -> str:
    """Write what of a checkout is read: a branch and its commit. A new one each time, since answers are remembered."""
    person = f"{FALLBACK_NAME} <{FALLBACK_EMAIL}> {SOME_TIME} +0000"
    heads = f"tree {find_tree(repo, base)}\nparent {base}\nauthor {person}\ncommitter {person}"
    text = f"{heads}\n\n{os.urandom(8).hex()}\n"
    data = f"commit {len(text)}\0{text}".encode()
    sha = hashlib.new("sha1" if len(base) == 40 else "sha256", data, usedforsecurity=False).hexdigest()
    inside = checkout / ".git"
    contents = {
        f"objects/{sha[:2]}/{sha[2:]}": zlib.compress(data),
        "objects/info/alternates": f"{repo.objects}\n".encode("utf-8", "surrogateescape"),
        f"refs/heads/{BRANCH}": f"{sha}\n".encode(),
    }
    for name, content in contents.items():
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_bytes(content)
    return sha
