"""The built-in roles and workflows are data: a file can change them, and they change nothing that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.config.load import parse_config
from blueflame.config.show import format_config, format_resolved_json
from blueflame.model.settings import Settings
from blueflame.model.settings.built_in import BUILT_IN_ROLES, BUILT_IN_WORKFLOWS

HERE = Path("blueflame.yaml")


def settings(**sections: object) -> Settings:
    return Settings.model_validate({"project": {"name": "x"}, **sections})


def inherited(found: Settings, name: str) -> tuple[object, ...]:
    workflow = found.workflows[name]
    return (workflow.review_threshold, workflow.max_retries, workflow.retry_backoff_base_ms, workflow.database_first)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("default", (0.8, 3, 30_000, None)),
        ("backend_only", (0.85, 3, 30_000, None)),
        ("frontend_only", (0.75, 3, 30_000, None)),
        ("full_stack", (0.8, 3, 30_000, True)),
    ],
)
def test_the_built_in_pipelines_ask_for_what_the_seeds_say(name: str, expected: tuple[object, ...]) -> None:
    assert inherited(settings(), name) == expected


@pytest.mark.parametrize("name", sorted(BUILT_IN_WORKFLOWS))
def test_the_built_in_default_changes_no_other_workflow(name: str) -> None:
    assert inherited(settings(), name) == (None, None, None, None)


def test_the_built_in_default_changes_no_workflow_of_ones_own() -> None:
    own = {"mine": {"stages": ["backend", "qa"]}, "backend_only": {"stages": ["backend", "qa"]}}
    assert inherited(settings(workflows=own), "mine") == (None, None, None, None)
    assert inherited(settings(workflows=own), "backend_only") == (None, None, None, None)


def test_what_the_file_writes_for_default_holds_for_all_that_do_not_set_it() -> None:
    own = {"default": {"max_retries": 5}, "mine": {"stages": ["backend", "qa"], "max_retries": 1}}
    found = settings(workflows=own)
    assert inherited(found, "default") == (0.8, 5, 30_000, None)
    assert inherited(found, "full_stack") == (0.8, 5, 30_000, True)
    assert inherited(found, "waves") == (None, 5, None, None)
    assert inherited(found, "mine") == (None, 1, None, None)


def test_a_pipeline_with_stages_of_ones_own_is_ones_own() -> None:
    found = settings(workflows={"full_stack": {"stages": ["backend", "qa"]}, "default": {"stages": ["frontend", "qa"]}})
    assert inherited(found, "full_stack") == inherited(found, "default") == (None, None, None, None)
    assert inherited(found, "backend_only") == (0.85, None, None, None)


def test_null_takes_nothing_from_default() -> None:
    own = {"default": {"review_threshold": 0.9}, "flow": {"review_threshold": None}}
    found = settings(workflows=own)
    assert found.workflows["waves"].review_threshold == 0.9
    assert found.workflows["flow"].review_threshold is None


def test_a_role_keeps_what_the_file_does_not_write_and_null_is_as_left_out() -> None:
    found = settings(roles={"qa": {"model": "opus", "persona": None}}).roles["qa"]
    assert (found.duty, found.model, found.persona) == ("judge", "opus", BUILT_IN_ROLES["qa"]["persona"])


def test_a_persona_of_ones_own_replaces_the_built_in_one() -> None:
    assert settings(roles={"qa": {"persona": "Be kind to $task."}}).roles["qa"].persona == "Be kind to $task."


@pytest.mark.parametrize("own", [{}, {"default": {"max_retries": 5}}, {"default": {"stages": ["backend", "qa"]}}])
def test_settings_that_were_written_down_are_read_as_they_were(own: dict[str, object]) -> None:
    found = settings(workflows=own)
    assert Settings.model_validate_json(format_resolved_json(found)) == found
    assert Settings.model_validate(found.model_dump(exclude_unset=True)) == found, "as for options of the command line"
    assert parse_config(format_config(found), path=HERE).settings == found
