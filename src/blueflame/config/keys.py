"""Every key of blueflame.yaml, read from the models: for hints, the reference and the example's test."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from blueflame.lazy_dataclass import dataclass
from blueflame.model.settings import Settings
from blueflame.model.settings.fields import DURATION_SERIALIZER, Duration, DurationOrOff, Section, format_duration

MAPPING_KEYS = {
    "roles": "<role>",
    "runtimes": "<runtime>",
    "workflows": "<workflow>",
    "env": "<VARIABLE>",
    "validator_models": "<group>",
    "prices": "<model>",
    "domains": "<domain>",
    "notifications": "<name>",
    "repositories": "<repository>",
    "people": "<person>",
    "gates": "<kind>",
    "chats": "<number>",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    path: tuple[str, ...]
    kind: str
    default: Any
    required: bool
    description: str
    section: bool

    @property
    def dotted(self) -> str:
        return ".".join(self.path)


@cache
def add_descriptions(model: type[BaseModel] = Section) -> None:
    """Make the text below each field its description. pydantic would parse the sources at every start."""
    for name, text in _read_attribute_docs(model):
        model.model_fields[name].description = text
    for section in model.__subclasses__():
        add_descriptions(section)
    model.model_rebuild(force=True)


def _read_attribute_docs(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    for field, below in pairwise(definition.body if isinstance(definition, ast.ClassDef) else ()):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


def iter_keys(model: type[BaseModel] = Settings, path: tuple[str, ...] = ()) -> Iterator[ConfigKey]:
    add_descriptions()
    add_descriptions(model)  # of a file whose models were imported later
    for name, info in model.model_fields.items():
        inner = find_section(info.annotation)
        yield _build_key((*path, name), info, section=inner is not None)
        if inner is not None:
            repeated = (MAPPING_KEYS[name],) if _is_mapping(info.annotation) else ()
            yield from iter_keys(inner, (*path, name, *repeated))


def find_section(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 (an annotation can be anything)
    """The model of a section, or of each entry of a mapping of sections."""
    if _is_model(annotation):
        return annotation  # type: ignore[no-any-return] # _is_model has just made sure
    if get_origin(annotation) is Annotated:
        return find_section(get_args(annotation)[0])
    if get_origin(annotation) is types.UnionType and len(get_args(annotation)) == 2:  # a section that may be left out
        return next((each for each in get_args(annotation) if _is_model(each)), None)
    inner = get_args(annotation)[1] if _is_mapping(annotation) else None
    return inner if _is_model(inner) else None


def find_listed_section(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 (an annotation can be anything)
    """The model of each entry of a list of sections."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return next((found for arg in args if (found := find_listed_section(arg)) is not None), None)
    return args[0] if origin is tuple and _is_model(args[0]) else None


def list_siblings(path: tuple[str | int, ...], within: type[BaseModel] = Settings) -> tuple[str, ...]:
    """The keys that are allowed beside this one."""
    model: type[BaseModel] | None = within
    parts = [str(part) for part in path[:-1]]
    while parts and model is not None:
        info = model.model_fields.get(parts.pop(0))
        listed = find_listed_section(info.annotation) if info is not None else None
        model = (find_section(info.annotation) or listed) if info is not None else None
        if info is not None and parts and (_is_mapping(info.annotation) or listed):
            parts.pop(0)
    return tuple(model.model_fields) if model is not None else ()


def find_key_elsewhere(name: str, model: type[BaseModel] = Settings) -> tuple[str, ...]:
    """The places that have a key of this name."""
    return tuple(key.dotted for key in iter_keys(model) if key.path[-1] == name)


def _build_key(path: tuple[str, ...], info: FieldInfo, *, section: bool) -> ConfigKey:
    return ConfigKey(
        path=path,
        kind="section" if section else describe_kind(info),
        default=_read_default(info),
        required=info.is_required(),
        description=info.description or "",
        section=section,
    )


def _read_default(info: FieldInfo) -> Any:  # noqa: ANN401 (a default can be anything)
    default = info.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined:
        return None
    return format_duration(default) if default is not None and _is_duration(info) else default


def describe_kind(info: FieldInfo) -> str:
    if _is_duration(info):
        return "duration"
    bounds = [f"{sign} {getattr(each, name)}" for each in info.metadata for name, sign in BOUNDS if hasattr(each, name)]
    return _describe_annotation(info.annotation) + (f" ({', '.join(bounds)})" if bounds else "")


BOUNDS = (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<"))
KIND_WORDS = {str: "text", bool: "true or false", int: "whole number", float: "number"}


def _describe_annotation(annotation: Any) -> str:  # noqa: ANN401 (an annotation can be anything)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return "duration" if annotation in (Duration, DurationOrOff) else _describe_annotation(args[0])
    if origin is Literal:
        return " or ".join(str(arg) for arg in args)
    if origin in (Union, types.UnionType):
        return " or ".join(_describe_annotation(arg) for arg in args if arg is not type(None)) + ", may be left out"
    if origin is tuple:
        return f"list of {_describe_annotation(args[0])}"
    if _is_mapping(annotation):
        return f"mapping of {_describe_annotation(args[0])} to {_describe_annotation(args[1])}"
    if _is_model(annotation):
        return f"{{{', '.join(f'{name}: …' for name in annotation.model_fields)}}}"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return " or ".join(annotation)
    return KIND_WORDS.get(annotation, str(annotation))


def _is_duration(info: FieldInfo) -> bool:
    kinds = (info.annotation, *get_args(info.annotation))
    return DURATION_SERIALIZER in info.metadata or any(kind in (Duration, DurationOrOff) for kind in kinds)


def _is_model(annotation: Any) -> bool:  # noqa: ANN401 (an annotation can be anything)
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_mapping(annotation: Any) -> bool:  # noqa: ANN401 (an annotation can be anything)
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_mapping(get_args(annotation)[0])
    return isinstance(origin, type) and issubclass(origin, Mapping)
