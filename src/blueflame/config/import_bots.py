"""Takes over what bots.yaml and orchestration.yml say about roles, skills and workflows; values of secrets never.

Each value that is taken keeps its origin, so that a problem of the settings is reported at its line in the imported
file. What is not taken is listed with its line and the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from blueflame.config.load import parse_config
from blueflame.config.problems import format_path, format_value, validate_settings
from blueflame.documents.yaml import Document, KeyPath, read_document
from blueflame.model.errors import ConfigError
from blueflame.model.settings.built_in import BUILT_IN_ROLES
from blueflame.model.settings.roles import STAGES

Origin: TypeAlias = tuple[str, int]
"""The file and the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A key that was not taken, or not as it is."""

    key: str
    why: str
    file: str
    line: int


ORCHESTRATOR, AD_HOC = "primary_orchestrator", "adhoc_agent"
WORKFLOW_KEYS = ("review_threshold", "max_retries", "retry_backoff_base_ms", "database_first")
MAX_NOTE = 300  # characters
NO_TELEGRAM = "Blue Flame does not read Telegram yet; see docs/how-to/get-notified.md for messages"
NO_LOOP = "not needed: Blue Flame reacts to events and does not poll"
NO_PANES = "not needed: each attempt has a process and a checkout of its own"
OWN_MEMORY = "not needed: `blueflame memory` keeps what was learned"
NOT_TAKEN: Mapping[str, str] = {
    "bots.name": "",  # named by the role
    "bots.username": NO_TELEGRAM,
    "bots.tmux": NO_PANES,
    "bots.wake_command": NO_LOOP,
    "bots.permissions": NO_TELEGRAM,
    "bots.agent_config.memory_file": OWN_MEMORY,
    "bots.agent_config.outputs": "not needed: verdicts carry a confidence, and results are commits",
    "orchestration.loop_interval_ms": NO_LOOP,
    "orchestration.telegram_poll_interval_ms": NO_TELEGRAM,
    "orchestration.plan_watch_enabled": "plans are given with `blueflame run --plan`",
    "orchestration.plan_watch_paths": "plans are given with `blueflame run --plan`",
    "limits.max_adhoc_per_type": "one limit holds for all who make: concurrency.development",
    "limits.max_queue_length": "not needed: tasks wait in the plan, however many",
    "cleanup": "not needed: an agent ends with its attempt, and its checkout is removed",
    "archiving": OWN_MEMORY,
}
"""Why a key is not taken; with "" it is not worth a line."""


@dataclass(kw_only=True)
class ImportedConfig:
    """What was taken, by its place in blueflame.yaml, and what was not."""

    settings: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, Origin] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def take(self, path: tuple[str, ...], value: object, origin: Origin) -> None:
        section = self.settings
        for key in path[:-1]:
            section = section.setdefault(key, {})
        section[path[-1]] = value
        self.origins[path] = origin

    def find_origin(self, path: KeyPath) -> Origin | None:
        around = (path[:n] for n in range(len(path), 0, -1))
        return next((self.origins[found] for found in around if found in self.origins), None)


@dataclass(frozen=True, slots=True)
class _Source:
    """One of the files, and where its notes and problems go."""

    name: str
    document: Document
    into: ImportedConfig

    def locate(self, path: KeyPath) -> Origin:
        return self.name, self.document.find_line(path) or 1

    def note(self, path: KeyPath, why: str) -> None:
        file, line = self.locate(path)
        self.into.left_out.append(LeftOut(key=str(path[-1]), why=why, file=file, line=line))

    def refuse(self, path: KeyPath, why: str) -> None:
        name, line = self.locate(path)
        place = format_path(path)
        self.into.problems.append(f"{name}:{line}: {place}{': ' if place else ''}{why}")

    def read_mapping(self, path: KeyPath, value: object) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.refuse(path, f"must be a mapping of keys (got {_describe_type(value)}); write `key: value` lines")
            return {}
        return value

    def read_list(self, path: KeyPath, value: object) -> Sequence[Any]:
        if value is None:
            return ()
        if not isinstance(value, list):
            self.refuse(path, f"must be a list (got {_describe_type(value)}); write `- item` lines, or [a, b]")
            return ()
        return value


def import_files(texts: Mapping[str, str]) -> ImportedConfig:
    """Read the files, by their names. Raises ConfigError with every problem and its line."""
    imported = ImportedConfig()
    sources = [_Source(name, read_document(text), imported) for name, text in texts.items()]
    for source in sources:
        _import_file(source)
    _add_missing_roles(imported)
    if "default" in imported.settings.get("workflows", {}):
        imported.take(("planning", "workflow"), "default", imported.origins["workflows", "default", "stages"])
    _check_settings(imported)
    if imported.problems:
        raise ConfigError(f"cannot import {' and '.join(texts)}", imported.problems)
    return imported


def add_to_config(text: str, imported: ImportedConfig, *, path: Path, names: Sequence[str]) -> str:
    """Add what was imported to a configuration, under a comment with what was not taken. Keys that are there stay."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    data = yaml.load(text)
    new = [key for key in imported.settings if key not in data]
    _merge(data, imported.settings)
    for key in new:
        data.yaml_set_comment_before_after_key(key, before="\n")
    out = StringIO()
    yaml.dump(data, out)
    notes = "".join(f"{line}\n" for line in _format_head(imported, names))
    result = f"{notes}\n{out.getvalue()}"
    parse_config(result, path=path)
    return result


