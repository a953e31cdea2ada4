"""What machines get is what docs/reference/json.md says: every key of every verb has its place there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import YES, configure, here, task, write
from support.json_page import keys_in, section, table_keys


@pytest.fixture
def project(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configure(repo)
    monkeypatch.chdir(repo)
    return repo


BUILD = {"base", "commit", "added", "deleted", "files", "path", "checks", "name", "passed", "exit_code"}


@pytest.mark.usefixtures("guards_are_known")
def test_every_key_is_on_the_page(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write(tmp_path / "план.yaml", {"tasks": [task(1)]})
    few = write(tmp_path / "мало.yaml", {"plan": ["approve"]})
    session = section("run, plan, resume, demo, status")
    known = session | section("gates") | BUILD
    dry = here(capsys, "run", "--plan", plan, "--dry-run", "--json").json
    assert set(dry) <= section("run --dry-run")
    assert {key for row in dry["would_spawn"] for key in row} <= section("run --dry-run")
    waiting = here(capsys, "run", "--plan", plan, "-w", "flow", "--decisions-file", few, "--json")
    assert set(keys_in(waiting.json)) <= known
    status = here(capsys, "status", "--json").json
    assert set(keys_in(status)) <= known
    assert set(waiting.json) | set(status) | {"log"} == table_keys("run, plan, resume, demo, status")
    assert set(keys_in(here(capsys, "gates", "--json").json)) <= section("gates")
    shown = [here(capsys, "show", name, "--json").json for name in ("task-001", "task-001.w", "changeset-cs-001")]
    assert {key for each in shown for key in keys_in(each)} <= section("show") | section("gates") | session
    assert set(here(capsys, "diff", "--json").json) == section("diff")
    assert "+++ b/" in here(capsys, "diff", "cs-001").out
    assert "Waiting for an answer" in here(capsys, "show").out
    assert set(keys_in(here(capsys, "attach", "--json").json)) <= section("attach")
    answered = here(capsys, "answer", "changeset", "approve", "--json").json
    assert set(answered) == {"state", "reply"}
    ended = here(capsys, "resume", "--decisions-file", write(tmp_path / "да.yaml", YES), "--json").json
    assert set(ended) <= session
    events = [json.loads(line) for line in here(capsys, "log", "--json").out.splitlines()]
    assert {key for event in events for key in event} <= section("log")
    assert set(keys_in(here(capsys, "cleanup", "--json").json)) <= section("cleanup")
    assert set(keys_in(here(capsys, "doctor", "--json").json)) <= section("doctor")


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("policy explain", "policy check, explain"),
        ("policy explain Bash ls", "policy check, explain"),
        ("sandbox show", "sandbox show"),
        ("memory list", "memory list, show, why, forget, export, import, sync, propose, curate, confirm, add"),
        ("help", "help"),
        ("help gates", "help"),
    ],
)
@pytest.mark.usefixtures("project")
def test_the_first_keys_of_a_command_are_on_the_page(
    command: str, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = here(capsys, *command.split(), "--json").json
    assert printed
    assert set(printed) <= section(title)


def test_the_keys_of_the_configuration_verbs_are_on_the_page(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = section("config check, show, schema, migrate, import")
    assert set(here(capsys, "config", "check", "--json").json) <= known
    assert set(here(capsys, "config", "migrate", "--json").json) <= known
    assert set(here(capsys, "init", "--dry-run", "--json").json) <= section("init")
    assert here(capsys, "config", "show", "--json").json["project"]["name"] == "пример"
    assert here(capsys, "config", "schema").json["properties"]
    configure(project, {"shema_version": 2})
    wrong = here(capsys, "config", "check", "--json")
    assert wrong.code == 2
    assert set(wrong.json) <= known
    assert wrong.json["ok"] is False
