"""Scripts for scripted agents: how they are read, their problems, and which steps an attempt gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.agents.runtime import AgentBrief
from blueflame.agents.scripted.behaviours import BEHAVIOURS
from blueflame.agents.scripted.placeholders import PLACEHOLDERS, escape_placeholders, fill_placeholders
from blueflame.agents.scripted.script import BUILT_IN_SCRIPT, build_attempt_steps, load_script, parse_script
from blueflame.agents.scripted.steps import STEP_READERS
from blueflame.model.attempt import Duty
from blueflame.model.errors import ScriptError
from blueflame.model.task import Task

TASK = Task(id="task-007", title="Add  a\nlight", description="so that one sees", file_locks=("src/lights/",))
BRIEF = AgentBrief(
    attempt="ses-20260101-000000.task-007.worker.1",
    agent_id="worker-0a1b2c3d",
    role="worker",
    subject="task-007",
    n=1,
    session="ses-20260101-000000",
    worktree="/nowhere",
    prompt="do it",
    task=TASK,
)


def steps(script: str, brief: AgentBrief = BRIEF) -> list[dict[str, Any]]:
    return [dict(step) for step in build_attempt_steps(parse_script(script, source="play.yaml"), brief)]


def problems(script: str) -> tuple[str, ...]:
    with pytest.raises(ScriptError) as caught:
        parse_script(script, source="play.yaml")
    return caught.value.problems


def test_an_attempt_plays_its_own_steps_then_any_then_the_defaults_then_good() -> None:
    script = parse_script(
        """
schema_version: 1
defaults:
  worker: {2: [say: second by default], "*": [say: by default]}
tasks:
  task-007:
    worker: {1: [say: first], 3: [say: third]}
  task-008:
    worker: {1: [say: first of eight], "*": [say: any other of eight]}
""",
        source="play.yaml",
    )

    def said(subject: str, n: int, role: str = "worker") -> object:
        chosen = build_attempt_steps(script, replace(BRIEF, subject=subject, n=n, role=role))
        return chosen[0].get("text")

    assert said("task-007", 1) == "first"
    assert said("task-007", 2) == "second by default"
    assert said("task-007", 3) == "third"
    assert said("task-007", 4) == "by default"
    assert said("task-008", 1) == "first of eight"
    assert said("task-008", 2) == "any other of eight"
    assert said("task-009", 9) == "by default"
    assert said("task-007", 1, role="backend") == "first", "it makes, as a worker does"
    assert said("task-007", 1, role="validator") is None


def test_every_step_is_read_in_its_short_and_its_long_form() -> None:
    read = steps(
        """
tasks:
  task-007:
    worker:
      - write: {path: "a b.py", text: "x = {1: 2}"}
      - write: {path: run.sh, lines: ["#!/bin/sh", "echo hi"], executable: true}
      - append: {path: a, text: more}
      - delete: old
      - delete: [one, two]
      - mkdir: docs
      - note
      - note: by {agent}
      - run: make test
      - run: {command: "false", allow_failure: true, timeout: 5}
      - commit: "feat({task}): attempt {attempt}"
      - commit: {message: m, paths: [a], allow_empty: true}
      - say: hello
      - sleep: 0.5
      - sleep: {seconds: forever, ignore_term: true}
      - usage: {input_tokens: 5, cost_usd: 0.25}
      - plan: [{id: task-001}]
      - verdict: pass
      - verdict: {status: fail, notes: no, issues: [a], confidence: 0.5}
      - answer: not what was asked
      - expect: {path: a, contains: b}
      - expect: {prompt: rejected}
      - flood: 2
      - exit: 3
      - exit: {signal: SIGKILL}
      - exit
