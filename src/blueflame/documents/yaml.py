"""YAML and JSON: text to plain data with the line of every key, and plain data to text.

The reader lets ruamel compose the nodes and makes the values itself: so it knows the lines, refuses repeated keys and
tags, and is faster. The writer has one fixed style, is far faster than ruamel's and is read back the same.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from blueflame.lazy_dataclass import dataclass

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead to a value: ("tasks", 3, "priority")."""

MAX_LOCATED_CHARS = 500_000  # of JSON: beyond that finding the lines takes too long
MAX_ALIASED_VALUES = 50_000  # aliases of aliases grow without end: nine lines of YAML can mean a billion values
MAX_DEPTH = 60
MAX_BRACKETS = 300  # brackets in quotes count too
TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class YamlProblem:
    path: KeyPath
    text: str
    line: int | None = None  # counted from 1; None: that of the path


@dataclass(frozen=True, slots=True)
class Document:
    """`data` is None if the text is unreadable."""

    data: Any
    problems: tuple[YamlProblem, ...]
    get_lines: Callable[[], Mapping[KeyPath, int]]

    def find_line(self, path: KeyPath) -> int | None:
        """The line of the key or list entry, or of the nearest one around it; counted from 1."""
        known = self.get_lines()
        around = (path[:n] for n in range(len(path), -1, -1))
        return next((known[found] for found in around if found in known), None)


def read_document(text: str, *, only_json: bool = False, any_key: bool = False) -> Document:
    """Never raises: what is wrong with the text is in `problems`. `any_key`: also keys like 1 and true, as text."""
    if not only_json and text.lstrip()[:1] not in ("{", "["):
        return _read_yaml(text, any_key=any_key)
    try:
        return _read_json(text)
    except (ValueError, RecursionError) as error:  # a YAML flow mapping begins like JSON
        also_yaml = None if only_json or len(text) > MAX_LOCATED_CHARS else _read_yaml(text, any_key=any_key)
        if also_yaml and also_yaml.data is not None:
            return also_yaml
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        return _build_unreadable(f"this is not JSON: {why}", getattr(error, "lineno", None))


def find_half_characters(data: Any, path: KeyPath = ()) -> Iterator[YamlProblem]:  # noqa: ANN401 (YAML has any type)
    """In texts; JSON and YAML can write them, no file can hold them."""
    if isinstance(data, str) and SURROGATE.search(data):
        yield YamlProblem(path, f"has half of a character (got {data[:60]!a}); write the whole one, or remove it")
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        yield from find_half_characters(value, (*path, key))


def _build_unreadable(text: str, line: int | None) -> Document:
    lines: Mapping[KeyPath, int] = {(): line} if line else {}
    return Document(None, (YamlProblem((), text, line),), lambda: lines)


