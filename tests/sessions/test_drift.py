"""The configuration changes while a session runs: a person is asked at the next wave, never before and never twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blueflame.config.show import compute_digest, compute_resolved_digest
from blueflame.journal.journal import REFUSED, WAITING
from blueflame.model.errors import Refused
from blueflame.model.event import AttemptIntended, ConfigAdopted, ConfigDrifted, ConfigKept, GateWithdrawn
from blueflame.model.gate import Gate, GateKind
from blueflame.model.settings import Settings
from blueflame.orchestrator import cycle_boundary
from blueflame.orchestrator.cycle_boundary import detect_drift
from blueflame.orchestrator.lifecycle import lock_project, open_session
from blueflame.orchestrator.project import open_project
from blueflame.orchestrator.session_settings import load_settings, save_settings
from blueflame.orchestrator.sessions import send_and_wait
from blueflame.orchestrator.wiring import build_context
from blueflame.session.state import Session
from blueflame.system.layout import ProjectPaths
from support.sessions import Reply, Stage, make_stage, task


@pytest.fixture
def outside(repo: Path, tmp_path: Path) -> Stage:
    """With its configuration beside the repository: a change of it leaves the checkout clean."""
    return make_stage(repo, config=tmp_path / "мои настройки" / "blueflame.yaml")


def changing(stage: Stage, reply: str = "approve", **sections: object) -> Reply:
    def change(_gate: Gate, _session: Session) -> str:
        stage.configure(**sections)
        return reply

    return change


@pytest.mark.verification(46)
def test_a_changed_configuration_is_asked_about_once(outside: Stage) -> None:
    outside.play(task(1), validators={1: "good"})
    models = {"validator": {"runtime": "scripted", "model": "opus"}}
    roles = {name: {"runtime": "scripted"} for name in ("planner", "worker", "merger")} | models
    result = outside.run({"plan": [changing(outside, roles=roles)], "drift": ["use"]}, workflow="waves")
    assert result.gates == ["plan", "drift", "changeset-cs-001"]
    assert result.answers.asked[1].evidence["changes"] == ['roles.validator.model: "sonnet" -> "opus"']
    reviewer = next(e.attempt for e in result.of(AttemptIntended) if e.attempt.role == "validator")
    assert reviewer.model == "opus"
    assert len(result.of(ConfigAdopted)) + len(result.of(ConfigKept)) == 1
    assert result.session.outcome == "completed"


def test_stopping_at_a_changed_configuration_leaves_the_session_to_be_resumed(outside: Stage) -> None:
    outside.play(task(1))
    result = outside.run({"plan": [changing(outside, limits={"max_retries": 7})], "drift": ["stop"]})
    assert not result.session.ended
    assert result.states == {"task-001": "pending"}
    again = outside.resume({"drift": ["use"]})
    assert again.session.outcome == "completed"
    assert again.session.limits.max_retries == 7


def test_a_resumed_session_goes_on_with_the_configuration_it_was_opened_with(outside: Stage) -> None:
    outside.reconfigure(
        validation={"commit_format": {"pattern": r"^\w+\(task-\d+\): ", "example": "feat(task-001): x"}}
    )
    outside.play(task(1))
    outside.run({"plan": ["wait"]}, until=lambda session: session.plan is not None)
    outside.configure(validation={"commit_format": {"pattern": "^nothing fits this$", "example": "nothing fits this"}})
    result = outside.resume({"drift": ["keep"]})
    assert result.session.outcome == "completed", "the pattern of the beginning still holds"


def test_what_was_agreed_to_holds_although_the_file_changes_again(outside: Stage) -> None:
    """The person answers about what they were shown; what comes later is asked about later."""
    outside.play(task(1))
    strict = {"commit_format": {"pattern": "^nothing fits this$", "example": "nothing fits this"}}
    result = outside.run(
        {
            "plan": [changing(outside, limits={"max_retries": 7})],
            "drift": [changing(outside, "use", validation=strict), "keep"],
        }
    )
    assert [len(drift.changes) for drift in result.of(ConfigDrifted)] == [1, 3]
    assert result.session.limits.max_retries == 7
    assert result.session.outcome == "completed", "the strict pattern was not agreed to"


@pytest.mark.parametrize("repaired", [False, True])
def test_a_configuration_that_can_no_longer_be_used_is_reported_until_it_is_repaired(
    outside: Stage, monkeypatch: pytest.MonkeyPatch, repaired: bool
) -> None:
    monkeypatch.setattr(cycle_boundary, "SAVE_SECONDS", 0.01)
    whole = outside.config.read_text()

    def spoil(_gate: Gate, _session: Session) -> str:
        outside.config.write_text("project:\n  name: [oops\n")
        return "approve"

    def repair(_gate: Gate, _session: Session) -> str:
        outside.config.write_text(whole)
        return "wait"

    outside.play(task(1))
    result = outside.run({"plan": [spoil], "drift": [repair if repaired else "keep"]})
    gate = result.answers.asked[1]
    assert [option.name for option in gate.options] == ["keep", "stop"]
    assert gate.title.startswith("The configuration on disk can no longer be used: ")
    assert "blueflame.yaml:" in gate.title, "with the line"
    assert result.gates.count("drift") == 1
    assert len(result.of(GateWithdrawn)) == repaired
    assert result.session.outcome == "completed"


def test_an_unavailable_runtime_cannot_be_adopted_in_a_session(outside: Stage) -> None:
    outside.play(task(1))
    project = outside.project()
    with lock_project(project) as journal:
        session = open_session(project, journal, request="x")
    outside.configure(roles={"worker": {"runtime": "claude"}}, runtimes={"claude": {"command": "no-such-claude"}})
    drift = detect_drift(build_context(project, session), session)
    assert drift is not None
    assert drift.digest == "", "it cannot be adopted"
    assert "claude" in " ".join(drift.changes)
    rehearsed = detect_drift(build_context(project, session, script=outside.script), session)
    assert rehearsed is not None
    assert rehearsed.limits.get_runtime("worker") == "scripted"


def test_a_program_that_is_missing_meanwhile_is_no_change_of_the_configuration(outside: Stage, tmp_path: Path) -> None:
    program = tmp_path / "my-agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    agent = {"mine": {"kind": "command", "command": str(program)}}
    outside.configure(roles={"worker": {"runtime": "mine"}}, runtimes=agent)
    project = outside.project()
    with lock_project(project) as journal:
        session = open_session(project, journal, request="x")
    program.unlink()
    assert detect_drift(build_context(project, session), session) is None


def test_a_setting_that_is_not_trusted_cannot_be_adopted(outside: Stage, tmp_path: Path) -> None:
    """The base branch brings a hook while agents work: a stranger's push is no consent."""
    canary = tmp_path / "канарейка"
    outside.play(task(1))
    hooks = {"post_merge": f"touch '{canary}'"}
    result = outside.run({"plan": [changing(outside, hooks=hooks)], "drift": ["keep"]})
    gate = result.answers.asked[1]
    assert [option.name for option in gate.options] == ["keep", "stop"]
    assert "hooks.post_merge" in " ".join(gate.evidence["changes"])
    assert "blueflame trust" in " ".join(gate.evidence["changes"])
    assert result.session.outcome == "completed"
    assert not canary.exists()


