"""Which settings a person must trust: those that run, open or send something outside of the sandbox, or weaken it.

A repository brings its own blueflame.yaml, and a clone is a stranger's until a person has looked. Every key of the
settings is in one of the tables below; one that is in none counts as dangerous, and a test fails.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container, Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any

from blueflame.lazy_dataclass import dataclass
from blueflame.model.settings import Settings
from blueflame.model.settings.fields import Section
from blueflame.model.settings.permissions import PermissionSettings

ANY = "*"  # in a key: any name of a runtime, role, workflow, model or notifier


class Reach(StrEnum):
    """What a setting does outside of the sandbox, for people."""

    RUNS = "runs a program outside of the sandbox"
    SENDS = "sends something to another machine"
    OPENS = "opens a place outside of agents' checkouts"
    WEAKENS = "weakens a guard"
    UNKNOWN = "is not known to be harmless"


OUTSIDE: Mapping[str, Reach] = {
    "project.repo": Reach.OPENS,
    "project.worktree_dir": Reach.OPENS,
    "project.tasks_file": Reach.OPENS,
    "sandbox.level": Reach.WEAKENS,
    "sandbox.allow_network": Reach.WEAKENS,
    "sandbox.allowed_hosts": Reach.SENDS,
    "sandbox.model_features": Reach.SENDS,
    "sandbox.read_only": Reach.OPENS,
    "sandbox.writable": Reach.OPENS,
    "sandbox.environment": Reach.OPENS,
    "runtimes.*.command": Reach.RUNS,
    "runtimes.*.args": Reach.RUNS,
    "runtimes.*.env": Reach.RUNS,
    "runtimes.*.script": Reach.RUNS,
    "runtimes.*.credential": Reach.SENDS,
    "runtimes.*.upstream": Reach.SENDS,
    "runtimes.*.plugins": Reach.OPENS,
    **dict.fromkeys(("prices.*.input", "prices.*.output"), Reach.WEAKENS),
    **dict.fromkeys(("prices.*.cache_read", "prices.*.cache_write", "prices.*.cache_write_1h"), Reach.WEAKENS),
    "landing.mode": Reach.SENDS,
    "landing.remote": Reach.SENDS,
    "worktree.setup": Reach.RUNS,
    "worktree.registries": Reach.SENDS,
    "permissions.allowed_tools": Reach.SENDS,
    "permissions.bash_rules.allowed_commands": Reach.RUNS,
    "permissions.bash_rules.blocked_patterns": Reach.WEAKENS,
    "validation.validator_diagnostics.commands": Reach.RUNS,
    "superpowers.plugin": Reach.OPENS,
    "memory.bd": Reach.RUNS,
    "memory.mirrors": Reach.SENDS,
    "hooks.post_plan": Reach.RUNS,
    "hooks.pre_validation": Reach.RUNS,
    "hooks.post_merge": Reach.RUNS,
    "hooks.on_failure": Reach.RUNS,
    "notifications.*.command": Reach.RUNS,
    "notifications.*.url": Reach.SENDS,
    "notifications.*.url_from": Reach.SENDS,
}

_HARMLESS_BY_SECTION: Mapping[str, str] = {
    "": "schema_version domains",
    "project": "name base_branch",
    "concurrency": "planning development validation merge adaptive adaptive_min_ram_per_agent_mb",
    "limits": "agent_timeout heartbeat_interval stall_timeout on_stall kill_grace max_retries max_attempts retry_from"
    " max_wave_cycles max_history max_session_cost_usd max_session_tokens max_task_cost_usd max_task_tokens"
    " max_day_cost_usd max_day_tokens warn_threshold rate_limit_wait outage_wait",
    "sandbox": "max_cpu_seconds max_memory_mb max_file_size_mb max_open_files max_processes min_free_disk_mb",
    "runtimes.*": "kind",
    "roles.*": "duty persona persona_file runtime model timeout budget_usd budget_tokens skills tools",
    "workflows.*": "stages barrier role review_threshold max_retries retry_backoff_base_ms escalate database_first",
    "planning": "interactive workflow triage tier_1 tier_2 workflows models",
    "schedule": "dependents",
    "gates": "on_validation_failed validator_retries on_exhausted on_rate_limit on_overlap max_questions question_wait"
    " max_replans",
    "merging": "on_conflict retry_red_checks",
    "landing": "branch_prefix forge push_timeout draft",
    "commits": "style author agent",
    "worktree": "setup_timeout ports_per_worktree include",
    "permissions": "allowed_paths blocked_paths blocked_tools",
    "validation": "validator_models",
    "validation.commit_format": "pattern example",
    "validation.file_naming": "style enforce_for",
    "validation.require_tests": "enabled source_patterns test_patterns",
    "validation.file_scope": "enforce",
    "validation.binaries": "expected",
    "validation.secrets": "enabled allow_file scanner timeout",
    "validation.validator_diagnostics": "enabled timeout",
    "instructions": "enabled files max_bytes",
    "superpowers": "enabled skills",
    "beads": "enabled archive_after_wave include_failure_notes memory_decay",
    "beads.decay_policy": "summarize_after_sessions preserve_failures_sessions",
    "memory": "provider context_tokens lesson_tokens shared_tokens control_every codebase_tokens sync_after_tasks"
    " stale_commits bd_timeout",
    "seats": "conversation context_tokens tasks max_age",
    "hooks": "timeout",
    "notifications.*": "kind on delay throttle timeout",
    "cleanup": "log_max_age stale_worktrees",
}
HARMLESS = frozenset(
    f"{section}.{name}".lstrip(".") for section, names in _HARMLESS_BY_SECTION.items() for name in names.split()
)
"""What stays in the sandbox or only limits, orders or words something. What is copied by worktree.include is listed
by its patterns (`list_included_files`)."""

ONLY_WITHOUT_SANDBOX = frozenset(
    {
        "runtimes.*.script",
        "worktree.setup",
        "permissions.bash_rules.allowed_commands",
        "permissions.bash_rules.blocked_patterns",
        "validation.validator_diagnostics.commands",
    }
)
"""These run in the sandbox, and with level off as the person."""


@dataclass(frozen=True, slots=True)
class OutsideSetting:
    key: str
    value: str  # as JSON: no character of it is hidden
    reach: Reach

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps([self.key, self.value]).encode()).hexdigest()


def list_outside_settings(settings: Settings) -> tuple[OutsideSetting, ...]:
    """List what a person must trust, in the order of the settings; a default never needs it."""
    return tuple(_iter_outside(settings, settings, (), ()))


def list_included_files(name: str, patterns: str) -> tuple[OutsideSetting, ...]:
    """List the patterns of the file `worktree.include`: what they match is shown to agents."""
    lines = dict.fromkeys(line for line in patterns.split("\n") if line.strip() and not line.startswith("#"))
    return tuple(_build_setting(name, line, Reach.OPENS) for line in lines)


def find_untrusted(settings: tuple[OutsideSetting, ...], trusted: Container[str]) -> tuple[OutsideSetting, ...]:
    """Return what is new or changed since a person agreed. `trusted` has the digests of what they agreed to."""
    return tuple(setting for setting in settings if setting.digest not in trusted)


def _iter_outside(
    settings: Settings, section: Section, key: tuple[str, ...], shape: tuple[str, ...]
) -> Iterator[OutsideSetting]:
    for name, default in _get_defaults(type(section)).items():
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from _iter_outside(settings, value, (*key, name), (*shape, name))
        elif isinstance(value, Mapping) and any(isinstance(each, Section) for each in value.values()):
            for entry, each in value.items():
                yield from _iter_outside(settings, each, (*key, name, entry), (*shape, name, ANY))
        else:
            kind = ".".join((*shape, name))
            if _needs_trust(settings, section, kind, value, is_default=value == default):
                plain = section.model_dump(mode="json", include={name})[name]
                yield _build_setting(".".join((*key, name)), plain, OUTSIDE.get(kind, Reach.UNKNOWN))


@cache
def _get_defaults(kind: type[Section]) -> Mapping[str, Any]:
    fields = kind.model_fields.items()
    return {name: field.get_default(call_default_factory=True, validated_data={}) for name, field in fields}


def _needs_trust(settings: Settings, section: Section, kind: str, value: Any, *, is_default: bool) -> bool:  # noqa: ANN401 (a setting can be anything)
    if kind == "runtimes.*.credential":  # the default sends the person's key: fine where no other address is set
        return getattr(section, "upstream", None) is not None
    if is_default or kind in HARMLESS or (kind in ONLY_WITHOUT_SANDBOX and settings.sandbox.level != "off"):
        return False
    check = CHECKS.get(kind)
    return check is None or check(value)


CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "project.worktree_dir": lambda path: path.startswith(("/", "~")) or ".." in path.split("/"),
    "sandbox.level": lambda level: level == "off",
    "landing.mode": lambda mode: mode == "pull-request",
    "permissions.allowed_tools": lambda tools: not set(tools) <= set(PermissionSettings().allowed_tools),
}
"""Values other than the default that need no trust either."""


def _build_setting(key: str, value: object, reach: Reach) -> OutsideSetting:
    return OutsideSetting(key, json.dumps(value, ensure_ascii=False, sort_keys=True), reach)
