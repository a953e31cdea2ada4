"""`blueflame config` and `blueflame init`, as a person and as a program calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click import Command
from click.testing import CliRunner

from blueflame.cli.commands.config import config_app
from blueflame.cli.commands.init import init
from blueflame.config.load import load_config
from blueflame.git.command import run_git
from blueflame.model.errors import ConfigError, Refused, UsageError

GOOD = "schema_version: 2\nproject: {name: x}\n"
OLD = "# mine\nproject:\n  name: x\nmodels:\n  worker: opus  # strong\n"


@pytest.fixture(autouse=True)
def here(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(repo)
    return repo


def call(app: Command, *args: str) -> str:
    """Standard output; errors are raised, as the one boundary will see them."""
    result = CliRunner().invoke(app, args, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_check_says_that_nothing_is_wrong(here: Path) -> None:
    (here / "blueflame.yaml").write_text(GOOD)
    assert call(config_app, "check") == "blueflame.yaml: ok (schema 2)\n"


def test_check_raises_every_problem(here: Path) -> None:
    (here / "blueflame.yaml").write_text(GOOD + "limits: {max_retries: x, agent_timeout: y}\n")
    with pytest.raises(ConfigError) as caught:
        call(config_app, "check")
    assert len(caught.value.problems) == 2
    assert caught.value.problems[0].startswith("blueflame.yaml:3: limits.agent_timeout: ")


def test_check_for_machines_has_the_problems_and_the_exit_code(here: Path) -> None:
    (here / "bad.yaml").write_text("schema_version: 2\n")
    result = CliRunner().invoke(config_app, ["check", "--json", "-c", "bad.yaml"], standalone_mode=False)
    assert result.return_value == 2
    found = json.loads(result.stdout)
    assert (found["ok"], len(found["problems"])) == (False, 1)


def test_check_for_machines_has_the_warnings(here: Path) -> None:
    (here / "blueflame.yaml").write_text(OLD)
    found = json.loads(call(config_app, "check", "--json"))
    assert found["ok"]
    assert found["schema_version"] == 1
    assert any("schema_version: is missing" in warning for warning in found["warnings"])


def test_without_a_file_init_is_named() -> None:
    with pytest.raises(ConfigError, match="blueflame init"):
        call(config_app, "check")


def test_the_environment_can_name_the_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "other.yaml").write_text(GOOD.replace("x", "другой"))
    monkeypatch.setenv("BLUEFLAME_CONFIG", "other.yaml")
    assert json.loads(call(config_app, "show", "--json"))["project"]["name"] == "другой"


def test_show_can_be_read_again(here: Path) -> None:
    (here / "blueflame.yaml").write_text(OLD)
    (here / "full.yaml").write_text(call(config_app, "show"))
    assert load_config(here / "full.yaml").settings == load_config(here / "blueflame.yaml").settings


def test_schema_is_json_with_or_without_being_asked() -> None:
    assert json.loads(call(config_app, "schema")) == json.loads(call(config_app, "schema", "--json"))


def test_migrate_shows_a_difference_and_writes_nothing(here: Path) -> None:
    (here / "blueflame.yaml").write_text(OLD)
    shown = call(config_app, "migrate")
    assert "-models:" in shown
    assert "+    model: opus  # strong" in shown
    assert (here / "blueflame.yaml").read_text() == OLD


@pytest.mark.verification(3)
def test_migrate_writes_when_asked_and_refuses_a_second_time(here: Path) -> None:
    (here / "blueflame.yaml").write_text(OLD)
    before = load_config(here / "blueflame.yaml").settings
    assert "models.worker -> roles.worker.model" in call(config_app, "migrate", "--write")
    assert load_config(here / "blueflame.yaml").settings == before
    assert (here / "blueflame.yaml").read_text().startswith("schema_version: 2\n\n# mine\nproject:")
    assert "is up to date" in call(config_app, "migrate")
    with pytest.raises(UsageError, match="nothing to migrate"):
        call(config_app, "migrate", "--write")


def test_migrate_for_machines(here: Path) -> None:
    (here / "blueflame.yaml").write_text(OLD)
    found = json.loads(call(config_app, "migrate", "--json"))
    assert (found["written"], len(found["changes"])) == (False, 2)


# --- init --------------------------------------------------------------------------------------------------------


def test_init_writes_a_configuration_that_passes_its_check(here: Path) -> None:
    said = call(init, "--no-try")
    assert said.startswith("wrote blueflame.yaml\n")
    assert "python" in said
    loaded = load_config(here / "blueflame.yaml")
    assert loaded.settings.project.base_branch == "main"
    assert loaded.repo == here.resolve()
    assert "src/**" in loaded.settings.permissions.allowed_paths


@pytest.mark.verification(48)
def test_a_second_init_leaves_the_file_alone(here: Path) -> None:
    (here / "blueflame.yaml").write_text("anything: at all\n")
    assert "not changed" in call(init, "--no-try")
    assert (here / "blueflame.yaml").read_text() == "anything: at all\n"
    assert call(init, "--force", "--no-try").startswith("wrote")
    assert load_config(here / "blueflame.yaml")


def test_init_from_a_subfolder_writes_at_the_top(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here / "src")
    call(init, "--no-try")
    assert (here / "blueflame.yaml").is_file()
    assert not (here / "src" / "blueflame.yaml").exists()


def test_init_elsewhere_points_back_at_the_repository(here: Path) -> None:
    call(init, "--no-try", "--config", "../conf/flame.yaml")
    assert load_config(here.parent / "conf" / "flame.yaml").repo == here.resolve()


@pytest.mark.parametrize("flag", ["--print", "--dry-run"])
def test_init_can_print_and_write_nothing(here: Path, flag: str) -> None:
    assert "schema_version: 2" in call(init, flag)
    assert not (here / "blueflame.yaml").exists()


def test_init_shows_each_command_on_a_line_of_its_own(here: Path) -> None:
    (here / "setup.py").write_text("")
    (here / "test_a.py").write_text("import pytest\n")
    run_git(here, "add", "-A")
    said = call(init, "--no-try").splitlines()
    at = next(n for n, line in enumerate(said) if line.startswith("  setup        test -x .venv/bin/pip || "))
    assert said[at + 1 : at + 3] == [
        "               .venv/bin/python -m pip install -e . pytest",
        "  checks       .venv/bin/python -m pytest",
    ]


def test_init_for_machines(here: Path) -> None:
    found = json.loads(call(init, "--no-try", "--json"))
    assert (found["written"], found["languages"], found["base_branch"]) == (True, ["python"], "main")
    assert json.loads(call(init, "--no-try", "--json"))["written"] is False


def test_init_refuses_a_folder_and_a_place_without_a_repository(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        call(init, "--no-try", "--config", "src")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused, match="git init"):
        call(init, "--no-try")
    assert not (tmp_path / "blueflame.yaml").exists()


BOTS = "bots: [{name: b, token: '1:secret', role: backend_agent, agent_config: {skills: [python-patterns]}}]\n"
PIPELINE = "workflows: {default: {pipeline: [backend, review-git], review_threshold: 0.8}}\n"


def give_bots(here: Path) -> tuple[str, ...]:
    (here / "bots.yaml").write_text(BOTS)
    (here / "orchestration.yml").write_text(PIPELINE)
    return ("import", "bots.yaml", "orchestration.yml")


def test_import_writes_what_init_would_with_the_roles_and_workflows(here: Path) -> None:
    said = call(config_app, *give_bots(here))
    assert "Workflows:  default" in said
    assert "Not taken:  token (bots.yaml:1): a secret; not needed: one bot" in said
    loaded = load_config(here / "blueflame.yaml").settings
    assert loaded.workflows["default"].stages == ("plan", "backend", "review-git", "merge")
    assert "src/**" in loaded.permissions.allowed_paths
    assert "secret'" not in (here / "blueflame.yaml").read_text()


def test_import_leaves_an_existing_file_alone_and_adds_to_it_with_force(here: Path) -> None:
    arguments = give_bots(here)
    (here / "blueflame.yaml").write_text(GOOD)
    with pytest.raises(Refused, match="exists: not changed"):
        call(config_app, *arguments)
    assert "1:secret" not in call(config_app, *arguments, "--dry-run")
    assert (here / "blueflame.yaml").read_text() == GOOD
    call(config_app, *arguments, "--force")
    assert load_config(here / "blueflame.yaml").settings.project.name == "x"


def test_import_for_machines(here: Path) -> None:
    found = json.loads(call(config_app, *give_bots(here), "--json"))
    assert found["written"]
    assert "workflows.default.review_threshold" in found["taken"]
    assert [note.split()[0] for note in found["left_out"]] == ["token"]
    assert found["text"] == (here / "blueflame.yaml").read_text()
