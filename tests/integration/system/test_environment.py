from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.system.environment import build_worktree_variables, clean_environment

KEPT = {
    "PATH": "/usr/bin",
    "HOME": "/home/ада",
    "LANG": "C.UTF-8",
    "LC_ALL": "C",
    "TERM": "xterm",
    "TMPDIR": "/tmp",
    "TZ": "UTC",
    "USER": "ada",
    "JAVA_HOME": "/opt/java",
    "KEYBOARD": "de",
    "AUTHOR": "ada",
    "MONKEY": "1",
    "HTTP_PROXY": "http://proxy:3128",
}


def test_what_builds_and_tests_need_stays() -> None:
    assert clean_environment(KEPT) == KEPT


@pytest.mark.parametrize(
    "name",
    [
        "GIT_DIR",
        "GIT_AUTHOR_NAME",
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "ANTHROPIC_BASE_URL",
        "OPENAI_ORG",
        "BEADS_DIR",
        "BLUEFLAME_ROOT",
        "NPM_TOKEN",
        "npm_config_token",
        "DEPLOY_KEY",
        "STRIPE_SECRET",
        "DB_PASSWORD",
        "PGPASSWORD",
        "apiKey",
        "MYAPIKEY",
        "AWS_PROFILE",
        "SSH_AUTH_SOCK",
        "LD_PRELOAD",
        "BASH_ENV",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "TMUX",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "SENTRY_DSN",
        "SESSION_COOKIE",
        "BASH_FUNC_ls%%",
    ],
)
def test_doors_and_secrets_go_by_name(name: str) -> None:
    assert clean_environment({name: "x", "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "value",
    [
        "postgres://ada:pa55@db/x",
        "redis://:pa55@cache",
        "sk-ant-api03-abc",
        "ghp_0123456789",
        "AKIA0123456789",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
    ],
)
def test_secrets_go_by_the_look_of_their_value_too(value: str) -> None:
    assert clean_environment({"DATABASE_URL": value}) == {}


def test_a_name_that_the_person_allows_stays() -> None:
    base = {"NPM_TOKEN": "x", "GH_TOKEN": "y", "GIT_AUTHOR_NAME": "Ада"}
    assert clean_environment(base, allow={"NPM_TOKEN", "GIT_AUTHOR_NAME"}) == {
        "GIT_AUTHOR_NAME": "Ада",
        "NPM_TOKEN": "x",
    }


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_cleaning_only_takes_away_and_a_second_time_takes_nothing(base: dict[str, str]) -> None:
    cleaned = clean_environment(base)
    assert cleaned.items() <= base.items()
    assert clean_environment(cleaned) == cleaned
    assert list(cleaned) == sorted(cleaned)


def describe(ports: range | None) -> dict[str, str]:
    return build_worktree_variables(
        root=Path("/мой repo"),
        worktree="/work/repo",
        branch="blueflame/ses-1/task-001/1",
        session="ses-1",
        task="task-001",
        base_branch="main",
        agent="worker-1",
        role="worker",
        ports=ports,
    )


def test_processes_in_a_worktree_get_its_place_as_variables() -> None:
    result = describe(range(23000, 23003))
    assert result["BLUEFLAME_ROOT"] == "/мой repo"
    assert result["BLUEFLAME_WORKTREE"] == "/work/repo"
    assert result["PORT"] == result["BLUEFLAME_PORT_0"] == "23000"
    assert result["BLUEFLAME_PORTS"] == "23000-23002"
    assert [name for name in result if name.startswith("BLUEFLAME_PORT_")] == [f"BLUEFLAME_PORT_{n}" for n in range(3)]


def test_without_a_port_block_no_port_is_named() -> None:
    assert not [name for name in describe(None) if "PORT" in name]
