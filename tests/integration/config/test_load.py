"""A configuration is read whole, or refused with every problem it has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.config.keys import iter_keys
from blueflame.config.load import load_config, override_settings, parse_config
from blueflame.config.locate import find_config
from blueflame.config.show import format_config, format_json_schema, format_resolved_json
from blueflame.model.errors import BlueFlameError, ConfigError, UsageError
from blueflame.paths.globs import Globs

EXAMPLE = Path(__file__).parents[3] / "blueflame.yaml.example"
HERE = Path("blueflame.yaml")
MINIMAL = "schema_version: 2\nproject:\n  name: x\n"


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, path=HERE)
    return caught.value.problems


def one_problem(text: str) -> str:
    (problem,) = problems(text)
    return problem


def test_a_minimal_file_is_enough() -> None:
    loaded = parse_config(MINIMAL, path=HERE)
    assert (loaded.settings.project.name, loaded.version) == ("x", 2)


@pytest.mark.parametrize("text", [MINIMAL, EXAMPLE.read_text()], ids=["minimal", "example"])
def test_other_values_change_nothing_else(text: str) -> None:
    """A default is no wish of the person: else it would be warned about as a setting without effect."""
    loaded = parse_config(text, path=HERE)
    same = override_settings(loaded, {"concurrency.development": loaded.settings.concurrency.development})
    assert (same.settings, same.digest) == (loaded.settings, loaded.digest)
    for section in ("superpowers", "planning", "roles"):
        before, after = (getattr(each.settings, section) for each in (loaded, same))
        assert getattr(after, "model_fields_set", after) == getattr(before, "model_fields_set", before)


def test_values_can_replace_those_of_the_file() -> None:
    loaded = parse_config(MINIMAL + "limits:\n  max_session_tokens: 9\n", path=HERE)
    budget = {"limits.max_session_cost_usd": 7.5, "limits.max_session_tokens": 0}
    changed = override_settings(loaded, {**budget, "roles.worker.model": "strong"})
    assert (changed.settings.limits.max_session_cost_usd, changed.settings.roles["worker"].model) == (7.5, "strong")
    assert changed.settings.roles["planner"] == loaded.settings.roles["planner"]
    assert changed.digest != loaded.digest
    assert override_settings(loaded, {}) is loaded
    with pytest.raises(UsageError, match=r"limits\.max_retries: "):
        override_settings(loaded, {"limits.max_retries": -1})


def test_a_problem_names_file_line_key_value_and_what_would_be_right() -> None:
    assert one_problem(MINIMAL + "limits:\n  max_retries: two\n") == (
        'blueflame.yaml:5: limits.max_retries: must be a whole number (got "two"); write digits only, without quotes'
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "workflows:\n  mine:\n    stages: [backend, audit]\n",
            'blueflame.yaml:6: workflows.mine.stages[1]: is neither a stage nor a role (got "audit"); '
            "Add it under roles, with its duty: size, plan, make, judge, merge, curate",
        ),
        (
            "workflows:\n  mine:\n    stages: [review-git, backend]\n",
            'blueflame.yaml:6: workflows.mine.stages[0]: judges, but nothing is made before it (got "review-git"); '
            "put work, or a role with duty make, before it",
        ),
        (
            "workflows:\n  mine:\n    stages: [work, check]\n    review_threshold: 1.5\n",
            "blueflame.yaml:7: workflows.mine.review_threshold: is too large (got 1.5); write at most 1",
        ),
        (
            "roles:\n  poet:\n    persona: Rhyme about $topic.\n",
            'blueflame.yaml:6: roles.poet.persona: uses $topic, which has no value (got "Rhyme about $topic."); '
            "use $role, $task, $session, $project, $base_branch, or write $$ for a dollar sign",
        ),
    ],
)
def test_a_workflow_or_role_that_cannot_run_is_refused_with_its_line(text: str, problem: str) -> None:
    assert one_problem(MINIMAL + text) == problem


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    found = problems(
        """schema_version: 2
project: {name: "", repo: 7}
project: {name: y}
concurrency: {development: 9, adaptive: yes}
limits: {agent_timeout: soon, max_wave_cycles: 0, max_session_cost_usd: .nan}
1: 2
roles:
  worker: {budget_usd: 1, budget_tokens: 2, runtime: cladue}