"""
    )

    assert read == [
        {"do": "write", "path": "a b.py", "text": "x = {1: 2}", "executable": False},
        {"do": "write", "path": "run.sh", "text": "#!/bin/sh\necho hi\n", "executable": True},
        {"do": "append", "path": "a", "text": "more"},
        {"do": "delete", "paths": ["old"]},
        {"do": "delete", "paths": ["one", "two"]},
        {"do": "mkdir", "path": "docs"},
        {
            "do": "note",
            "text": "Add a light (task-007, attempt 1)",
            "file": "blueflame-note.md",
            "locks": ["src/lights/"],
        },
        {"do": "note", "text": "by worker-0a1b2c3d", "file": "blueflame-note.md", "locks": ["src/lights/"]},
        {"do": "run", "command": "make test", "allow_failure": False, "timeout": 0},
        {"do": "run", "command": "false", "allow_failure": True, "timeout": 5},
        {"do": "commit", "message": "feat(task-007): attempt 1", "paths": [], "allow_empty": False},
        {"do": "commit", "message": "m", "paths": ["a"], "allow_empty": True},
        {"do": "say", "text": "hello"},
        {"do": "sleep", "seconds": 0.5, "ignore_term": False},
        {"do": "sleep", "seconds": -1.0, "ignore_term": True},
        {"do": "usage", "input_tokens": 5, "cost_usd": 0.25},
        {"do": "answer", "output": {"tasks": [{"id": "task-001"}]}},
        {"do": "answer", "output": {"status": "pass", "notes": "does what the task asks", "issues": []}},
        {"do": "answer", "output": {"status": "fail", "notes": "no", "issues": ["a"], "confidence": 0.5}},
        {"do": "answer", "output": "not what was asked"},
        {"do": "expect", "path": "a", "contains": "b"},
        {"do": "expect", "contains": "rejected"},
        {"do": "flood", "megabytes": 2},
        {"do": "exit", "code": 3},
        {"do": "exit", "signal": 9},
        {"do": "exit", "code": 0},
    ]


def test_every_problem_is_reported_with_its_line_and_a_fix() -> None:
    found = problems(
        """schema_version: 7
defualts: {}
defaults:
  Worker: good
  worker: goood
tasks:
  task-7/../x: {worker: good}
  task-001:
    worker:
      0: good
      1:
        - comit: message
        - write: {path: a}
        - write: {path: a, text: b, mode: 7}
        - exit: 900
        - say: hi
          sleep: 1
      first: good
    validator: [verdict: maybe]
    qa: 5
planner: good
"""
    )

    assert found == (
        "play.yaml:1: schema_version: 7 is not supported; this version reads 1",
        "play.yaml:2: unknown key 'defualts'; did you mean defaults?; "
        "the keys are schema_version, defaults, planner, tasks",
        "play.yaml:4: defaults: 'Worker' is not the name of a role",
        "play.yaml:5: defaults.worker: 'goood' is not a behaviour; did you mean good?; "
        f"there are {', '.join(BEHAVIOURS)}",
        "play.yaml:7: tasks: 'task-7/../x' is not a task id like task-001",
        "play.yaml:10: tasks.task-001.worker: '0' is not an attempt: 1, 2, ... or '*'",
        "play.yaml:12: tasks.task-001.worker.1[0]: unknown step 'comit'; did you mean commit?; "
        f"the steps are {', '.join(STEP_READERS)}",
        "play.yaml:13: tasks.task-001.worker.1[1]: write: give either `text` or `lines`",
        "play.yaml:14: tasks.task-001.worker.1[2]: write: unknown key 'mode'; "
        "the keys are path, text, lines, executable",
        "play.yaml:15: tasks.task-001.worker.1[3]: exit: 900 is not an exit code (0 to 255) and not {signal: NAME}",
        "play.yaml:16: tasks.task-001.worker.1[4]: "
        "a step is written `verb: argument`, one verb each, like `say: hello`",
        "play.yaml:18: tasks.task-001.worker: 'first' is not an attempt: 1, 2, ... or '*'",
        "play.yaml:19: tasks.task-001.validator[0]: verdict: 'maybe' is neither pass nor fail; "
        "for a broken verdict use `answer`",
        "play.yaml:20: tasks.task-001.qa: expected a list of steps or a behaviour's name, not 5",
    )


@pytest.mark.parametrize(
    ("step", "reported"),
    [
        ("write: text", "write: expected a mapping"),
        ("write: {path: a, text: 5}", "put it in quotes"),
        ("write: {path: '', text: x}", "write.path: a path"),
        ("write: {path: a, lines: x}", "a list of texts"),
        ("write: {path: a, text: x, executable: maybe}", "neither true nor false"),
        ("append: {path: a, text: x, lines: []}", "either `text` or `lines`"),
        ("delete: []", "delete: a path"),
        ("delete: [5]", "delete: a path"),
        ("run: {command: x, timeout: -1}", "not a number of 0 or more"),
        ("run: [x]", "run: expected a mapping"),
        ("commit: ''", "commit: a message"),
        ("say: {text: x}", "say: a text"),
        ("sleep: long", "sleep: seconds, or forever"),
        ("sleep: true", "not a number"),
        ("sleep: .inf", "not a number"),
        ("usage: {input_tokens: 1.5}", "a whole number"),
        ("usage: {input_tokens: -1}", "a whole number"),
        ("usage: {cost: 1}", "did you mean cost_usd?"),
        ("usage: {cost_usd: much}", "dollars"),
        ("plan: {task: []}", "for a broken plan use `answer`"),
        ("verdict: [pass]", "verdict: expected a mapping"),
        ("exit: {signal: TREM}", "did you mean TERM?"),
        ("exit: true", "is not an exit code"),
        ("expect: {path: a}", "`contains` or `lacks`"),
        ("expect: {path: a, prompt: b}", "`path` with `contains`"),
        ("expect: {}", "`path` with `contains`"),
        ("flood: much", "megabytes"),
        ("play: god", "did you mean good?"),
        ("5", "one verb each"),
        ("{rogue: true}", "one verb each"),
        ("{run: make, say: x, rogue: true}", "one verb each"),
        ("{say: x, rogue: true}", "say does not ask the hook"),
        ("{exit: 1, rogue: hidden}", "exit does not ask the hook"),
        ("{run: make, rogue: sometimes}", "neither true nor false nor unasked nor hidden"),
        ("{run: make, rogue: 1}", "neither true nor false nor unasked nor hidden"),
    ],
)
def test_a_wrong_step_is_reported_with_a_fix(step: str, reported: str) -> None:
    (problem,) = problems(f"defaults:\n  worker:\n    - {step}\n")

    assert problem.startswith("play.yaml:3: defaults.worker[0]: ")
    assert reported in problem


def test_a_step_can_be_marked_as_rogue() -> None:
    read = steps(
        """