def _merge(into: CommentedMap, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, dict):
            if not isinstance(into.get(key), CommentedMap):
                into[key] = CommentedMap()
            _merge(into[key], value)
        else:
            into[key] = _build_flow_list(value) if isinstance(value, list) else value


def _build_flow_list(values: Sequence[object]) -> CommentedSeq:
    made = CommentedSeq(values)
    made.fa.set_flow_style()
    return made


def _format_head(imported: ImportedConfig, names: Sequence[str]) -> Iterator[str]:
    yield f"# With roles and workflows imported from {_clean(' and '.join(names))}."
    if imported.left_out:
        yield "# Not taken:"
        yield from (f"# - {note}" for note in format_left_out(imported))


def format_left_out(imported: ImportedConfig) -> Iterator[str]:
    """One line for each key and reason, with all its places."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for each in imported.left_out:
        places.setdefault((each.key, each.file, each.why), []).append(str(each.line))
    for (key, file, why), lines in places.items():
        yield _clean(f"{key} ({file}:{', '.join(lines)}): {why}")


def _clean(note: str) -> str:
    """A key with a line break must not end the comment."""
    return "".join(character if character.isprintable() else "?" for character in note[:MAX_NOTE])


def _import_file(source: _Source) -> None:
    source.into.problems += (
        f"{source.name}:{problem.line or source.document.find_line(problem.path) or 1}: {problem.text}"
        for problem in source.document.problems
    )
    data = source.document.data
    if data is None:
        if not source.document.problems:
            source.refuse((), "the file is empty; name a bots.yaml or an orchestration.yml")
        return
    for key, value in source.read_mapping((), data).items():
        match key:
            case "bots":
                for n, bot in enumerate(source.read_list((key,), value)):
                    _import_bot(source, (key, n), source.read_mapping((key, n), bot))
            case "workflows":
                for name, workflow in source.read_mapping((key,), value).items():
                    _import_workflow(source, (key, name), source.read_mapping((key, name), workflow))
            case "limits":
                _import_limits(source, (key,), source.read_mapping((key,), value))
            case _:
                _leave_out(source, (key,), value)


def _import_bot(source: _Source, path: KeyPath, bot: Mapping[str, Any]) -> None:
    role = bot.get("role")
    config = source.read_mapping((*path, "agent_config"), bot.get("agent_config"))
    if role not in (None, ORCHESTRATOR, AD_HOC):
        _import_role(source, path, role, config)
    elif role == AD_HOC:
        source.note((*path, "role"), NO_PANES)
    for key, value in bot.items():
        if key == "token":
            source.note((*path, key), f"a secret; keep it in the environment, as {_build_variable(bot)}")
        elif key not in ("role", "agent_config"):
            _leave_out(source, (*path, key), value)
    for key, value in config.items():
        if key != "skills" or role in (None, ORCHESTRATOR, AD_HOC):
            _leave_out(source, (*path, "agent_config", key), value)


def _import_role(source: _Source, path: KeyPath, role: object, config: Mapping[str, Any]) -> None:
    at = (*path, "role")
    if not isinstance(role, str):
        source.refuse(at, f"must be a name (got {format_value(role)}); write one such as backend_agent")
        return
    name = role.removesuffix("_agent").replace("_", "-").lower()
    skills = list(source.read_list((*path, "agent_config", "skills"), config.get("skills")))
    known = source.into.settings.get("roles", {}).get(name, {}).get("skills", [])
    joined = list(dict.fromkeys([*known, *skills])) if all(isinstance(skill, str) for skill in skills) else skills
    if name not in BUILT_IN_ROLES:
        source.into.take(("roles", name, "duty"), "make", source.locate(at))
        source.note(at, _describe_assumed_duty(name))
    if joined:
        source.into.take(("roles", name, "skills"), joined, source.locate((*path, "agent_config", "skills")))


def _import_workflow(source: _Source, path: KeyPath, workflow: Mapping[str, Any]) -> None:
    name = str(path[-1])
    if "pipeline" not in workflow:
        source.refuse(path, "has no pipeline; write `pipeline: [backend, review-git, qa]`")
        return
    stages = list(source.read_list((*path, "pipeline"), workflow["pipeline"]))
    whole = [*([] if stages[:1] == ["plan"] else ["plan"]), *stages, *([] if stages[-1:] == ["merge"] else ["merge"])]
    source.into.take(("workflows", name, "stages"), whole, source.locate((*path, "pipeline")))
    for key, value in workflow.items():
        if key in WORKFLOW_KEYS:
            source.into.take(("workflows", name, key), value, source.locate((*path, key)))
        elif key != "pipeline":
            _leave_out(source, (*path, key), value)


def _import_limits(source: _Source, path: KeyPath, limits: Mapping[str, Any]) -> None:
    for key, value in limits.items():
        if key == "max_total_adhoc":
            source.into.take(("concurrency", "development"), value, source.locate((*path, key)))
        else:
            _leave_out(source, (*path, key), value)


def _leave_out(source: _Source, path: KeyPath, value: object) -> None:
    """Note why a key was not taken: one line for a section with one reason, else one for each key in it."""
    name = ".".join(key for key in path if isinstance(key, str))
    if name in NOT_TAKEN:
        if NOT_TAKEN[name]:
            source.note(path, NOT_TAKEN[name])
    elif isinstance(value, dict) and any(known.startswith(f"{name}.") for known in NOT_TAKEN):
        for key, inner in value.items():
            _leave_out(source, (*path, key), inner)
    else:
        source.note(path, "unknown key")


def _add_missing_roles(imported: ImportedConfig) -> None:
    """A role that only a pipeline names gets a duty, so that the file can be used."""
    roles = imported.settings.get("roles", {})
    for workflow in list(imported.settings.get("workflows", {})):
        at = ("workflows", workflow, "stages")
        for stage in imported.settings["workflows"][workflow]["stages"]:
            if isinstance(stage, str) and stage not in (*BUILT_IN_ROLES, *STAGES, *roles):
                file, line = imported.origins[at]
                imported.take(("roles", stage, "duty"), "make", (file, line))
                roles = imported.settings["roles"]
                why = _describe_assumed_duty(stage)
                imported.left_out.append(LeftOut(key="pipeline", why=why, file=file, line=line))


def _describe_assumed_duty(role: str) -> str:
    return f"duty make is assumed for {role}; write judge in roles.{role} if it reviews"


def _check_settings(imported: ImportedConfig) -> None:
    _, faults = validate_settings({"schema_version": 2, "project": {"name": "import"}, **imported.settings})
    for path, text in faults:
        name, line = imported.find_origin(path) or ("", 1)
        imported.problems.append(f"{name}:{line}: {format_path(path)}: {text}")


def _build_variable(bot: Mapping[str, Any]) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "_", str(bot.get("name", "bot")), flags=re.ASCII).strip("_").upper()
    return f"{words or 'BOT'}_TOKEN" if not words[:1].isdigit() else f"BOT_{words}_TOKEN"


def _describe_type(value: object) -> str:
    """What stands where a section belongs may be a secret: only its type is shown."""
    return {str: "text", list: "a list", dict: "a mapping", bool: "true or false"}.get(type(value), "a number")
