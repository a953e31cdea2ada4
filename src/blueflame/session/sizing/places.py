"""Where in the code base a request leads: the files, folders and symbols that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from blueflame.lazy_dataclass import dataclass
from blueflame.model.sizing import CodeMap
from blueflame.session.sizing.wording import WELL_KNOWN_FILES, Wording

_CONTAINERS = (
    "src source sources lib libs packages apps crates services modules plugins internal pkg cmd projects components "
    "main java kotlin python app"
)
CONTAINERS = frozenset(_CONTAINERS.split())
"""Folders that say nothing about the subject of what is in them."""

DOCUMENTS = (".md", ".rst", ".txt", ".adoc")
MAX_SYMBOL_FILES = 3  # a name in more files than these is used, not only defined, there


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    files: tuple[str, ...] = ()  # named, or the only ones with a named symbol
    folders: tuple[str, ...] = ()
    in_folders: int = 0  # files in these folders
    symbols: tuple[str, ...] = ()  # found in the code base
    spread: int = 0  # files with the named symbols
    areas: tuple[str, ...] = ()  # the parts of the code base that all of this belongs to
    subjects: tuple[str, ...] = ()  # parts of the code base whose names are words of the request

    @property
    def is_known(self) -> bool:
        return bool(self.files or self.folders or self.symbols)


def find_places(wording: Wording, code: CodeMap, symbol_files: Mapping[str, Sequence[str]]) -> Places:
    """`symbol_files`: for each named symbol the files that contain it."""
    named, folders = _resolve_paths(wording, code.files)
    paths = {*wording.paths, *named}
    found = {name: tuple(files) for name, files in symbol_files.items() if files and name not in paths}
    defined = [file for name, files in found.items() for file in _find_definitions(name, files, code)]
    files = tuple(dict.fromkeys((*named, *([] if named else _skip_tests(defined, code)))))
    inside = [path for path in code.files if any(path.startswith(f"{folder}/") for folder in folders)]
    areas = AreaFinder(code.files)
    used = {file for each in found.values() for file in each}
    places = [*(_skip_accompanying(files, code) or files), *(f"{folder}/" for folder in folders)]
    return Places(
        files=files,
        folders=folders,
        in_folders=len(inside),
        symbols=tuple(found),
        spread=len(used),
        areas=tuple(sorted({areas.find(place) for place in places})),
        subjects=_find_subjects(wording, code, areas),
    )


def _find_definitions(name: str, files: Sequence[str], code: CodeMap) -> Sequence[str]:
    """The files that define a symbol, by the map; else those that have the word, if these are few."""
    for those in (code.defined.get(name, ()), files):
        if those and len(_skip_tests(those, code)) <= MAX_SYMBOL_FILES:
            return those
    return ()


def _find_subjects(wording: Wording, code: CodeMap, areas: AreaFinder) -> tuple[str, ...]:
    words = wording.vocabulary
    near = (path for path in code.files if not words.isdisjoint(path.casefold().split("/")[:-1]))
    found = {areas.find(path) for path in _skip_accompanying(near, code)}
    return tuple(sorted(area for area in found if area.rpartition("/")[2].casefold() in words))


def _skip_tests(files: Iterable[str], code: CodeMap) -> tuple[str, ...]:
    return tuple(dict.fromkeys(file for file in files if file not in code.tests))


def _skip_accompanying(files: Iterable[str], code: CodeMap) -> tuple[str, ...]:
    """Tests and documents go with a change; they do not make it larger."""
    return tuple(file for file in _skip_tests(files, code) if not file.casefold().endswith(DOCUMENTS))


def _resolve_paths(wording: Wording, files: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files and folders that were named; a path with an extension that does not exist is a new file."""
    known, by_name = set(files), _group_by_name(files)
    folders = _list_folders(files)
    named, parts = dict[str, None](), dict[str, None]()
    for path in wording.paths:
        bare = path.rstrip("/")
        if found := _find_file(path, known, by_name):
            named[found] = None
        elif folder := _find_folder(bare, folders):
            parts[folder] = None
        elif "." in bare.rpartition("/")[2][1:]:
            named[bare] = None
    for word in wording.parts:
        if word not in wording.paths and (folder := _find_folder(word.rstrip("/"), folders)):
            parts[folder] = None
        elif modules := by_name.get(f"{word.casefold()}."):
            named[modules[0]] = None
    return tuple(named), tuple(parts)


def _group_by_name(files: Sequence[str]) -> Mapping[str, list[str]]:
    """Files by their name, and by their name without its ending and with a dot; those near the root first."""
    found: dict[str, list[str]] = {}
    for path in sorted(files, key=lambda path: (path.count("/"), path)):
        name = path.rpartition("/")[2].casefold()
        found.setdefault(name, []).append(path)
        found.setdefault(f"{name.partition('.')[0]}.", []).append(path)
    return found


def _find_file(path: str, known: set[str], by_name: Mapping[str, list[str]]) -> str:
    if path in known:
        return path
    name = path.rpartition("/")[2].casefold()
    found = by_name.get(name, [])
    if name in WELL_KNOWN_FILES:
        found = found or by_name.get(f"{name}.", [])
    return next((each for each in found if each.casefold().endswith(path.casefold()) or name in WELL_KNOWN_FILES), "")


def _list_folders(files: Iterable[str]) -> tuple[str, ...]:
    found = dict[str, None]()
    for path in files:
        while path := path.rpartition("/")[0]:
            found[path] = None
    return tuple(sorted(found, key=lambda path: (path.count("/"), path)))


def _find_folder(name: str, folders: Sequence[str]) -> str:
    return next((folder for folder in folders if folder == name or folder.endswith(f"/{name}")), "")


class AreaFinder:
    """Finds the part of the code base that a path belongs to: its first folder with a subject, else its folder."""

    def __init__(self, files: Iterable[str]) -> None:
        self._inside: dict[str, set[str]] = {}  # folder -> what is in it
        for file in files:
            path, above = file, file.rpartition("/")[0]
            while path and path not in self._inside.setdefault(above, set()):
                self._inside[above].add(path)
                path, above = above, above.rpartition("/")[0]

    def find(self, path: str) -> str:
        folders = path.split("/")[:-1]
        for depth in range(1, len(folders) + 1):
            if folders[depth - 1] not in CONTAINERS and not self._is_only_package("/".join(folders[:depth])):
                return "/".join(folders[:depth])
        return "/".join(folders) or "."

    def _is_only_package(self, folder: str) -> bool:
        """Whether it is alone in a container and has folders itself, like src/<the package>."""
        above = folder.rpartition("/")[0]
        if above.rpartition("/")[2] not in CONTAINERS or len(self._inside.get(above, ())) != 1:
            return False
        return any(each in self._inside for each in self._inside.get(folder, ()))