workflows:
  mine: {pipeline: [backend], stages: [plan, wrok]}
planning: {workflow: flwo}
permissions: {blocked_paths: ["../x", "[z", 3, null]}
gates: !foo bar
"""
    )
    text = "\n".join(found)
    for part in (
        ":2: project.name: is empty",
        ":2: project.repo: must be text (got 7)",
        ":3: project: the key 'project' is given twice (first in line 2)",
        ":4: concurrency.development: is too large (got 9); write at most 8",
        ':4: concurrency.adaptive: must be true or false (got "yes")',
        ":5: limits.agent_timeout: is not a duration",
        ":5: limits.max_wave_cycles: is too small (got 0); write at least 1",
        ":5: limits.max_session_cost_usd: must be a finite number (got NaN)",
        ":6: a key must be text (got '1')",
        ":8: roles.worker.budget_tokens: a limit in dollars and a limit in tokens are both set",
        ":8: roles.worker.runtime: unknown runtime",
        ":10: workflows.mine.pipeline: unknown key; did you mean stages?",
        ':10: workflows.mine.stages[1]: is neither a stage nor a role (got "wrok"); did you mean work?',
        ":11: planning.workflow: is not a workflow of this file",
        ":12: permissions.blocked_paths[0]: climbs out",
        ":12: permissions.blocked_paths[1]: has a [",
        ":12: permissions.blocked_paths[2]: must be text (got 3)",
        ":12: permissions.blocked_paths[3]: must be text (got nothing)",
        ":13: gates: the tag !foo is not allowed",
    ):
        assert part in text
    assert len(found) == 19
    lines = [int(problem.split(":")[1]) for problem in found]
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("limit:", "did you mean limits?"),
        ("Limits:", "did you mean limits?"),
        ("max_retries: 3", "did you mean limits.max_retries?"),
        ("pipeline: []", "did you mean stages?"),
        ("лимиты: 3", "the keys at the top level are schema_version, project"),
        ("workers: 3", "did you mean"),
    ],
)
def test_an_unknown_key_gets_a_hint(key: str, hint: str) -> None:
    assert hint in one_problem(f"{MINIMAL}{key}\n")


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("", 1, "the file is empty"),
        ("# only a comment\n", 1, "the file is empty"),
        ("---\n", 1, "the file is empty"),
        ("null\n", 1, "the file is empty"),
        ("- a\n", 1, "must be a mapping of keys (got a list)"),
        ("hello\n", 1, 'must be a mapping of keys (got "hello")'),
        ("a: b: c\n", 1, "this is not YAML"),
        ("project:\n\tname: x\n", 2, "indent with spaces, not with tabs"),
        ("project:\n  name: 'x\n", 3, "this is not YAML"),
        ("a: b\n---\nc: d\n", 2, "keep one document"),
        ("a: *nowhere\n", 1, "define the anchor"),
        ("a: \x01\n", 1, "a character that YAML does not allow"),
        ("[" * 500_000, 1, "nested too deeply"),
        ("a: " + "[" * 200 + "]" * 200, 1, "nested too deeply"),
        ("".join(f"{' ' * n}a:\n" for n in range(900)), 1, "nested too deeply"),
        ("project:\n  name: x\n name: y\n", 3, "this is not YAML"),
        ("@a: b\n", 1, "this is not YAML"),
    ],
)
def test_a_text_that_is_no_configuration_is_refused_with_its_line(text: str, line: int, part: str) -> None:
    found = problems(text)
    assert any(problem.startswith(f"blueflame.yaml:{line}: ") and part in problem for problem in found), found


def test_aliases_that_grow_without_end_are_refused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
    assert "aliases" in one_problem(bomb)


def test_a_value_that_holds_itself_is_refused() -> None:
    assert any("holds itself" in problem for problem in problems("project: &a {name: *a}\n"))


def test_anchors_aliases_and_merge_keys_are_understood() -> None:
    loaded = parse_config(
        MINIMAL
        + """roles:
  backend: &base {model: opus, budget_usd: 3}
  frontend: {<<: *base, model: haiku}
  qa:
    <<: [{timeout: 5m}, *base]
