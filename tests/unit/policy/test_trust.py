"""Which settings need a person's trust: every key is classified, defaults need none, and what is new is found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from blueflame.config.keys import iter_keys
from blueflame.model.settings import Settings
from blueflame.policy.trust import HARMLESS, OUTSIDE, Reach, find_untrusted, list_included_files, list_outside_settings


def read(**sections: object) -> Settings:
    return Settings.model_validate_json(json.dumps({"project": {"name": "x"}, **sections}))


def named(**sections: object) -> list[str]:
    return [setting.key for setting in list_outside_settings(read(**sections))]


def test_every_key_of_the_settings_is_classified_once() -> None:
    """A new key belongs into OUTSIDE or into HARMLESS: decide what a stranger could do with it."""
    keys = {
        ".".join("*" if part.startswith("<") else part for part in key.path) for key in iter_keys() if not key.section
    }
    assert keys - OUTSIDE.keys() - HARMLESS == set(), "not classified"
    assert (OUTSIDE.keys() | HARMLESS) - keys == set(), "no such key"
    assert OUTSIDE.keys() & HARMLESS == set()


def test_a_key_that_is_not_classified_needs_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blueflame.policy.trust.HARMLESS", HARMLESS - {"limits.max_retries"})
    (found,) = list_outside_settings(read(limits={"max_retries": 7}))
    assert (found.key, found.reach) == ("limits.max_retries", Reach.UNKNOWN)


def test_defaults_need_no_trust() -> None:
    assert named() == []


@pytest.mark.parametrize(
    ("key", "sections"),
    [
        ("project.repo", {"project": {"name": "x", "repo": "../other"}}),
        ("project.worktree_dir", {"project": {"name": "x", "worktree_dir": "/tmp/trees"}}),
        ("project.worktree_dir", {"project": {"name": "x", "worktree_dir": "~/trees"}}),
        ("project.worktree_dir", {"project": {"name": "x", "worktree_dir": "a/../../trees"}}),
        ("project.tasks_file", {"project": {"name": "x", "tasks_file": "Makefile"}}),
        ("sandbox.level", {"sandbox": {"level": "off"}}),
        ("sandbox.allow_network", {"sandbox": {"allow_network": True}}),
        ("sandbox.allowed_hosts", {"sandbox": {"allowed_hosts": ["example.org"]}}),
        ("sandbox.read_only", {"sandbox": {"read_only": ["~/.ssh"]}}),
        ("sandbox.writable", {"sandbox": {"writable": ["~/.cache"]}}),
        ("sandbox.environment", {"sandbox": {"environment": ["AWS_PROFILE"]}}),
        ("runtimes.claude.command", {"runtimes": {"claude": {"command": "./tools/claude"}}}),
        ("runtimes.mine.command", {"runtimes": {"mine": {"kind": "acp", "command": "x"}}}),
        ("runtimes.claude.args", {"runtimes": {"claude": {"args": ["--max-turns", "3"]}}}),
        ("runtimes.claude.env", {"runtimes": {"claude": {"env": {"A": "b"}}}}),
        ("runtimes.claude.plugins", {"runtimes": {"claude": {"plugins": ["~/.ssh"]}}}),
        ("prices.*.input", {"prices": {"*": {"input": 0, "output": 0}}}),
        ("landing.mode", {"landing": {"mode": "pull-request"}}),
        ("landing.remote", {"landing": {"remote": "https://example.org/x.git"}}),
        ("worktree.registries", {"worktree": {"registries": ["npm"]}}),
        ("permissions.allowed_tools", {"permissions": {"allowed_tools": ["WebSearch"], "blocked_tools": []}}),
        ("superpowers.plugin", {"superpowers": {"plugin": "~/.aws"}}),
        ("memory.bd", {"memory": {"bd": "./bd"}}),
        ("memory.mirrors", {"memory": {"mirrors": ["redis://host"]}}),
        ("hooks.post_plan", {"hooks": {"post_plan": "./hook"}}),
        ("hooks.on_failure", {"hooks": {"on_failure": "./hook"}}),
        ("notifications.me.command", {"notifications": {"me": {"kind": "command", "command": ["./notify"]}}}),
        ("notifications.me.url", {"notifications": {"me": {"kind": "webhook", "url": "https://example.org/x"}}}),
        ("notifications.me.url_from", {"notifications": {"me": {"kind": "webhook", "url_from": "HOOK"}}}),
    ],
)
def test_what_reaches_beyond_the_sandbox_needs_trust(key: str, sections: Mapping[str, Any]) -> None:
    assert key in named(**sections)


@pytest.mark.parametrize(
    "sections",
    [
        {"project": {"name": "x", "worktree_dir": "build/trees"}},
        {"sandbox": {"level": "strict", "max_memory_mb": 9000}},
        {"landing": {"mode": "squash"}},
        {"worktree": {"setup": ["npm ci"]}},
        {"validation": {"validator_diagnostics": {"commands": ["make test"]}}},
        {"permissions": {"allowed_tools": ["Read"], "bash_rules": {"allowed_commands": ["*"]}}},
        {"notifications": {"me": {"kind": "desktop"}}},
        {"roles": {"worker": {"model": "opus", "budget_usd": 9}}},
        {"runtimes": {"claude": {"credential": "login"}, "scripted": {"script": "script.yaml"}}},
    ],
)
def test_what_stays_in_the_sandbox_needs_none(sections: Mapping[str, Any]) -> None:
    assert named(**sections) == []


def test_without_a_sandbox_what_would_run_in_it_needs_trust() -> None:
    found = named(
        sandbox={"level": "off"},
        worktree={"setup": ["./setup"]},
        validation={"validator_diagnostics": {"commands": ["./check"]}},
        runtimes={"scripted": {"script": "script.yaml"}},
        permissions={"bash_rules": {"allowed_commands": ["*"], "blocked_patterns": []}},
    )
    assert found == [
        "sandbox.level",
        "runtimes.scripted.script",
        "worktree.setup",
        "permissions.bash_rules.allowed_commands",
        "permissions.bash_rules.blocked_patterns",
        "validation.validator_diagnostics.commands",
    ]


def test_a_changed_value_is_found_and_an_old_one_is_not_asked_again() -> None:
    before = list_outside_settings(read(hooks={"post_plan": "./a"}, memory={"bd": "bd2"}))
    trusted = {setting.digest for setting in before}
    after = list_outside_settings(read(hooks={"post_plan": "./b"}, memory={"bd": "bd2"}))
    assert [setting.value for setting in find_untrusted(after, trusted)] == ['"./b"']
    assert find_untrusted(before, trusted) == ()


def test_a_value_is_trusted_for_its_key_only() -> None:
    (post_plan,) = list_outside_settings(read(hooks={"post_plan": "./a"}))
    (post_merge,) = list_outside_settings(read(hooks={"post_merge": "./a"}))
    assert find_untrusted((post_merge,), {post_plan.digest}) == (post_merge,)


def test_the_credential_that_goes_to_another_address_is_part_of_what_is_trusted() -> None:
    """Agreeing to send nothing to an address is not agreeing to send it a key."""
    upstream = {"upstream": "https://models.example.org"}
    harmless = list_outside_settings(read(runtimes={"claude": {**upstream, "credential": "none"}}))
    sends = list_outside_settings(read(runtimes={"claude": upstream}))
    untrusted = find_untrusted(sends, {setting.digest for setting in harmless})
    assert [(setting.key, setting.value) for setting in untrusted] == [("runtimes.claude.credential", '"auto"')]


def test_patterns_of_the_files_that_agents_get_need_trust() -> None:
    found = list_included_files(".worktreeinclude", "# a note\n\n.env\n.env\n!x\n")
    assert [(setting.key, setting.value, setting.reach) for setting in found] == [
        (".worktreeinclude", '".env"', Reach.OPENS),
        (".worktreeinclude", '"!x"', Reach.OPENS),
    ]


def test_a_value_hides_no_character() -> None:
    (found,) = list_outside_settings(read(memory={"bd": "bd"}, hooks={"post_plan": "true # \x1b[2K\r"}))
    assert found.value == '"true # \\u001b[2K\\r"'
