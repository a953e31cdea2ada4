"""`--model`, `--budget`, `--base` and `--jobs`: settings for one session, without a change of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from blueflame.cli.agent_shell import refuse_agent_shell
from blueflame.cli.options import check_role
from blueflame.model.errors import UsageError
from blueflame.model.limits import MAX_WORKERS

if TYPE_CHECKING:
    from blueflame.model.settings import Settings

OVERRIDE_OPTIONS = (
    click.option(
        "--model",
        "models",
        multiple=True,
        metavar="[ROLE=]NAME",
        help="Model of the roles that commit, or of the role; repeatable.",
    ),
    click.option("--budget", type=float, metavar="USD", help="What the session may cost in dollars."),
    click.option("--base", metavar="BRANCH", help="Branch to start from and to land on."),
    click.option(
        "--jobs", "-j", type=click.IntRange(1, MAX_WORKERS), metavar="N", help="How many workers may run at once."
    ),
)


class Overrides(NamedTuple):
    models: tuple[str, ...] = ()
    budget: float | None = None
    base: str | None = None
    jobs: int | None = None


OVERRIDE_PARAMETERS = Overrides._fields


def override_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options; the command gets them as `overrides`."""

    @wraps(command)
    def call(
        *,
        models: tuple[str, ...],
        budget: float | None,
        base: str | None,
        jobs: int | None,
        **rest: Any,  # noqa: ANN401 (the other options of the command)
    ) -> int:
        return command(overrides=Overrides(models, budget, base, jobs), **rest)

    return reduce(lambda function, option: option(function), reversed(OVERRIDE_OPTIONS), call)


def list_overrides(given: Overrides, settings: Settings, workflow: str | None) -> Mapping[str, Any]:
    """Return the values by the keys of the configuration."""
    found: dict[str, Any] = {}
    if given.budget is not None:
        if not given.budget > 0:
            raise UsageError(f"--budget: {given.budget} dollars is no budget; give an amount above 0")
        if not 0 < given.budget <= settings.limits.max_session_cost_usd:  # less than what is trusted is no decision
            refuse_agent_shell("a higher budget")
        found |= {"limits.max_session_cost_usd": given.budget, "limits.max_session_tokens": 0}
    if given.base is not None:
        found["project.base_branch"] = given.base
    if given.jobs is not None:
        found["concurrency.development"] = given.jobs
    return found | dict(_list_models(given.models, settings, workflow))


def _list_models(models: tuple[str, ...], settings: Settings, workflow: str | None) -> Iterator[tuple[str, str]]:
    from blueflame.session.from_settings import list_making_roles  # late: it loads the settings' validators

    for word in sorted(models, key=lambda word: "=" in word):  # that of a role counts, wherever it is written
        named, _, model = word.rpartition("=")
        for role in [check_role("--model", named, settings.roles)] if named else list_making_roles(settings, workflow):
            yield f"roles.{role}.model", model
