"""bots.yaml and orchestration.yml become roles and workflows; tokens and what has no place do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from blueflame.config.house import parse_house
from blueflame.config.import_bots import add_to_config, add_to_house, build_label, format_left_out, import_files
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
    assert "token (bots.yaml:10, 15): a secret; not needed: one bot" in text


def test_what_is_not_taken_is_listed_with_its_place_and_reason() -> None:
    notes = list(format_left_out(import_files({"bots.yaml": BOTS, "orchestration.yml": ORCHESTRATION})))
    assert (
        "tmux (bots.yaml:5): not needed: a role with `runtime: tmux` is shown in the session cc-ROLE of tmux" in notes
    )
    assert any(note.startswith("memory_file (bots.yaml:14): ") for note in notes)
    assert any(note.startswith("loop_interval_ms (orchestration.yml:2): ") for note in notes)
    assert any(note.startswith("adhoc_idle_timeout_ms (orchestration.yml:5): ") for note in notes)
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


HOUSE_PARTS = {
    "bots.yaml": BOTS.replace("allowed_chats: [1], admin_users: [1]", "allowed_chats: [1, 2, -100], admin_users: [1]"),
    "orchestration.yml": "orchestration: {plan_watch_enabled: true, plan_watch_paths: [plans/*.md]}\n"
    "limits: {max_adhoc_per_type: 1, max_total_adhoc: 4, max_queue_length: 2}\n",
}
SHOP = ("shop", Path("/code/shop"))


def write_house(text: str = "version: 1\n", **parts: str) -> str:
    imported = import_files(HOUSE_PARTS | parts, SHOP)
    assert imported.house is not None
    return add_to_house(text, imported.house, path=Path("house.yaml"), names=list(HOUSE_PARTS))


def test_people_chats_and_plan_files_are_for_the_house() -> None:
    text = write_house()
    house = parse_house(text, path=Path("house.yaml"))
    assert TOKEN not in text
    assert house.repositories["shop"].path == "/code/shop"
    assert {name: (each.trust, each.telegram) for name, each in house.people.items()} == {
        "user-1": ("owner", 1),
        "user-2": ("member", 2),
    }
    assert house.telegram is not None
    assert (house.telegram.token_from, {n: each.repository for n, each in house.telegram.chats.items()}) == (
        "LEAD_BOT_TOKEN",
        dict.fromkeys((1, 2, -100), "shop"),
    )
    assert (house.sources.plans.enabled, house.sources.plans.paths) == (True, ("plans/*.md",))
    pool = house.pool
    assert (pool.max_adhoc_per_type, pool.max_total_adhoc, pool.max_queue_length) == (1, 4, 2)
    assert pool.roles == {"backend": 1, "review-git": 1, "mobile": 1}, "each bot was one agent"


def test_what_house_yaml_had_stays() -> None:
    text = write_house("version: 1\nrepositories: {blog: {path: ../blog}}  # mine\npeople: {}\n")
    house = parse_house(text, path=Path("house.yaml"))
    assert "# mine" in text
    assert (set(house.repositories), set(house.people)) == ({"blog", "shop"}, {"user-1", "user-2"})


def test_without_a_house_it_is_said_how_to_write_one() -> None:
    notes = list(format_left_out(import_files(HOUSE_PARTS)))
    wanted = ("permissions (bots.yaml:8)", "plan_watch_enabled (orchestration.yml:1)")
    assert [note for note in notes if note.endswith("pass --house DIR to write one")][:2] == [
        f"{key}: for house.yaml: pass --house DIR to write one" for key in wanted
    ]


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        (
            "bots.yaml",
            "bots:\n- role: primary_orchestrator\n  permissions: {admin_users: [anna]}\n",
            "bots.yaml:3: bots[0].permissions.admin_users[0]: must be a number of Telegram",
        ),
        (
            "orchestration.yml",
            "orchestration:\n  plan_watch_paths: [../x]\n",
            "orchestration.yml:2: sources.plans.paths",
        ),
    ],
)
def test_what_the_house_cannot_use_is_refused_at_its_line(file: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        import_files(HOUSE_PARTS | {file: text}, SHOP)
    assert [each for each in caught.value.problems if each.startswith(problem)], caught.value.problems


def test_a_folder_has_a_name_that_requests_can_use() -> None:
    assert [build_label(name) for name in ("My Shop", "42-api_v2", "магазин")] == ["my-shop", "api-v2", "repository"]