def _read_json(text: str) -> Document:
    repeated: set[str] = set()

    def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            repeated.update(name for name in names if names.count(name) > 1)
        return made

    data = json.loads(text, object_pairs_hook=build_object, parse_constant=_refuse_constant)
    problems = tuple(YamlProblem((), f"the key {name!r} is given twice in one object") for name in sorted(repeated))
    return Document(
        data, problems, cache(lambda: {} if len(text) > MAX_LOCATED_CHARS else _read_yaml(text).get_lines())
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _read_yaml(text: str, *, any_key: bool = False) -> Document:
    reader = _NodeReader(max_values=MAX_ALIASED_VALUES + len(text), any_key=any_key)
    try:
        _check_brackets(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor that is defined twice: YAML allows it, the last one counts
            root = YAML(typ="safe", pure=True).compose(text)
        data = None if root is None else reader.read_value(root, (), ())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        why = " ".join(str(part) for part in (error.context, error.problem) if part)
        return _build_unreadable(f"this is not YAML: {why}; {_suggest_remedy(why, text, line)}", line)
    except YAMLError as error:
        line = text.count("\n", 0, getattr(error, "position", 0) or 0) + 1
        return _build_unreadable("this is not YAML: it has a character that YAML does not allow; remove it", line)
    except _TooManyValues:
        return _build_unreadable(f"its aliases stand for more than {MAX_ALIASED_VALUES} values; write fewer", 1)
    except RecursionError:
        return _build_unreadable("the text is nested too deeply; write it flatter", 1)
    return Document(data, tuple(reader.problems), lambda: reader.lines)


def _check_brackets(text: str) -> None:
    """Raises RecursionError before ruamel, whose time grows with the square of the depth."""
    depth, limit = 0, MAX_BRACKETS + len(text) // 1000
    for bracket in re.findall(r"[\[{\]}]", text):
        depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
        if depth > limit:
            raise RecursionError


def _suggest_remedy(why: str, text: str, line: int) -> str:
    lines = text.splitlines()
    if line <= len(lines) and "\t" in lines[line - 1]:
        return "indent with spaces, not with tabs"
    if "document" in why and "single" in why:
        return "keep one document: remove what follows the second ---"
    if "alias" in why:
        return "define the anchor with & before it is used with *"
    return "look for a missing colon, quote or bracket at or above this line"


class _TooManyValues(Exception):
    pass


class _NodeReader:
    """Makes plain data of composed nodes; collects lines and problems."""

    def __init__(self, *, max_values: int, any_key: bool) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[YamlProblem] = []
        self._any_key = any_key
        self._values_left = max_values

    def read_value(self, node: Node, path: KeyPath, above: tuple[Node, ...]) -> Any:  # noqa: ANN401 (YAML has any type)
        self._values_left -= 1
        if self._values_left < 0:
            raise _TooManyValues
        if len(above) > MAX_DEPTH or any(node is outer for outer in above):
            self._report(node, path, "the value holds itself, or is nested too deeply; write it out")
            return None
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, MappingNode):
            return self._read_mapping(node, path, (*above, node))
        if isinstance(node, SequenceNode):
            return [self.read_value(item, (*path, n), (*above, node)) for n, item in enumerate(node.value)]
        return self._read_scalar(node, path)

    def _read_mapping(self, node: MappingNode, path: KeyPath, above: tuple[Node, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{TAG}merge" or (key := self._read_key(key_node, path)) is None:
                continue
            at = (*path, key)
            if key in data:
                self._report(key_node, at, f"the key {key!r} is given twice (first in line {self.lines[at]}); keep one")
                continue
            self.lines[at] = key_node.start_mark.line + 1
            data[key] = self.read_value(value_node, at, above)
        for source in self._iter_merge_sources(node, path):
            new = [pair for pair in source.value if pair[0].value not in data]
            merged = MappingNode(source.tag, new, source.start_mark, source.end_mark)
            data |= self.read_value(merged, path, (*above, source))
        return data

    def _iter_merge_sources(self, node: MappingNode, path: KeyPath) -> Iterator[MappingNode]:
        """What `<<: *anchor` merges; of several, the first one that has a key gives it."""
        for key_node, value_node in node.value:
            if key_node.tag != f"{TAG}merge":
                continue
            for source in value_node.value if isinstance(value_node, SequenceNode) else [value_node]:
                if isinstance(source, MappingNode):
                    yield source
                else:
                    self._report(source, path, "<< merges mappings only; point it at one, such as <<: *defaults")

    def _read_key(self, node: Node, path: KeyPath) -> str | None:
        if isinstance(node, ScalarNode) and (self._any_key or node.tag == f"{TAG}str"):
            return _join_halves(str(node.value))
        shown = repr(node.value) if isinstance(node, ScalarNode) else "a list or a mapping"
        self._report(node, path, f"a key must be text (got {shown}); put it in quotes, or remove it")
        return None

    def _read_scalar(self, node: Node, path: KeyPath) -> Any:  # noqa: ANN401 (YAML has any type)
        make = SCALARS.get(str(node.tag).removeprefix(TAG))
        if make is None:
            self._report(node, path, f"the tag {node.tag} is not allowed; write a plain value")
            return None
        try:
            return make(node.value)
        except ValueError:
            kind = str(node.tag).removeprefix(TAG)
            self._report(node, path, f"is not a value of the kind {kind} (got {node.value[:60]!r}); write another")
            return None

    def _report(self, node: Node, path: KeyPath, text: str) -> None:
        self.problems.append(YamlProblem(path, text, node.start_mark.line + 1))


def _parse_int(text: str) -> int:
    digits = text.replace("_", "")
    return int(digits, 0) if digits.lstrip("+-")[1:2] in ("b", "o", "x") else int(digits)


def _join_halves(text: str) -> str:
    """JSON writes a character beyond U+FFFF as two escapes, and YAML reads each for itself."""
    if text.isascii() or not SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


SURROGATE = re.compile("[\ud800-\udfff]")

SCALARS: Mapping[str, Callable[[str], object]] = {
    "str": _join_halves,
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": _parse_int,
    "float": lambda text: float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")),
    "timestamp": str,
}
"""YAML 1.2: `yes` and `on` are texts, a date is the text that was written."""

# --- writing -------------------------------------------------------------------------------------------------------

YamlValue: TypeAlias = "str | int | float | bool | Sequence[YamlValue] | Mapping[str, YamlValue] | None"

BARE_WORD = re.compile(r"[a-z][a-z_]*(-[a-z0-9]+)*")  # plain words and ids need no quotes
RESERVED_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})

# not taken raw by YAML's reader: control characters, lone surrogates, what it calls a line break or a byte order mark
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
LITERAL_TEXT = re.compile(r"\S[^\n]*(\n([^\n]*\S)?)*")


def format_mapping(fields: Mapping[str, YamlValue], indent: str = "") -> str:
    """Lines `key: value`, each ended."""
    return "".join(f"{indent}{key}:{_format_value(value, indent)}\n" for key, value in fields.items())


def _format_value(value: YamlValue, indent: str) -> str:
    """The value after a key or a dash, with its leading space or line break."""
    if isinstance(value, Mapping):
        return "\n" + format_mapping(value, indent + "  ")[:-1] if value else " {}"
    if isinstance(value, str):
        return " " + (_format_literal(value, indent) or format_scalar(value))
    if isinstance(value, Sequence):
        return "".join("\n" + format_item(entry, indent + "  ")[:-1] for entry in value) or " []"
    return " " + format_scalar(value)


def format_item(value: YamlValue, indent: str) -> str:
    """One entry of a list, ended."""
    if isinstance(value, Mapping) and value:
        inner = format_mapping(value, indent + "  ")
        return f"{indent}- {inner[len(indent) + 2 :]}"
    return f"{indent}-{_format_value(value, indent)}\n"


def format_scalar(value: str | float | bool | None) -> str:
    if isinstance(value, str):
        return value if BARE_WORD.fullmatch(value) and value not in RESERVED_WORDS else quote_text(value)
    return _NUMBERS.get(text := json.dumps(value), text)


_NUMBERS = {"Infinity": ".inf", "-Infinity": "-.inf", "NaN": ".nan"}


def quote_text(text: str) -> str:
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def _format_literal(text: str, indent: str) -> str | None:
    """Plain text of several lines as a literal block; None for text that needs quotes."""
    body = text.removesuffix("\n")
    if (
        "\n" not in text
        or UNPRINTABLE.search(text.replace("\n", ""))
        or not LITERAL_TEXT.fullmatch(body)
        or body[-1] == "\n"
    ):
        return None
    lines = (f"\n{indent}  {line}" if line else "\n" for line in body.split("\n"))
    return ("|" if body != text else "|-") + "".join(lines)
