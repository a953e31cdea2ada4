"""Takes over what bots.yaml and orchestration.yml say; values of secrets never.

Roles, skills and workflows are for blueflame.yaml; people, chats and plan files for house.yaml.

Each value that is taken keeps its origin, so that a problem of the settings is reported at its line in the imported
file. What is not taken is listed with its line and the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from blueflame.config.house import parse_house
from blueflame.config.load import parse_config
from blueflame.config.migrate import build_yaml
from blueflame.config.problems import format_path, format_value, validate_model, validate_settings
from blueflame.documents.yaml import Document, KeyPath, read_document
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ConfigError
from blueflame.model.settings.built_in import BUILT_IN_ROLES
from blueflame.model.settings.house import HouseSettings
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
PLAN_KEYS = {"plan_watch_enabled": "enabled", "plan_watch_paths": "paths"}
POOL_KEYS = ("max_adhoc_per_type", "max_total_adhoc", "max_queue_length")
MAX_NOTE = 300  # characters
FOR_HOUSE = "for house.yaml: pass --house DIR to write one"
ONE_BOT = "not needed: one bot, that of the primary orchestrator, speaks for the house"
NO_LOOP = "not needed: Blue Flame reacts to events and does not poll"
ANY_AD_HOC = "not needed: each role of the house's pool can have ad hoc agents"
OWN_MEMORY = "not needed: `blueflame memory` keeps what was learned"
NOT_TAKEN: Mapping[str, str] = {
    "bots.name": "",  # named by the role
    "bots.username": "not needed: Telegram knows the name of the bot by its token",
    "bots.tmux": "not needed: a role with `runtime: tmux` is shown in the session cc-ROLE of tmux",
    "bots.wake_command": NO_LOOP,
    "bots.permissions": ONE_BOT,
    "bots.agent_config.memory_file": OWN_MEMORY,
    "bots.agent_config.outputs": "not needed: verdicts carry a confidence, and results are commits",
    "orchestration.loop_interval_ms": NO_LOOP,
    "orchestration.telegram_poll_interval_ms": "not needed: a message arrives when it is sent",
    "cleanup.adhoc_idle_timeout_ms": "fixed: an ad hoc agent ends with its task; its window closes after 30 minutes",
    "cleanup.core_agent_clear_on_complete": "always so: each task starts a new agent with the memory of its seat",
    "archiving": "fixed: knowledge is archived once a week, above 50 KB, or after 50 tasks",
}
"""Why a key is not taken; with "" it is not worth a line."""


@dataclass(kw_only=True)
class ImportedSettings:
    """What was taken for one file, by its place there."""

    settings: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, Origin] = field(default_factory=dict)

    def take(self, path: KeyPath, value: object, origin: Origin) -> None:
        section: dict[Any, Any] = self.settings
        for key in path[:-1]:
            section = section.setdefault(key, {})
        section[path[-1]] = value
        self.origins[path] = origin

    def find_origin(self, path: KeyPath) -> Origin | None:
        around = (path[:n] for n in range(len(path), 0, -1))
        return next((self.origins[found] for found in around if found in self.origins), None)


@dataclass(kw_only=True)
class ImportedConfig(ImportedSettings):
    """What was taken for blueflame.yaml and, if one is wanted, for house.yaml, and what was not."""

    house: ImportedSettings | None = None
    left_out: list[LeftOut] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


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


def import_files(texts: Mapping[str, str], repository: tuple[str, Path] | None = None) -> ImportedConfig:
    """Read the files, by their names. Raises ConfigError with every problem and its line.

    `repository`: name and folder of the one that a house is to serve; without it nothing is taken for house.yaml.
    """
    imported = ImportedConfig(house=ImportedSettings() if repository else None)
    if imported.house is not None and repository is not None:
        imported.house.take(("repositories", repository[0], "path"), str(repository[1]), (next(iter(texts)), 1))
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
    notes = "".join(f"{line}\n" for line in _format_head(imported, names))
    result = f"{notes}\n{_add_settings(text, imported)}"
    parse_config(result, path=path)
    return result


def add_to_house(text: str, imported: ImportedSettings, *, path: Path, names: Sequence[str]) -> str:
    """Add what was imported to a house.yaml. Keys that are there stay."""
    head = f"# With people, chats and plan files imported from {_clean(' and '.join(names))}.\n"
    result = f"{head}{_add_settings(text, imported)}"
    parse_house(result, path=path)
    return result


def _add_settings(text: str, imported: ImportedSettings) -> str:
    yaml = build_yaml()
    data = yaml.load(text)
    new = [key for key in imported.settings if key not in data]
    _merge(data, imported.settings)
    for key in new:
        data.yaml_set_comment_before_after_key(key, before="\n")
    out = StringIO()
    yaml.dump(data, out)
    return out.getvalue()


def _merge(into: CommentedMap, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, dict):
            if not into.get(key) or not isinstance(into[key], CommentedMap):
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
            case "orchestration":
                _import_orchestration(source, (key,), source.read_mapping((key,), value))
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
        source.note((*path, "role"), ANY_AD_HOC)
    for key, value in bot.items():
        if key == "token" and role == ORCHESTRATOR:
            source.note((*path, key), f"a secret; keep it in the environment, as {_build_variable(bot)}")
        elif key == "token":
            source.note((*path, key), f"a secret; {ONE_BOT}")
        elif key == "permissions" and role == ORCHESTRATOR:
            _import_people(source, (*path, key), source.read_mapping((*path, key), value), _build_variable(bot))
        elif key not in ("role", "agent_config"):
            _leave_out(source, (*path, key), value)
    for key, value in config.items():
        if key != "skills" or role in (None, ORCHESTRATOR, AD_HOC):
            _leave_out(source, (*path, "agent_config", key), value)


def _import_people(source: _Source, path: KeyPath, permissions: Mapping[str, Any], variable: str) -> None:
    """Administrators are owners, others with a chat of their own members; the chats are those that are served."""
    house = source.into.house
    if house is None:
        source.note(path, FOR_HOUSE)
        return
    name = next(iter(house.settings["repositories"]))
    house.take(("telegram", "token_from"), variable, source.locate(path))
    admins = _read_numbers(source, (*path, "admin_users"), permissions.get("admin_users"))
    chats = _read_numbers(source, (*path, "allowed_chats"), permissions.get("allowed_chats"))
    for number in dict.fromkeys([*admins, *(chat for chat in chats if chat > 0)]):
        key = "admin_users" if number in admins else "allowed_chats"
        person = {"trust": "owner" if number in admins else "member", "telegram": number}
        house.take(("people", f"user-{number}"), person, source.locate((*path, key)))
    for chat in chats:
        house.take(("telegram", "chats", chat, "repository"), name, source.locate((*path, "allowed_chats")))
    for key, value in permissions.items():
        if key not in ("admin_users", "allowed_chats"):
            _leave_out(source, (*path, key), value)


def _read_numbers(source: _Source, path: KeyPath, value: object) -> list[int]:
    numbers = []
    for n, each in enumerate(source.read_list(path, value)):
        if isinstance(each, int) and not isinstance(each, bool):
            numbers.append(each)
        else:
            source.refuse((*path, n), f"must be a number of Telegram (got {_describe_type(each)}); write it as digits")
    return numbers


def _import_orchestration(source: _Source, path: KeyPath, given: Mapping[str, Any]) -> None:
    house = source.into.house
    for key, value in given.items():
        if key in PLAN_KEYS and house is None:
            source.note((*path, key), FOR_HOUSE)
        elif key in PLAN_KEYS and house is not None:
            house.take(("sources", "plans", PLAN_KEYS[key]), value, source.locate((*path, key)))
        else:
            _leave_out(source, (*path, key), value)


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
    house = source.into.house
    if house is not None:  # each bot was one agent
        agents = house.settings.get("pool", {}).get("roles", {}).get(name, 0) + 1
        house.take(("pool", "roles", name), agents, source.locate(at))
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
    house = source.into.house
    for key, value in limits.items():
        if key == "max_total_adhoc":
            source.into.take(("concurrency", "development"), value, source.locate((*path, key)))
        if key in POOL_KEYS and house is not None:
            house.take(("pool", key), value, source.locate((*path, key)))
        elif key in POOL_KEYS and key != "max_total_adhoc":
            source.note((*path, key), FOR_HOUSE)
        elif key != "max_total_adhoc":
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
    found: list[tuple[ImportedSettings, KeyPath, str]] = [(imported, path, text) for path, text in faults]
    if imported.house is not None:
        _, faults = validate_model(imported.house.settings, HouseSettings, {})
        found += [(imported.house, path, text) for path, text in faults]
    for taken, path, text in found:
        name, line = taken.find_origin(path) or ("", 1)
        imported.problems.append(f"{name}:{line}: {format_path(path)}: {text}")


def build_label(name: str) -> str:
    """The name of a repository as house.yaml wants it."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "-".join(words).lstrip("0123456789-") or "repository"


def _build_variable(bot: Mapping[str, Any]) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "_", str(bot.get("name", "bot")), flags=re.ASCII).strip("_").upper()
    return f"{words or 'BOT'}_TOKEN" if not words[:1].isdigit() else f"BOT_{words}_TOKEN"


def _describe_type(value: object) -> str:
    """What stands where a section belongs may be a secret: only its type is shown."""
    return {str: "text", list: "a list", dict: "a mapping", bool: "true or false"}.get(type(value), "a number")
