"""What an agent may do, printed in words: its policy, one call judged, its sandbox."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from blueflame.cli.console import Heading, build_columns
from blueflame.model.policy import Decision, Policy
from blueflame.model.sandbox import SandboxLevel, SandboxSpec
from blueflame.sandbox.describe import describe_sandbox
from blueflame.sandbox.probe import SandboxProblem
from blueflame.text.marks import BAD, OK
from blueflame.text.sanitize import clean_line, clean_text
from blueflame.views.policy import list_rules, suggest_setting


def render_decision(tool: str, argument: str, decision: Decision) -> RenderableType:
    mark = Text(OK, "good") if decision.allowed else Text(BAD, "bad")
    verdict = "is allowed" if decision.allowed else f"is refused by the rule {decision.rule}"
    rows: list[tuple[str | Text, ...]] = [(mark, clean_line(f"{tool} {argument}".strip()) + f" {verdict}")]
    if decision.details:
        rows.append(("", clean_text(decision.details)))
    if not decision.allowed:
        rows.append(("", f"To allow it: {suggest_setting(decision)}"))
    return build_columns(rows, indent=0)


def render_policy(policy: Policy) -> RenderableType:
    rows = [(Text(heading, "key"), clean_text(words)) for heading, words in list_rules(policy)]
    return Group(Heading(f"What a {policy.role} may do", policy.worktree), build_columns(rows, indent=0))


def format_sandbox(box: SandboxSpec, held: SandboxLevel, problems: Sequence[SandboxProblem]) -> str:
    lines = [f"Level: {box.level.value} is configured; this machine supports {held.value}."]
    lines += [f"  ! {problem.words}" for problem in problems]
    for heading, words in describe_sandbox(box):
        if words or heading.startswith("Nothing"):
            lines += ["", heading + (":" if words else "."), *(f"  {line}" for line in words)]
    lines += ["", "An agent works in its own clone in place of your checkout, and may write to the clone's .git."]
    return "\n".join(lines)