""",
        path=HERE,
    )
    roles = loaded.settings.roles
    assert (roles["frontend"].model, roles["frontend"].budget_usd) == ("haiku", 3)
    assert (roles["qa"].model, roles["qa"].timeout) == ("opus", 300)


def test_a_problem_in_what_was_merged_points_at_its_own_line() -> None:
    text = MINIMAL + "roles:\n  qa: &base\n    model: 5\n  backend:\n    <<: *base\n"
    assert [problem.split(" ")[0] for problem in problems(text)] == ["blueflame.yaml:6:", "blueflame.yaml:6:"]


def test_a_merge_of_something_else_is_refused() -> None:
    assert any("<< merges mappings only" in problem for problem in problems(MINIMAL + "limits: {<<: 4}\n"))


def test_windows_line_endings_a_byte_order_mark_and_unicode_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "мой config.yaml"
    path.write_bytes(
        '\ufeffschema_version: 2\r\nproject:\r\n  name: "проект"\r\nlimits:\r\n  max_retries: 3\r\n'.encode()
    )
    loaded = load_config(path)
    assert (loaded.settings.project.name, loaded.settings.limits.max_retries) == ("проект", 3)
    assert loaded.repo == tmp_path.resolve()


def test_a_date_as_a_name_is_text() -> None:
    assert (
        parse_config("schema_version: 2\nproject: {name: 2024-01-01}\n", path=HERE).settings.project.name
        == "2024-01-01"
    )


def test_the_repository_is_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    path = tmp_path / "conf" / "flame.yaml"
    path.write_text("schema_version: 2\nproject: {name: x, repo: ../code}\n")
    assert load_config(path).repo == (tmp_path / "code").resolve()


def test_a_file_is_judged_the_same_every_time() -> None:
    text = MINIMAL + "permissions: {bash_rules: {blocked_patterns: ['[[:alpha:]]']}}\n"
    assert problems(text) == problems(text)


# --- versions ----------------------------------------------------------------------------------------------------


def test_a_missing_version_is_version_1_with_a_warning() -> None:
    loaded = parse_config("project: {name: x}\n", path=HERE)
    assert loaded.version == 1
    assert any("schema_version: is missing: read as version 1" in warning for warning in loaded.warnings)


@pytest.mark.parametrize("version", [3, 99, 10**20])
def test_a_newer_version_is_refused_before_anything_else(version: int) -> None:
    text = one_problem(f"schema_version: {version}\nunheard_of: 1\n")
    assert f"unsupported schema_version {version} (max supported: 2)" in text


@pytest.mark.parametrize("version", ['"2"', "2.0", "true", "null", "-1", "[2]", "two"])
def test_a_version_that_is_no_number_is_refused(version: str) -> None:
    assert "schema_version: must be a whole number" in problems(f"schema_version: {version}\nproject: {{name: x}}\n")[0]


@pytest.mark.verification(3)
@pytest.mark.parametrize("version", [0, 1])
def test_versions_0_and_1_are_lifted(version: int) -> None:
    loaded = parse_config(
        f"""schema_version: {version}
project: {{name: x}}
models: {{worker: opus}}
limits:
  token_budget: {{worker_tokens: 5000, planner_usd: 0.9, warn_threshold: 0.5}}
""",
        path=HERE,
    )
    worker = loaded.settings.roles["worker"]
    assert (worker.model, worker.budget_tokens, worker.budget_usd) == ("opus", 5000, 0)
    assert loaded.settings.roles["planner"].budget_usd == 0.9
    assert loaded.settings.limits.warn_threshold == 0.5


def test_the_oldest_budgets_are_tokens() -> None:
    loaded = parse_config("project: {name: x}\nlimits: {token_budget: {worker: 100000, planner: 50000}}\n", path=HERE)
    assert loaded.settings.roles["worker"].budget_tokens == 100_000
    assert loaded.settings.roles["worker"].budget_usd == 0


def test_problems_of_a_version_1_file_point_at_its_own_keys_and_lines() -> None:
    found = problems(
        """schema_version: 1
project: {name: x}
models:
  worker: 5
limits:
  token_budget:
    worker_usd: 1
    worker_tokens: 2
    plannr_usd: 3
    merger: many
