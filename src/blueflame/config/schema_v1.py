"""Lifts schema 1 to schema 2 on plain data; a problem still finds the line of the old key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from blueflame.documents.yaml import Document, KeyPath, YamlProblem
from blueflame.lazy_dataclass import dataclass
from blueflame.model.settings import Settings
from blueflame.model.suggestions import suggest

V1_ROLES = ("planner", "worker", "validator", "merger")
V1_KEYS = frozenset(
    {
        "schema_version",
        "project",
        "concurrency",
        "limits",
        "sandbox",
        "planning",
        "models",
        "permissions",
        "validation",
        "superpowers",
        "beads",
        "hooks",
    }
)


def _list_moves() -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    for role in V1_ROLES:
        yield ("models", role), ("roles", role, "model")
        yield ("limits", "token_budget", f"{role}_usd"), ("roles", role, "budget_usd")
        yield ("limits", "token_budget", f"{role}_tokens"), ("roles", role, "budget_tokens")
        yield ("limits", "token_budget", role), ("roles", role, "budget_tokens")  # the oldest form, before units
    yield ("limits", "token_budget", "warn_threshold"), ("limits", "warn_threshold")


MOVES = tuple(_list_moves())
"""Old path -> new path. All other keys of schema 1 are unchanged."""

OLD_SECTIONS: tuple[tuple[str, ...], ...] = (("models",), ("limits", "token_budget"))


@dataclass(slots=True)
class LiftedConfig:
    data: dict[str, Any]
    origins: dict[KeyPath, KeyPath] = field(default_factory=dict)  # new path -> path in the file
    problems: list[YamlProblem] = field(default_factory=list)

    def find_origin(self, path: KeyPath) -> KeyPath:
        for cut in range(len(path), 0, -1):
            if path[:cut] in self.origins:
                return (*self.origins[path[:cut]], *path[cut:])
        return path


def lift_config(document: Document, data: dict[str, Any], *, version: int) -> LiftedConfig:
    """Move values from old paths to new ones, in a copy of the data."""
    lifted = LiftedConfig(_copy_data(data))
    _report_unknown_keys(lifted, data, version=version)
    for old, new in MOVES:
        if _has_path(data, old):
            _move_value(document, lifted, data, old, new)
    for section in OLD_SECTIONS:
        _remove_path(lifted.data, section)
    lifted.data["schema_version"] = 2
    return lifted


def find_old_sections(data: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    """The sections of schema 1 that schema 2 has elsewhere and that are in the file."""
    return tuple(section for section in OLD_SECTIONS if _has_path(data, section))


def _move_value(
    document: Document, lifted: LiftedConfig, data: dict[str, Any], old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    if new in lifted.origins or _has_path(data, new):
        other = ".".join(str(part) for part in lifted.origins.get(new, new))
        text = f"the same is also set by {other} (line {document.find_line(lifted.origins.get(new, new))}); keep one"
        lifted.problems.append(YamlProblem(old, text))
        return
    if _set_value(lifted.data, new, _get_value(data, old)):
        lifted.origins[new] = old


def _report_unknown_keys(lifted: LiftedConfig, data: dict[str, Any], *, version: int) -> None:
    for section in OLD_SECTIONS:
        if not _has_path(data, section):
            continue
        content = _get_value(data, section)
        known = [old[-1] for old, _ in MOVES if old[:-1] == section]
        for path, text in _find_unknown_keys(section, content, known):
            lifted.problems.append(YamlProblem(path, text))
    if version < 2:
        for key in sorted(data.keys() - V1_KEYS):
            if key in Settings.model_fields:
                text = "belongs to schema 2; write schema_version: 2, or run `blueflame config migrate --write`"
                lifted.problems.append(YamlProblem((key,), text))
                lifted.data.pop(key)


def _find_unknown_keys(section: tuple[str, ...], content: object, known: list[str]) -> Iterator[tuple[KeyPath, str]]:
    if content is None:
        return
    if not isinstance(content, dict):
        yield section, f"must be a mapping of keys; write it with {', '.join(known[:3])}, ..."
        return
    for key in content:
        if key not in known:
            hint = suggest(key, known) or f"the keys here are {', '.join(known)}"
            yield (*section, key), f"unknown key; {hint}"


def _copy_data(data: Any) -> Any:  # noqa: ANN401 (YAML has any type)
    if isinstance(data, dict):
        return {key: _copy_data(value) for key, value in data.items()}
    return [_copy_data(value) for value in data] if isinstance(data, list) else data


def _has_path(data: Any, path: KeyPath) -> bool:  # noqa: ANN401 (YAML has any type)
    for key in path:
        if not isinstance(data, dict) or key not in data:
            return False
        data = data[key]
    return True


def _get_value(data: Any, path: KeyPath) -> Any:  # noqa: ANN401 (YAML has any type)
    for key in path:
        data = data[key]
    return data


def _set_value(data: dict[str, Any], path: tuple[str, ...], value: object) -> bool:
    """False where a parent is not a mapping, which is reported elsewhere."""
    for key in path[:-1]:
        if data.get(key) is None:
            data[key] = {}
        data = data[key]
        if not isinstance(data, dict):
            return False
    data[path[-1]] = value
    return True


def _remove_path(data: dict[str, Any], path: tuple[str, ...]) -> None:
    if _has_path(data, path):
        _get_value(data, path[:-1]).pop(path[-1])
