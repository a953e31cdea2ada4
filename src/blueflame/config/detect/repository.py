"""Surveys a repository's tracked files: languages, layout, commands, base branch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from blueflame.config.detect.commands import Commands, ProjectCommands, choose_likeliest
from blueflame.config.detect.project_files import ProjectFiles, is_on_path
from blueflame.config.detect.projects import detect_projects
from blueflame.config.locate import CONFIG_NAME
from blueflame.git.command import run_git, split_nul, try_git
from blueflame.git.repository import SUBMODULE_MODE
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import Refused
from blueflame.paths.dependency_files import is_dependency_file, is_lock_file
from blueflame.paths.file_kinds import (
    LANGUAGE_OF,
    THIRD_PARTY_FOLDERS,
    is_secret_file,
    is_test_file,
)

SCRIPT_MODE = "100755"
DOCUMENTS = frozenset({".md", ".rst", ".adoc"})
FRAGMENTS = re.compile(r"(changelogs?|changes|newsfragments|news|release-?notes|unreleased)(\.d)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    repo: Path  # the top of the work tree
    name: str
    base_branch: str
    languages: tuple[str, ...]  # most files first
    folders: tuple[str, ...]  # top-level folders that hold work
    other_folders: tuple[str, ...]  # top-level folders that hold none that we recognise
    root_suffixes: tuple[str, ...]  # of the files beside them
    root_names: tuple[str, ...]  # of scripts beside them that have no suffix; of all such files without sources
    sources: tuple[str, ...]  # every source file
    test_files: tuple[str, ...]
    manifests: tuple[str, ...]  # names of files that list dependencies, lock files included
    secret_files: tuple[str, ...]
    projects: tuple[ProjectCommands, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def commands(self) -> Commands:
        return choose_likeliest(self.projects)


def survey_repository(start: Path, is_installed: Callable[[str], bool] = is_on_path) -> Survey:
    repo = find_repository_root(start)
    modes = read_tracked_modes(repo)
    files = tuple(sorted(modes))
    scripts = frozenset(file for file, mode in modes.items() if mode == SCRIPT_MODE and not PurePosixPath(file).suffix)
    own = tuple(file for file in files if not _is_foreign(file)) or tuple(
        file for file in files if not _is_hidden(file)
    )
    sources = tuple(file for file in own if _find_language(file) and not PurePosixPath(file).name.startswith("."))
    folders = _list_folders(tuple(file for file in own if _is_work(file) or file in scripts) if sources else own)
    return Survey(
        repo=repo,
        name=_choose_name(repo),
        base_branch=find_base_branch(repo),
        languages=_rank_languages(sources),
        folders=folders,
        other_folders=tuple(folder for folder in _list_folders(own) if folder not in folders),
        root_suffixes=tuple(sorted({*_list_root_suffixes(sources or own), *_list_document_suffixes(own)})),
        root_names=tuple(
            file
            for file in own
            if "/" not in file and not PurePosixPath(file).suffix and (file in scripts or not sources)
        ),
        sources=sources,
        test_files=tuple(file for file in sources if is_test_file(file)),
        manifests=_list_manifests(files),
        secret_files=tuple(file for file in files if is_secret_file(file)),
        projects=detect_projects(
            ProjectFiles(
                root=repo,
                files=tuple(file for file in files if not _is_third_party(file)),
                is_installed=is_installed,
            )
        ),
        notes=_build_notes(repo, modes, sources),
    )


def find_repository_root(start: Path) -> Path:
    """The top of the work tree that `start` is in."""
    if not start.is_dir():
        raise Refused(f"{start} is not a folder; run this in a git repository")
    done = try_git(start, "rev-parse", "--show-toplevel")
    if done.code == 0 and done.out.strip("\n"):
        return Path(done.out.removesuffix("\n"))
    if try_git(start, "rev-parse", "--is-bare-repository").out.strip() == "true":
        raise Refused(f"{start} is a bare repository, without files; run this in a clone of it")
    raise Refused(f"{start} is not in a git repository; run `git init` there first")


def read_tracked_modes(repo: Path) -> dict[str, str]:
    """The tracked files, each with its mode as git writes it."""
    staged = split_nul(run_git(repo, "ls-files", "--stage", "-z"))
    return {line.partition("\t")[2]: line[:6] for line in staged}


def find_base_branch(repo: Path) -> str:
    """The remote's main branch, git's default name, main, master, or the current branch."""
    remote = (
        try_git(repo, "symbolic-ref", "--short", "-q", "refs/remotes/origin/HEAD").out.strip().removeprefix("origin/")
    )
    configured = try_git(repo, "config", "--get", "init.defaultBranch").out.strip()
    current = try_git(repo, "symbolic-ref", "--short", "-q", "HEAD").out.strip()
    for branch in (remote, configured, "main", "master", current):
        if branch and try_git(repo, "rev-parse", "-q", "--verify", f"refs/heads/{branch}^{{commit}}").code == 0:
            return branch
    return current or "main"


def _build_notes(repo: Path, modes: Mapping[str, str], sources: tuple[str, ...]) -> tuple[str, ...]:
    notes = []
    if try_git(repo, "rev-parse", "-q", "--verify", "HEAD^{commit}").code:
        notes.append("the repository has no commit yet: make one, then `blueflame init --force` tries its checks")
    if not modes:
        notes.append("no files are tracked yet: the paths are guesses, check permissions.allowed_paths")
    elif not sources:
        notes.append("no language was recognised: check permissions.allowed_paths and the diagnostic commands")
    if submodules := sorted(file for file, mode in modes.items() if mode == SUBMODULE_MODE):
        notes.append(f"submodules are left empty in agents' checkouts: {', '.join(submodules)}")
    if try_git(repo, "check-ignore", "-q", "--", CONFIG_NAME).code == 0:
        notes.append(f"git ignores {CONFIG_NAME} here: `git add --force {CONFIG_NAME}` shares it, and it works without")
    return tuple(notes)


def _choose_name(repo: Path) -> str:
    plain = "".join(letter for letter in repo.name if letter.isprintable()).strip()
    return plain or "project"


def _find_language(file: str) -> str | None:
    return LANGUAGE_OF.get(PurePosixPath(file).suffix.lower())


def _rank_languages(sources: tuple[str, ...]) -> tuple[str, ...]:
    counted = Counter(language for file in sources if (language := _find_language(file)))
    return tuple(sorted(counted, key=lambda language: (-counted[language], language)))


def _is_work(file: str) -> bool:
    """Source, a test, or a fragment of the change log, which many projects want with every change."""
    is_fragment = FRAGMENTS.fullmatch(file.partition("/")[0]) is not None
    return _find_language(file) is not None or is_test_file(file) or is_fragment


def _is_foreign(file: str) -> bool:
    """Hidden, vendored, built, a lock file or a secret."""
    return _is_hidden(file) or _is_third_party(file) or is_lock_file(file) or is_secret_file(file)


def _is_third_party(file: str) -> bool:
    return not THIRD_PARTY_FOLDERS.isdisjoint(PurePosixPath(file).parts[:-1])


def _list_manifests(files: tuple[str, ...]) -> tuple[str, ...]:
    own = (file for file in files if not _is_hidden(file) and THIRD_PARTY_FOLDERS.isdisjoint(file.split("/")))
    return tuple(sorted({PurePosixPath(file).name for file in own if is_dependency_file(file)}))


def _is_hidden(file: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(file).parts[:-1])


def _list_folders(files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({file.split("/", 1)[0] for file in files if "/" in file}))


def _list_document_suffixes(files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(suffix for suffix in _list_root_suffixes(files) if suffix in DOCUMENTS)


def _list_root_suffixes(files: tuple[str, ...]) -> tuple[str, ...]:
    names = [PurePosixPath(file) for file in files if "/" not in file]
    return tuple(sorted({name.suffix for name in names if name.suffix and not name.name.startswith(".")}))
