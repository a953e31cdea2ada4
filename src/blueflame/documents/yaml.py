"""A YAML or JSON text as plain data, with the line of everything in it.

ruamel only composes the nodes here; making the values ourselves keeps the lines, refuses repeated keys and is quicker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

KeyPath = tuple[Hashable, ...]
"""The way to a value: ("tasks", 3, "priority")."""

MAX_LOCATED_CHARS = 500_000  # characters of JSON; beyond that finding the lines takes longer than a person waits


@dataclass(frozen=True, slots=True)
class YamlProblem:
    place: KeyPath
    message: str


@dataclass(frozen=True, slots=True)
class Document:
    data: object
    problems: tuple[YamlProblem, ...]
    lines: Callable[[], Mapping[KeyPath, int]]

    def find_line(self, place: KeyPath) -> int | None:
        """Of the place, or of the nearest thing around it."""
        known = self.lines()
        around = (place[:n] for n in range(len(place), -1, -1))
        return next((known[found] for found in around if found in known), None)


def read_document(text: str, *, only_json: bool = False) -> Document:
    """Never raises for what the text holds: what is wrong is in `problems`, and `data` is None if it is unreadable."""
    looks_like_json = only_json or text.lstrip()[:1] in ("{", "[")
    try:
        return _read_json(text) if looks_like_json else _read_yaml(text)
    except ValueError as error:  # a YAML flow mapping begins like JSON
        also_yaml = None if only_json or len(text) > MAX_LOCATED_CHARS else _read_yaml(text)
        if also_yaml and also_yaml.data is not None:
            return also_yaml
        return _build_unreadable("JSON", str(error), getattr(error, "lineno", None))
    except RecursionError:
        return _build_unreadable("JSON" if looks_like_json else "YAML", "it is nested too deeply", None)


def _build_unreadable(form: str, why: str, line: int | None) -> Document:
    lines: Mapping[KeyPath, int] = {(): line} if line else {}
    return Document(None, (YamlProblem((), f"this is not {form} that can be read: {why}"),), lambda: lines)


def _read_json(text: str) -> Document:
    repeated: set[str] = set()

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            repeated.update(name for name in names if names.count(name) > 1)
        return made

    data = json.loads(text, object_pairs_hook=once, parse_constant=_refuse_constant)
    problems = tuple(YamlProblem((), f"the key {name!r} is given twice in one object") for name in sorted(repeated))
    return Document(data, problems, cache(lambda: {} if len(text) > MAX_LOCATED_CHARS else _read_yaml(text).lines()))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _read_yaml(text: str) -> Document:
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = " ".join(str(part) for part in (error.context, error.problem) if part)
        return _build_unreadable("YAML", why, mark.line + 1 if mark else None)
    except YAMLError as error:
        return _build_unreadable("YAML", " ".join(str(error).split()), None)
    reader = _NodeReader()
    data = None if root is None else reader.read_value(root, ())
    return Document(data, tuple(reader.problems), lambda: reader.lines)


class _NodeReader:
    """One walk over the composed nodes."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[YamlProblem] = []
        self._made: dict[int, object] = {}  # an alias is the same node again: made once, so that none can explode

    def read_value(self, node: Node, place: KeyPath) -> object:
        self.lines[place] = node.start_mark.line + 1
        if id(node) in self._made:
            return self._made[id(node)]
        if isinstance(node, MappingNode):
            return self._read_mapping(node, place)
        if isinstance(node, SequenceNode):
            items: list[object] = []
            self._made[id(node)] = items
            items.extend(self.read_value(child, (*place, n)) for n, child in enumerate(node.value))
            return items
        return self._read_scalar(node, place)

    def _read_mapping(self, node: MappingNode, place: KeyPath) -> object:
        made: dict[str, object] = {}
        self._made[id(node)] = made
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, ScalarNode) else "?"
            at = (*place, key)
            if key in made:
                self.lines[at] = key_node.start_mark.line + 1
                self.problems.append(YamlProblem(at, f"the key {key!r} is given twice"))
            made[key] = self.read_value(value_node, at)
            self.lines[at] = key_node.start_mark.line + 1
        return made

    def _read_scalar(self, node: Node, place: KeyPath) -> object:
        make = SCALARS.get(str(node.tag))
        if make is None:
            self.problems.append(YamlProblem(place, f"the tag {node.tag} is not allowed here"))
            return None
        try:
            return make(node.value)
        except ValueError:
            return str(node.value)  # a number only YAML would call one: taken as the text it is


SCALARS: Mapping[str, Callable[[str], object]] = {
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:null": lambda _: None,
    "tag:yaml.org,2002:bool": lambda text: text.lower() == "true",
    "tag:yaml.org,2002:int": lambda text: int(text, 0) if text[1:2] in "box" else int(text),
    "tag:yaml.org,2002:float": lambda text: float(text.replace(".inf", "inf").replace(".nan", "nan")),
    "tag:yaml.org,2002:timestamp": str,
}
"""YAML 1.2: `yes` and `on` are texts, a date is the text that was written."""