def test_a_changed_file_is_trusted_before_a_session_is_resumed(outside: Stage) -> None:
    outside.play(task(1))
    outside.run({"plan": ["wait"]}, until=lambda session: session.plan is not None)
    outside.configure(hooks={"post_plan": "true"})
    with pytest.raises(Refused, match=r"hooks\.post_plan"), lock_project(open_project(outside.config)):
        pass
    assert outside.resume({"drift": ["use"]}).session.outcome == "completed", "here the person agrees"


def test_settings_that_a_repository_brings_for_a_session_are_not_used(outside: Stage) -> None:
    """A journal and its saved configuration may be a stranger's as well."""
    outside.play(task(1))
    project = outside.project()
    with lock_project(project) as journal:
        session = open_session(project, journal, request="x")
    foreign = project.settings.model_copy(
        update={"hooks": project.settings.hooks.model_copy(update={"post_plan": "true"})}
    )
    save_settings(project.state, session.id, foreign)
    session.config_digest = compute_digest(foreign)
    with pytest.raises(Refused, match=r"hooks\.post_plan"):
        build_context(project, session, script=outside.script)


def test_a_configuration_is_compared_when_a_wave_begins(outside: Stage) -> None:
    """On the function that compares: a comment is no change, and what cannot be read is one."""
    outside.play(task(1))
    project = outside.project()
    with lock_project(project) as journal:
        session = open_session(project, journal, request="x")
    context = build_context(project, session, script=outside.script)
    text = outside.config.read_text()
    outside.config.write_text("# a note to myself\n" + text)
    assert detect_drift(context, session) is None
    for broken in ("limits: [", "schema_version: 2\nproject: {name: x}\nlimts: {}\n"):
        outside.config.write_text(broken)
        drift = detect_drift(context, session)
        assert drift is not None
        assert drift.digest == ""
        assert "blueflame.yaml" in " ".join(drift.changes)
    session.drift_kept |= {""}
    assert detect_drift(context, session) is None, "asked about once"


def test_a_configuration_that_an_older_version_kept_is_still_the_sessions_own(tmp_path: Path) -> None:
    """A newer version fills in keys that the older one did not know; the file is as it was written all the same."""
    older = Settings.model_validate({"project": {"name": "x"}}).model_dump(mode="json")
    del older["cleanup"]
    text = json.dumps(older)
    places = ProjectPaths(root=tmp_path, worktrees=tmp_path / ".trees", tasks_file=tmp_path / "tasks.yaml")
    path = places.session_config("ses-1", compute_resolved_digest(text))
    path.parent.mkdir(parents=True)
    path.write_text(text)

    found = load_settings(places, "ses-1", compute_resolved_digest(text))

    assert found is not None
    assert found.project.name == "x"


def test_an_answer_that_was_kept_while_no_process_ran_is_taken_by_the_resume(outside: Stage) -> None:
    outside.play(task(1))
    drifting: dict[str, list[Reply]] = {"plan": [changing(outside, limits={"max_retries": 7})], "drift": ["wait"]}
    stopped = outside.run(drifting, until=lambda session: session.is_asking(GateKind.DRIFT))
    outside.post(stopped.session, "answer", gate="drift", choice="use", by="Анна")

    result = outside.resume()

    assert result.gates == ["changeset-cs-001"]
    assert result.session.limits.max_retries == 7


def test_the_first_of_two_answers_that_are_kept_counts_and_the_second_is_refused(outside: Stage) -> None:
    outside.play(task(1))
    drifting: dict[str, list[Reply]] = {"plan": [changing(outside, limits={"max_retries": 7})], "drift": ["wait"]}
    stopped = outside.run(drifting, until=lambda session: session.is_asking(GateKind.DRIFT))
    project, session = outside.project(), stopped.session.id

    first = send_and_wait(project, session, "answer", {"gate": "drift", "choice": "keep", "by": "Анна"})
    second = send_and_wait(project, session, "answer", {"gate": "drift", "choice": "use", "by": "Борис"})

    assert (first.state, second.state) == (WAITING, REFUSED)
    assert second.reply == "gate drift was already answered: keep (by Анна), applied when the session is resumed"
    assert outside.resume().session.limits.max_retries == 2
