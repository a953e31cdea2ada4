"""Schema 1 becomes schema 2 with its comments and its order, and means the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.config.load import parse_config
from blueflame.config.migrate import count_comments, find_comments, migrate_config
from blueflame.model.errors import ConfigError

HERE = Path("blueflame.yaml")

BLOCKS = """# heading

schema_version: 1   # the version

project:
  name: "x # no comment"   # a name

limits:
    max_retries: 3
    # budgets follow
    token_budget:   # per agent
        # dollars
        planner_usd: 0.40   # planner's
        worker_tokens: 5000
        # eighty
        warn_threshold: 0.5   # percent
        # the end
    max_wave_cycles: 4

# which model
models:   # by role
  worker: 'opus'   # strong
  validator: haiku

hooks:
  post_plan: ""
"""

MIGRATED = """# heading

schema_version: 2   # the version

project:
  name: "x # no comment"   # a name

limits:
  max_retries: 3
    # budgets follow
  warn_threshold: 0.5 # percent
  max_wave_cycles: 4

# which model
# per agent
# dollars
# eighty
# the end
# by role
roles:
  planner:
    budget_usd: 0.40  # planner's
  worker:
    model: 'opus'  # strong
    budget_tokens: 5000
  validator:
    model: haiku

hooks:
  post_plan: ""
"""


def same(before: str, after: str) -> bool:
    return parse_config(before, path=HERE).settings == parse_config(after, path=HERE).settings


@pytest.mark.verification(3)
def test_a_comment_beside_a_value_moves_with_it_and_others_stand_above_roles() -> None:
    migrated = migrate_config(BLOCKS)
    assert migrated.text == MIGRATED
    assert migrated.changes == (
        "schema_version: 1 -> 2",
        "limits.token_budget.planner_usd -> roles.planner.budget_usd",
        "models.worker -> roles.worker.model",
        "limits.token_budget.worker_tokens -> roles.worker.budget_tokens",
        "models.validator -> roles.validator.model",
        "limits.token_budget.warn_threshold -> limits.warn_threshold",
    )


@pytest.mark.verification(3)
def test_the_result_has_nothing_left_to_migrate() -> None:
    once = migrate_config(BLOCKS)
    again = migrate_config(once.text)
    assert (again.text, again.changes) == (once.text, ())


P = "project: {name: x}\n"
V2 = "schema_version: 2\n"
FILES = {
    "flow style": "{schema_version: 1, project: {name: x}, models: {worker: opus}}\n",
    "flow sections": P[:-1] + "  # why\nmodels: {worker: opus}  # strong\nlimits: {token_budget: {worker: 5}}\n",
    "anchors": P + "models:\n  planner: &big opus  # big\n  worker: *big\n",
    "merge keys": P + "models: &m\n  worker: opus\nlimits:\n  token_budget:\n    <<: {worker_usd: 3}\n",
    "only budgets": P + "limits:\n  token_budget:\n    worker: 100000\n    validator: 30000  # little\n",
    "budgets last": P + "limits:\n  max_retries: 1\n  token_budget:\n    worker_usd: 2",
    "budgets first": P + "limits:\n  token_budget:\n    worker_usd: 2\n  max_retries: 1\nhooks:\n  post_plan: a\n",
    "empty sections": P + "models:   # later\nlimits:\n  token_budget:   # too\n",
    "no newline": P + "models:\n  worker: opus",
    "markers": "%YAML 1.2\n---\n# c\nproject: {name: x}\nmodels:\n  worker: opus\n...\n",
    "quoted keys": "\"project\": {name: x}\n'models':\n  'worker': \"opus\"  # q\n",
    "multi-line value": P + "models:\n  worker: >-\n    opus\n  planner: haiku\n",
    "value below its key": P + "models:\n  worker:\n    opus  # below\n",
    "blank lines": P + "models:\n\n  worker: opus\n\n  # p\n\n  planner: haiku\n\n\n",
    "version zero": "schema_version: 0 # old\nproject: {name: x}\n",
    "old places in 2": V2 + P + "models:\n  worker: opus\n",
    "roles beside old places": V2 + P + "roles:\n  qa: {model: a}  # qa\nmodels:\n  worker: b  # w\n",
    "windows": "project: {name: x}\r\nmodels:\r\n  worker: opus   # сильный\r\n",
    "unicode": "# заголовок\nproject: {name: проект}\nmodels:\n  worker: opus # модель\n",
}


@pytest.mark.parametrize("name", FILES)
def test_every_way_of_writing_is_migrated_without_loss(name: str) -> None:
    before = FILES[name]
    migrated = migrate_config(before)
    assert migrated.changes
    assert same(before, migrated.text)
    assert parse_config(migrated.text, path=HERE).version == 2
    assert not count_comments(before.replace("\r", "")) - count_comments(migrated.text.replace("\r", ""))
    assert migrate_config(migrated.text).changes == ()


def test_line_endings_stay_as_they_are() -> None:
    assert "\n" not in migrate_config(FILES["windows"]).text.replace("\r\n", "")


def test_the_heading_of_the_next_section_stays_above_it() -> None:
    text = "schema_version: 1\nproject: {name: x}\nmodels:\n  worker: opus\n\n# hooks\nhooks:\n  post_plan: a\n"
    assert migrate_config(text).text.endswith("    model: opus\n\n# hooks\nhooks:\n  post_plan: a\n")


def test_a_missing_version_goes_before_the_first_key_and_its_comment() -> None:
    text = "# heading\n\n# the project\nproject: {name: x}\n"
    assert migrate_config(text).text == "# heading\n\nschema_version: 2\n\n# the project\nproject: {name: x}\n"


@pytest.mark.parametrize("text", ["a: b: c\n", "", "project: {nam: x}\n", "schema_version: 3\n"])
def test_a_file_with_problems_is_not_migrated(text: str) -> None:
    with pytest.raises(ConfigError):
        migrate_config(text)


def test_a_hash_in_a_value_is_no_comment() -> None:
    text = "a: 'x # y'  # z\nb: |\n  # text\nc: x#y\n# w\n"
    assert find_comments(text) == [(0, "# z"), (4, "# w")]


VALUES = st.sampled_from(["opus", '"haiku"', "'x y'"])
COMMENTS = st.sampled_from(["", "  # one", "  # two: {", "\n    # three"])


@settings(max_examples=40)
@given(
    st.dictionaries(st.sampled_from(["planner", "worker", "validator", "merger"]), st.tuples(VALUES, COMMENTS)),
    st.dictionaries(
        st.sampled_from(["planner_usd", "worker_tokens", "validator", "warn_threshold"]),
        st.tuples(st.sampled_from(["1", "0.5"]), COMMENTS),
    ),
    st.booleans(),
)
def test_migration_never_changes_the_meaning_and_never_loses_a_comment(
    models: dict[str, tuple[str, str]], budgets: dict[str, tuple[str, str]], with_version: bool
) -> None:
    text = "schema_version: 1\n" if with_version else ""
    text += "project:\n  name: x\nlimits:\n  token_budget:\n"
    for key, (value, comment) in budgets.items():
        whole = "1" if key in ("worker_tokens", "validator") else value
        text += f"    {key}: {whole}{comment}\n"
    text += "models:\n" + "".join(f"  {key}: {value}{comment}\n" for key, (value, comment) in models.items())
    migrated = migrate_config(text)
    assert same(text, migrated.text)
    assert not count_comments(text) - count_comments(migrated.text)
