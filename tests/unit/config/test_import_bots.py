"""bots.yaml and orchestration.yml become roles and workflows; tokens and what has no place do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.config.import_bots import add_to_config, format_left_out, import_files
from blueflame.config.load import parse_config
from blueflame.model.errors import ConfigError
from blueflame.model.settings import Settings

TOKEN = "7123456789:AAF-not-a-real-token_0123456789abcdef"
BOTS = f"""\
bots:
  - name: "lead bot"
    username: "lead_cc_bot"
    token: "{TOKEN}"
    tmux: {{session: cc-orchestrator, window: 0, pane: 0}}
    wake_command: "/orchestrator-agent --loop"
    role: primary_orchestrator
    permissions: {{allowed_chats: [1], admin_users: [1]}}
  - name: backend-bot
    token: "{TOKEN}"
    role: backend_agent
    agent_config:
      skills: [backend-patterns, python-patterns]
      memory_file: state/agents/backend_MEMORY.md
  - {{name: review-bot, token: "{TOKEN}", role: review_git_agent, agent_config: {{skills: [code-review]}}}}
  - {{name: mobile-bot, role: mobile_agent}}
"""
ORCHESTRATION = """\
orchestration:
  loop_interval_ms: 30000
limits:
  max_total_adhoc: 5
cleanup: {adhoc_idle_timeout_ms: 1800000}
workflows:
  default:
    pipeline: [backend, review-git, frontend, review-git, qa]
    review_threshold: 0.8
    max_retries: 3
    retry_backoff_base_ms: 30000
  backend_only: {pipeline: [backend, review-git, qa], review_threshold: 0.85}
"""
CONFIG = "schema_version: 2\nproject:\n  name: x  # mine\nroles:\n  worker: {model: opus}\n"


def write(bots: str = BOTS, orchestration: str = ORCHESTRATION) -> str:
    imported = import_files({"bots.yaml": bots, "orchestration.yml": orchestration})
    return add_to_config(CONFIG, imported, path=Path("blueflame.yaml"), names=["bots.yaml", "orchestration.yml"])


def load(text: str) -> Settings:
    return parse_config(text, path=Path("blueflame.yaml")).settings


def refuse(bots: str = BOTS, orchestration: str = ORCHESTRATION) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        import_files({"bots.yaml": bots, "orchestration.yml": orchestration})
    return list(caught.value.problems)


def test_roles_get_their_skills_and_pipelines_their_stages() -> None:
    settings = load(write())
    assert settings.roles["backend"].skills == ("backend-patterns", "python-patterns")
    assert settings.roles["review-git"].skills == ("code-review",)
    default = settings.workflows["default"]
    assert default.stages == ("plan", "backend", "review-git", "frontend", "review-git", "qa", "merge")
    assert (default.review_threshold, default.max_retries, default.retry_backoff_base_ms) == (0.8, 3, 30000)
    assert settings.workflows["backend_only"].review_threshold == 0.85
    assert settings.planning.workflow == "default"
    assert settings.concurrency.development == 5


def test_what_the_file_had_stays_with_its_comments() -> None:
    text = write()
    assert "name: x  # mine" in text
    assert load(text).roles["worker"].model == "opus"


def test_a_token_is_not_copied_and_a_variable_is_named() -> None:
    text = write()
    assert TOKEN not in text
    assert "token (bots.yaml:4): a secret; keep it in the environment, as LEAD_BOT_TOKEN" in text
    assert "as BACKEND_BOT_TOKEN" in text


def test_what_is_not_taken_is_listed_with_its_place_and_reason() -> None:
    notes = list(format_left_out(import_files({"bots.yaml": BOTS, "orchestration.yml": ORCHESTRATION})))
    assert "tmux (bots.yaml:5): not needed: each attempt has a process and a checkout of its own" in notes
    assert any(note.startswith("memory_file (bots.yaml:14): ") for note in notes)
    assert any(note.startswith("loop_interval_ms (orchestration.yml:2): ") for note in notes)
    assert any(note.startswith("cleanup (orchestration.yml:5): ") for note in notes)
    assert not [note for note in notes if note.startswith(("name ", "skills ", "max_total_adhoc "))]


@pytest.mark.parametrize("orchestration", ["workflows: {w: {pipeline: [mobile]}}\n", "limits: {}\n"])
def test_a_role_of_their_own_is_taken_for_a_maker_and_that_is_said(orchestration: str) -> None:
    text = write(orchestration=orchestration)
    assert load(text).roles["mobile"].duty == "make"
    assert "duty make is assumed for mobile" in text


def test_a_role_that_only_a_pipeline_names_can_be_used() -> None:
    assert load(write(orchestration="workflows: {w: {pipeline: [embedded, qa]}}\n")).roles["embedded"].duty == "make"


def test_bots_of_one_role_share_its_skills() -> None:
    bots = "bots:\n" + "".join(
        f"  - {{role: qa_agent, agent_config: {{skills: [{skill}]}}}}\n" for skill in ("a", "b", "a")
    )
    assert load(write(bots)).roles["qa"].skills == ("a", "b")


@pytest.mark.parametrize(
    ("bots", "orchestration", "problem"),
    [
        ("bots: {}\n", ORCHESTRATION, "bots.yaml:1: bots: must be a list (got a mapping)"),
        (f"bots: {TOKEN}\n", ORCHESTRATION, "bots.yaml:1: bots: must be a list (got text)"),
        ("bots: [\n", ORCHESTRATION, "bots.yaml:2: this is not YAML"),
        ("", ORCHESTRATION, "bots.yaml:1: the file is empty"),
        ("bots: [{role: 7}]\n", ORCHESTRATION, "bots.yaml:1: bots[0].role: must be a name"),
        (BOTS, "workflows:\n  w:\n    pipeline: [qa]\n", "orchestration.yml:3: workflows.w.stages[1]: judges, but"),
        (BOTS, "workflows:\n  w: {review_threshold: 0.8}\n", "orchestration.yml:2: workflows.w: has no pipeline"),
        (
            BOTS,
            "workflows:\n  w:\n    pipeline: [backend]\n    review_threshold: 1.5\n",
            "orchestration.yml:4: workflows.w.review_threshold: ",
        ),
        (BOTS, "limits:\n  max_total_adhoc: 99\n", "orchestration.yml:2: concurrency.development: "),
    ],
)
def test_a_bad_file_is_refused_at_its_line(bots: str, orchestration: str, problem: str) -> None:
    problems = refuse(bots, orchestration)
    assert [each for each in problems if each.startswith(problem)], problems
    assert TOKEN not in "\n".join(problems)


def test_a_key_cannot_break_out_of_its_comment() -> None:
    text = write('bots: []\n"evil\\nhooks: {post_land: rm}": 1\n')
    assert "# - evil?hooks: {post_land: rm} (bots.yaml:2): unknown key" in text
    assert load(text) == load(write("bots: []\n"))
