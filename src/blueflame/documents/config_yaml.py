"""YAML as the person wrote it: plain data, the line of every key, and everything that is wrong with the text itself."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

KeyPath: TypeAlias = tuple[str | int, ...]

TAG = "tag:yaml.org,2002:"
MAX_NODES = 50_000  # aliases of aliases grow without end: nine lines of YAML can mean a billion values
MAX_DEPTH = 60
MAX_BRACKETS = 300  # brackets in quotes count too, so leave room


class TooManyValues(Exception):
    """More values than any configuration has."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    line: int
    path: KeyPath
    text: str


@dataclass(slots=True)
class ConfigDocument:
    """What was read. `lines` has the line of each key and list entry, counted from 1."""

    data: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[ConfigProblem] = field(default_factory=list)
    nodes: int = 0

    def find_line(self, path: KeyPath) -> int:
        """Of the key itself, or of the nearest one above it that is in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def add_problem(self, node: Node, path: KeyPath, text: str) -> None:
        self.problems.append(ConfigProblem(node.start_mark.line + 1, path, text))


def read_config_yaml(text: str) -> ConfigDocument:
    document = ConfigDocument()
    try:
        _check_depth(text)
        node = _compose_nodes(text)
        if node is not None:
            document.data = _read_value(document, node, (), ())
    except MarkedYAMLError as fault:
        document.problems.append(_describe_syntax_error(fault, text))
    except YAMLError as fault:  # a character that YAML does not allow anywhere
        line = text.count("\n", 0, getattr(fault, "position", 0) or 0) + 1
        document.problems.append(
            ConfigProblem(line, (), "the file holds a character that YAML does not allow; take it out")
        )
    except TooManyValues:
        document.problems.append(
            ConfigProblem(1, (), f"its aliases stand for more than {MAX_NODES} values; write fewer")
        )
    except RecursionError:
        document.problems.append(
            ConfigProblem(1, (), "the file is nested too deeply; a configuration needs six levels")
        )
    return document


def _check_depth(text: str) -> None:
    """Before ruamel looks at it: for brackets in brackets it takes time that grows with the square of their number."""
    depth = 0
    for bracket in re.findall(r"[\[{\]}]", text):
        depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
        if depth > MAX_BRACKETS:
            raise RecursionError


def _compose_nodes(text: str) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an anchor that is used twice: YAML allows it, the last one counts
        composed: Node | None = yaml.compose(text)
    return composed


def _describe_syntax_error(fault: MarkedYAMLError, text: str) -> ConfigProblem:
    mark = fault.problem_mark or fault.context_mark
    line = mark.line + 1 if mark is not None else 1
    what = " ".join(part for part in (fault.context, fault.problem) if part)
    return ConfigProblem(line, (), f"this is not YAML: {what}; {_suggest_remedy(what, text, line)}")


def _suggest_remedy(what: str, text: str, line: int) -> str:
    lines = text.splitlines()
    if line <= len(lines) and "\t" in lines[line - 1]:
        return "indent with spaces, not with tabs"
    if "document" in what and "single" in what:
        return "keep one document: take out what follows the second ---"
    if "alias" in what:
        return "define the anchor with & before it is used with *"
    return "look for a missing colon, quote or bracket at or above this line"


def _read_value(document: ConfigDocument, node: Node, path: KeyPath, above: tuple[Node, ...]) -> Any:  # noqa: ANN401 (YAML has any type)
    document.nodes += 1
    if document.nodes > MAX_NODES:
        raise TooManyValues
    if any(node is outer for outer in above) or len(above) > MAX_DEPTH:
        document.add_problem(node, path, "the value holds itself, or is nested too deeply; write it out")
        return None
    if isinstance(node, MappingNode):
        return _read_mapping(document, node, path, (*above, node))
    if isinstance(node, SequenceNode):
        return _read_sequence(document, node, path, (*above, node))
    return _read_scalar(document, node, path)


def _read_sequence(document: ConfigDocument, node: SequenceNode, path: KeyPath, above: tuple[Node, ...]) -> list[Any]:
    for n, item in enumerate(node.value):
        document.lines[(*path, n)] = item.start_mark.line + 1
    return [_read_value(document, item, (*path, n), above) for n, item in enumerate(node.value)]


def _read_mapping(
    document: ConfigDocument, node: MappingNode, path: KeyPath, above: tuple[Node, ...]
) -> dict[str, Any]:
    data: dict[str, Any] = {}
    own: dict[str, int] = {}
    for key_node, value_node in node.value:
        if key_node.tag == f"{TAG}merge":
            continue
        key = _read_key(document, key_node, path)
        if key is None:
            continue
        line = key_node.start_mark.line + 1
        if key in own:
            text = f"the key is there twice (first in line {own[key]}); keep one of the two"
            document.add_problem(key_node, (*path, key), text)
            continue
        own[key] = line
        document.lines[(*path, key)] = line
        data[key] = _read_value(document, value_node, (*path, key), above)
    return data | {key: value for key, value in _read_merged(document, node, path, above) if key not in data}


def _read_merged(
    document: ConfigDocument, node: MappingNode, path: KeyPath, above: tuple[Node, ...]
) -> Iterator[tuple[str, Any]]:
    """What `<<: *anchor` brings in; of several, the first one that has a key gives it."""
    seen: set[str] = {key.value for key, _ in node.value if key.tag != f"{TAG}merge" and isinstance(key, ScalarNode)}
    for source in _iter_merge_sources(document, node, path):
        mapping = MappingNode(
            source.tag, [pair for pair in source.value if pair[0].value not in seen], source.start_mark, source.end_mark
        )
        for key, value in _read_value(document, mapping, path, (*above, source)).items():
            seen.add(key)
            yield key, value


def _iter_merge_sources(document: ConfigDocument, node: MappingNode, path: KeyPath) -> Iterator[MappingNode]:
    for key_node, value_node in node.value:
        if key_node.tag != f"{TAG}merge":
            continue
        for source in value_node.value if isinstance(value_node, SequenceNode) else [value_node]:
            if isinstance(source, MappingNode):
                yield source
            else:
                document.add_problem(source, path, "<< merges mappings only; point it at one, such as <<: *defaults")


def _read_key(document: ConfigDocument, node: Node, path: KeyPath) -> str | None:
    if isinstance(node, ScalarNode) and node.tag == f"{TAG}str":
        return str(node.value)
    shown = repr(node.value) if isinstance(node, ScalarNode) else "a list or a mapping"
    document.add_problem(node, path, f"a key must be text (got {shown}); put it in quotes, or take it out")
    return None


@cache  # making one takes longer than reading a whole file with it
def _get_constructor() -> SafeConstructor:
    constructor: SafeConstructor = YAML(typ="safe", pure=True).constructor
    return constructor


def _read_scalar(document: ConfigDocument, node: Node, path: KeyPath) -> Any:  # noqa: ANN401 (YAML has any type)
    kind = str(node.tag).removeprefix(TAG)
    if kind in ("str", "timestamp"):  # a project may be called 2024-01-01
        return str(node.value)
    if kind not in ("null", "bool", "int", "float"):
        document.add_problem(node, path, f"the tag {node.tag} is not allowed; write a plain value")
        return None
    try:
        return _get_constructor().construct_object(node)
    except (ValueError, OverflowError, TypeError, KeyError):
        document.add_problem(
            node, path, f"is not a value of the kind {kind} (got {str(node.value)[:60]!r}); write another"
        )
        return None