defaults:
  worker:
    - {write: {path: "{task}", text: x}, rogue: true}
    - run: make
      rogue: unasked
    - rogue: hidden
      delete: [a]
    - {mkdir: a, rogue: false}
    - {verdict: pass, rogue: true}
"""
    )

    assert [step.get("rogue") for step in read] == [True, "unasked", "hidden", None, True]
    assert (read[0]["path"], read[4]["do"]) == ("task-007", "answer")


def test_a_character_can_be_rogue_in_all_that_it_does() -> None:
    read = steps("defaults: {worker: [{play: good, rogue: hidden}, play: good]}")

    assert [(step["do"], step.get("rogue")) for step in read] == [
        ("say", None),
        ("note", "hidden"),
        ("commit", "hidden"),
        ("usage", None),
        ("say", None),
        ("note", None),
        ("commit", None),
        ("usage", None),
    ]


def test_the_scope_breaker_acts_although_it_is_refused() -> None:
    assert [step["do"] for step in steps("defaults: {worker: scope-breaker}") if "rogue" in step] == ["write"]


@pytest.mark.parametrize("text", ["[a, b]", "just words", "5"])
def test_a_script_that_is_no_mapping_is_refused(text: str) -> None:
    (problem,) = problems(text)

    assert "a script is a mapping" in problem


def test_unreadable_yaml_is_reported_with_its_line() -> None:
    (problem,) = problems("defaults:\n  worker: [\n")

    assert problem.startswith("play.yaml:")
    assert "YAML" in problem


def test_a_key_that_is_given_twice_is_a_problem() -> None:
    assert any("twice" in problem for problem in problems("defaults: {}\ndefaults: {}\n"))


def test_the_planner_may_stand_at_the_top_but_not_in_two_places() -> None:
    planner = replace(BRIEF, role="planner", subject="plan", task=None)

    assert steps("planner: [say: I plan]", planner) == [{"do": "say", "text": "I plan"}]
    (problem,) = problems("planner: good\ndefaults: {planner: good}\n")
    assert "keep one of them" in problem


def test_an_empty_script_is_the_built_in_one(tmp_path: Path) -> None:
    path = tmp_path / "пустой.yaml"
    path.write_text("# nothing yet\n")

    assert build_attempt_steps(load_script(path), BRIEF) == build_attempt_steps(BUILT_IN_SCRIPT, BRIEF)


def test_a_missing_script_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="does not exist"):
        load_script(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("allowed", "lock"),
    [
        ((), "blueflame-note.md"),
        (("src/**",), "src/blueflame-note.md"),
        (("src/",), "src/blueflame-note.md"),
        (("src/*.py", "tests/**"), "src/blueflame_note.py"),
        (("**/*.go",), "blueflame_note.go"),
        (("README.md",), "README.md"),
        (("packages/*/src/**",), "packages/blueflame/src/blueflame-note.md"),
    ],
)
def test_the_built_in_planner_makes_one_task_where_it_may(allowed: tuple[str, ...], lock: str) -> None:
    planner = replace(BRIEF, role="planner", subject="plan", request="Say {task}\nnicely", allowed_paths=allowed)

    (answer,) = [step for step in build_attempt_steps(BUILT_IN_SCRIPT, planner) if step["do"] == "answer"]

    (task,) = answer["output"]["tasks"]
    assert (task["id"], task["title"], task["description"]) == ("task-001", "Say {task} nicely", "Say {task}\nnicely")
    assert task["file_locks"] == [lock]


def test_a_role_of_the_users_own_does_what_its_duty_is() -> None:
    judged = build_attempt_steps(BUILT_IN_SCRIPT, replace(BRIEF, role="review-git", declared_duty=Duty.JUDGE))
    worked = build_attempt_steps(BUILT_IN_SCRIPT, replace(BRIEF, role="backend"))

    assert judged[0]["output"]["status"] == "pass"
    assert [step["do"] for step in worked] == ["say", "note", "commit", "usage"]


def test_a_role_without_steps_of_its_own_plays_those_of_its_duty() -> None:
    script = parse_script("defaults: {worker: [{say: w}], validator: [{say: v}], qa: [{say: q}]}", source="x")
    roles = {"backend": Duty.MAKE, "review-git": Duty.JUDGE, "qa": Duty.JUDGE}
    briefs = (replace(BRIEF, role=role, declared_duty=duty) for role, duty in roles.items())
    assert [build_attempt_steps(script, brief)[0]["text"] for brief in briefs] == ["w", "v", "q"]


@pytest.mark.parametrize("character", BEHAVIOURS)
@pytest.mark.parametrize("role", ["planner", "worker", "validator"])
def test_every_behaviour_works_for_every_role(character: str, role: str) -> None:
    played = steps(f"defaults: {{{role}: [play: {character}]}}", replace(BRIEF, role=role))

    assert played
    assert all(step["do"] not in ("play", "work") for step in played)
    assert "{" not in str([step.get("text") for step in played])


@given(st.lists(st.sampled_from([*"{}aτ \n", *(f"{{{name}}}" for name in PLACEHOLDERS)])))
def test_an_escaped_text_is_filled_in_unchanged(pieces: list[str]) -> None:
    text = "".join(pieces)

    assert fill_placeholders(escape_placeholders(text), dict.fromkeys(PLACEHOLDERS, "filled")) == text


@given(st.text(alphabet="{}abc:% \n"))
def test_braces_that_are_no_blanks_are_left_alone(text: str) -> None:
    assert fill_placeholders({"k": [text]}, dict.fromkeys(PLACEHOLDERS, "filled")) == {"k": [text]}


def test_placeholders_are_filled_everywhere_and_doubled_braces_escape_them() -> None:
    values = dict.fromkeys(PLACEHOLDERS, "?") | {"task": "task-001"}

    assert fill_placeholders({"a": ["{task}/{{task}}/{other}", 5, None]}, values) == {
        "a": ["task-001/{task}/{other}", 5, None]
    }


GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "write-scripted-agents.md"


def test_the_guide_names_every_step_character_and_blank() -> None:
    guide = GUIDE.read_text()

    assert [verb for verb in STEP_READERS if f"| `{verb}:" not in guide] == []
    assert [name for name in BEHAVIOURS if f"| `{name}` |" not in guide] == []
    assert [name for name in PLACEHOLDERS if f"`{{{name}}}`" not in guide] == []


def test_the_scripts_in_the_guide_can_be_played() -> None:
    examples = [part.partition("```")[0] for part in GUIDE.read_text().split("```yaml\n")[1:]]
    scripts = [example for example in examples if not example.startswith("runtimes:")]

    assert len(scripts) == 3
    for example in scripts:
        parse_script(example, source="guide")
