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

Place = tuple[Hashable, ...]
"""The way to a value: ("tasks", 3, "priority")."""

WORTH_LOCATING = 500_000  # characters of JSON; beyond that finding the lines takes longer than a person waits


@dataclass(frozen=True, slots=True)
class Problem:
    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class Located:
    data: object
    problems: tuple[Problem, ...]
    lines: Callable[[], Mapping[Place, int]]

    def line(self, place: Place) -> int | None:
        """Of the place, or of the nearest thing around it."""
        known = self.lines()
        around = (place[:n] for n in range(len(place), -1, -1))
        return next((known[found] for found in around if found in known), None)


def read_located(text: str, *, only_json: bool = False) -> Located:
    """Never raises for what the text holds: what is wrong is in `problems`, and `data` is None if it is unreadable."""
    looks_like_json = only_json or text.lstrip()[:1] in ("{", "[")
    try:
        return _from_json(text) if looks_like_json else _from_yaml(text)
    except ValueError as error:  # a YAML flow mapping begins like JSON
        also_yaml = None if only_json or len(text) > WORTH_LOCATING else _from_yaml(text)
        if also_yaml and also_yaml.data is not None:
            return also_yaml
        return _unreadable("JSON", str(error), getattr(error, "lineno", None))
    except RecursionError:
        return _unreadable("JSON" if looks_like_json else "YAML", "it is nested too deeply", None)


def _unreadable(form: str, why: str, line: int | None) -> Located:
    lines: Mapping[Place, int] = {(): line} if line else {}
    return Located(None, (Problem((), f"this is not {form} that can be read: {why}"),), lambda: lines)


def _from_json(text: str) -> Located:
    repeated: set[str] = set()

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            repeated.update(name for name in names if names.count(name) > 1)
        return made

    data = json.loads(text, object_pairs_hook=once, parse_constant=_refuse_constant)
    problems = tuple(Problem((), f"the key {name!r} is given twice in one object") for name in sorted(repeated))
    return Located(data, problems, cache(lambda: {} if len(text) > WORTH_LOCATING else _from_yaml(text).lines()))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _from_yaml(text: str) -> Located:
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = " ".join(str(part) for part in (error.context, error.problem) if part)
        return _unreadable("YAML", why, mark.line + 1 if mark else None)
    except YAMLError as error:
        return _unreadable("YAML", " ".join(str(error).split()), None)
    reader = _Nodes()
    data = None if root is None else reader.value(root, ())
    return Located(data, tuple(reader.problems), lambda: reader.lines)


class _Nodes:
    """One walk over the composed nodes."""

    def __init__(self) -> None:
        self.lines: dict[Place, int] = {}
        self.problems: list[Problem] = []
        self._made: dict[int, object] = {}  # an alias is the same node again: made once, so that none can explode

    def value(self, node: Node, place: Place) -> object:
        self.lines[place] = node.start_mark.line + 1
        if id(node) in self._made:
            return self._made[id(node)]
        if isinstance(node, MappingNode):
            return self._mapping(node, place)
        if isinstance(node, SequenceNode):
            items: list[object] = []
            self._made[id(node)] = items
            items.extend(self.value(child, (*place, n)) for n, child in enumerate(node.value))
            return items
        return self._scalar(node, place)

    def _mapping(self, node: MappingNode, place: Place) -> object:
        made: dict[str, object] = {}
        self._made[id(node)] = made
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, ScalarNode) else "?"
            at = (*place, key)
            if key in made:
                self.lines[at] = key_node.start_mark.line + 1
                self.problems.append(Problem(at, f"the key {key!r} is given twice"))
            made[key] = self.value(value_node, at)
            self.lines[at] = key_node.start_mark.line + 1
        return made

    def _scalar(self, node: Node, place: Place) -> object:
        make = SCALARS.get(str(node.tag))
        if make is None:
            self.problems.append(Problem(place, f"the tag {node.tag} is not allowed here"))
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
