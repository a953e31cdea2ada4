"""Settings that are written and have no effect beside the others."""

from __future__ import annotations

from collections.abc import Mapping

from blueflame.model.settings import Settings
from blueflame.session.unsupported_settings import find_idle_settings, find_missing_skills

IDLE: tuple[tuple[str, dict[str, object]], ...] = (
    ("superpowers.enabled", {"superpowers": {"enabled": True}}),
    ("superpowers.skills", {"superpowers": {"skills": ["tdd"]}}),
    ("validation.require_tests.enabled", {"validation": {"require_tests": {"enabled": True}}}),
    ("landing.draft", {"landing": {"draft": False}}),
    ("landing.remote", {"landing": {"remote": "upstream", "mode": "squash"}}),
    ("hooks.post_merge", {"hooks": {"post_merge": "true"}, "landing": {"mode": "pull-request"}}),
    ("memory.bd", {"memory": {"bd": "/opt/bd"}}),
    ("validation.file_naming.style", {"validation": {"file_naming": {"style": "camelCase"}}}),
    ("limits.on_stall", {"limits": {"on_stall": "kill", "stall_timeout": 0}}),
    ("gates.question_wait", {"gates": {"question_wait": 60, "max_questions": 0}}),
    ("worktree.registries", {"worktree": {"registries": ["npm"]}}),
    ("sandbox.allowed_hosts", {"sandbox": {"allowed_hosts": ["example.org"], "allow_network": True}}),
    ("roles.worker.skills", {"roles": {"worker": {"skills": ["tdd"]}}}),
    ("runtimes.codex.plugins", {"runtimes": {"codex": {"plugins": ["/opt/x"]}}}),
    ("runtimes.mine.script", {"runtimes": {"mine": {"kind": "claude", "script": "play.yaml"}}}),
    ("workflows.mine.role", {"workflows": {"mine": {"stages": ["backend", "check"], "role": "docs"}}}),
    ("workflows.mine.database_first", {"workflows": {"mine": {"stages": ["work", "check"], "database_first": True}}}),
    (
        "workflows.mine.review_threshold",
        {"workflows": {"mine": {"stages": ["work", "check"], "review_threshold": 0.5}}},
    ),
)

WITH_EFFECT: tuple[dict[str, object], ...] = (
    {},
    {"superpowers": {"enabled": False, "skills": ["tdd"]}},
    {"superpowers": {"enabled": True, "plugin": "/opt/superpowers"}},
    {"validation": {"require_tests": {"enabled": True, "source_patterns": ["src/**"]}}},
    {"landing": {"remote": "origin", "draft": True}, "memory": {"bd": "bd"}},
    {"landing": {"remote": "upstream", "mode": "pull-request"}},
    {"hooks": {"post_merge": "true"}},
    {"worktree": {"registries": ["npm"], "setup": ["npm ci"]}},
    {"runtimes": {"claude": {"plugins": ["/opt/x"]}, "scripted": {"script": "play.yaml"}}},
    {"roles": {"worker": {"skills": ["tdd"]}}, "runtimes": {"claude": {"plugins": ["/opt/x"]}}},
    {"roles": {"backend": {"model": "opus"}}},
    {"workflows": {"default": {"review_threshold": 0.7, "database_first": True}}},
    {"workflows": {"mine": {"stages": ["work", "validate"], "role": "docs", "review_threshold": 0.5}}},
)


def list_keys(sections: dict[str, object]) -> list[str]:
    given = Settings.model_validate({"schema_version": 2, "project": {"name": "x"}, **sections})
    return [".".join(place) for place, _ in find_idle_settings(given)]


def test_what_is_written_and_has_no_effect_is_found() -> None:
    wrong = {key: found for key, sections in IDLE if (found := list_keys(sections)) != [key]}
    assert wrong == {}


def test_what_has_an_effect_or_says_what_is_so_anyway_is_not() -> None:
    assert [sections for sections in WITH_EFFECT if list_keys(sections)] == []


def list_missing(sections: Mapping[str, object]) -> list[tuple[str, str]]:
    given = Settings.model_validate({"schema_version": 2, "project": {"name": "x"}, **sections})
    found = find_missing_skills(given, {"test-driven-development", "tdd-workflow"})
    return [(".".join(place), text) for place, text in found]


def test_a_skill_that_no_plugin_has_is_named_with_what_was_meant() -> None:
    plugin = {"superpowers": {"plugin": "/opt/superpowers"}}
    wrong, built_in = {"skills": ["tdd_workflows", "test-driven-development"]}, {"model": "opus"}
    text = "tdd_workflows has no effect: no plugin has such a skill; did you mean tdd-workflow?"

    assert list_missing({**plugin, "roles": {"worker": wrong, "qa": built_in}}) == [("roles.worker.skills", text)]
    assert list_missing({"superpowers": {**plugin["superpowers"], **wrong}}) == [("superpowers.skills", text)]
    assert list_missing(plugin) == [], "what is written nowhere is no mistake of the person"
    assert list_missing({"roles": {"worker": wrong}}) == [], "that there is no plugin is said instead"