"""
    )
    assert [problem.split(": ")[:2] for problem in found] == [
        ["blueflame.yaml:4", "models.worker"],
        ["blueflame.yaml:8", "limits.token_budget.worker_tokens"],
        ["blueflame.yaml:9", "limits.token_budget.plannr_usd"],
        ["blueflame.yaml:10", "limits.token_budget.merger"],
    ]


def test_keys_of_schema_2_are_refused_in_schema_1() -> None:
    assert "belongs to schema 2" in one_problem("schema_version: 1\nproject: {name: x}\nworkflows: {}\n")


def test_old_places_are_read_in_schema_2_with_a_warning() -> None:
    loaded = parse_config(MINIMAL + "models: {worker: opus}\n", path=HERE)
    assert loaded.settings.roles["worker"].model == "opus"
    assert any("models: is a section of schema 1" in warning for warning in loaded.warnings)


def test_the_same_in_two_places_is_refused() -> None:
    text = MINIMAL + "models: {worker: opus}\nroles: {worker: {model: haiku}}\n"
    assert "also set by roles.worker.model (line 5)" in one_problem(text)


@pytest.mark.parametrize("content", ["5", "[a]", '"x"'])
def test_an_old_section_that_is_no_mapping_is_refused(content: str) -> None:
    assert "models: must be a mapping" in one_problem(f"project: {{name: x}}\nmodels: {content}\n")


def test_missing_fields_are_named() -> None:
    assert "project: is missing" in one_problem("schema_version: 2\n")
    assert "project.name: is missing" in one_problem("schema_version: 2\nproject:\n")
    assert "project: must be a mapping" in one_problem("schema_version: 2\nproject: x\n")


# --- files -------------------------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path, part in ((tmp_path / "none.yaml", "no such file"), (tmp_path, "cannot be read")):
        with pytest.raises(ConfigError, match=part):
            load_config(path)


def test_bytes_that_are_not_utf8_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(b"a: b\nc: \xff\n")
    with pytest.raises(ConfigError, match=r"c\.yaml:2: the text is not UTF-8"):
        load_config(path)


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("# " + "x" * 1_000_001)
    with pytest.raises(ConfigError, match="too large"):
        load_config(path)


def test_the_nearest_file_is_found_but_none_beyond_the_repository(repo: Path) -> None:
    deep = repo / "src" / "глубоко"
    deep.mkdir()
    (repo.parent / "blueflame.yaml").write_text(MINIMAL)
    with pytest.raises(ConfigError, match="blueflame init"):
        find_config(deep)
    (repo / "blueflame.yaml").write_text(MINIMAL)
    assert find_config(deep) == repo / "blueflame.yaml"
    assert find_config(deep, Path("other.yaml")) == Path("other.yaml")


# --- showing -----------------------------------------------------------------------------------------------------


def test_what_is_shown_means_the_same(tmp_path: Path) -> None:
    loaded = parse_config(
        MINIMAL + "roles: {qa: {timeout: 90s, budget_tokens: 5}}\nvalidation: {validator_models: {a: b}}\n", path=HERE
    )
    again = parse_config(format_config(loaded.settings), path=HERE)
    assert again.settings == loaded.settings
    assert again.digest == loaded.digest
    assert json.loads(format_resolved_json(loaded.settings))["roles"]["qa"]["timeout"] == "90s"


def test_a_comment_does_not_change_the_digest_and_a_value_does() -> None:
    digests = [parse_config(MINIMAL + more, path=HERE).digest for more in ("", "# new\n", "limits: {max_retries: 1}\n")]
    assert digests[0] == digests[1] != digests[2]


def test_the_schema_describes_every_key() -> None:
    schema = json.loads(format_json_schema())
    assert set(schema["properties"]) >= {"project", "roles", "workflows", "runtimes", "gates"}
    assert all(key.description.endswith(".") for key in iter_keys()), "each key says what it means"


@settings(deadline=None)
@given(st.text(max_size=200))
def test_no_text_at_all_causes_anything_but_a_clear_refusal(text: str) -> None:
    try:
        parse_config(text, path=HERE)
    except BlueFlameError as error:
        assert isinstance(error, ConfigError)


KEY_NAMES = st.deferred(lambda: st.sampled_from([key.path[-1] for key in iter_keys()]))  # slow to list: not at import
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY_NAMES, inner, max_size=4),
    max_leaves=8,
)


@settings(deadline=None)
@given(JSON)
def test_no_data_at_all_causes_anything_but_a_clear_refusal(data: object) -> None:
    try:
        parse_config(json.dumps(data), path=HERE)
    except ConfigError as error:
        assert error.problems


@settings(deadline=None)
@given(st.text(alphabet=r"ab/*?[]!^\-.# {}~", min_size=1, max_size=12))
def test_every_glob_that_is_taken_can_be_matched_with(glob: str) -> None:
    try:
        parse_config(f"{MINIMAL}permissions: {{allowed_paths: [{json.dumps(glob)}]}}\n", path=HERE)
    except ConfigError:
        return
    Globs((glob,)).matches("a/b")


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (
            "escalate: [{model: opus}, {runtime: codx}]",
            'escalate[1].runtime: unknown runtime (got "codx"); did you',
        ),
        ("escalate: [{}]", "escalate[0]: names neither a model nor a runtime"),
        ("escalate: [{modl: opus}]", "escalate[0].modl: unknown key; did you mean model?"),
        ("escalate: [{role: qa}]", "escalate[0].role: unknown key; "),
        ("escalate: opus", 'escalate: must be a list (got "opus")'),
        ("retry_backoff_base_ms: -1", "retry_backoff_base_ms: is too small (got -1); write at least 0"),
    ],
)
def test_a_ladder_or_a_wait_that_cannot_be_is_refused_with_its_line(written: str, problem: str) -> None:
    text = f"{MINIMAL}workflows:\n  mine:\n    stages: [work, check]\n    {written}\n"
    line = text.splitlines().index(f"    {written}") + 1
    assert one_problem(text).startswith(f"blueflame.yaml:{line}: workflows.mine.{problem}")


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        ("[work, plan, check]", 'stages[1]: plans, but is not the first stage (got "plan"); put it first'),
        ("[work, merge, check]", 'stages[1]: merges, but is not the last stage (got "merge"); put it last'),
    ],
)
def test_a_stage_at_the_wrong_place_is_named(stages: str, problem: str) -> None:
    text = f"{MINIMAL}workflows:\n  mine:\n    stages: {stages}\n"
    line = text.splitlines().index(f"    stages: {stages}") + 1
    assert one_problem(text).startswith(f"blueflame.yaml:{line}: workflows.mine.{problem}")


def test_an_unknown_key_of_a_rung_is_answered_with_the_keys_that_it_has() -> None:
    text = f"{MINIMAL}workflows:\n  mine:\n    stages: [work, check]\n    escalate: [{{role: qa}}]\n"
    assert one_problem(text).endswith("keys under workflows.mine.escalate[0] are model, runtime")


def test_a_workflow_that_cannot_be_chosen_is_reported_with_its_line() -> None:
    text = f"{MINIMAL}workflows:\n  mine:\n    stages: [work, check, docs]\n"
    line = text.splitlines().index("    stages: [work, check, docs]") + 1
    (found,) = [each for each in parse_config(text, path=HERE).warnings if "mine" in str(each)]
    assert str(found).startswith(f"blueflame.yaml:{line}: workflows.mine.stages: it cannot be chosen: no stage judges")


def test_a_skill_that_no_plugin_has_is_reported_with_its_line(tmp_path: Path) -> None:
    skill = tmp_path / "mine" / "skills" / "tdd" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.touch()
    text = f"{MINIMAL}superpowers: {{plugin: mine}}\nroles:\n  worker:\n    skills: [tdd, bdd]\n"
    (found,) = [each for each in parse_config(text, path=tmp_path / "blueflame.yaml").warnings if "bdd" in each]
    line = text.splitlines().index("    skills: [tdd, bdd]") + 1
    assert found.partition("blueflame.yaml")[2] == (
        f":{line}: roles.worker.skills: bdd has no effect: no plugin has such a skill; did you mean tdd?"
    )


def test_half_of_a_character_is_reported_with_its_line() -> None:
    text = f'{MINIMAL}roles:\n  worker:\n    persona: "cut \\ud83d"\n'
    line = len(text.splitlines())
    assert one_problem(text).startswith(f"blueflame.yaml:{line}: roles.worker.persona: has half of a character")
