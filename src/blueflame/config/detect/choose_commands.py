"""Decides what of a trial is written into the configuration, and why the rest is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from blueflame.config.detect.commands import Candidate, Commands, ProjectCommands, combine_commands
from blueflame.lazy_dataclass import dataclass
from blueflame.model.verdict import Check

FEW_FAILURES, FEW_OF = 5, 50  # more of them, and more than one in 50, are a reason to try another way to set it up
MAX_REASON = 160
PYTEST = "-m pytest"
GO_ON = "--continue-on-collection-errors"
EXIT_NOT_FOUND = 127
NOT_FOUND = re.compile(r"^\S+: (?:line )?(?:\d+: )?\S+: (?:command )?not found$", re.MULTILINE)
HINTS = {
    NOT_FOUND: "install the program it needs",
    re.compile(r"\bError 153$|File size limit exceeded|\bEFBIG\b|File too large", re.MULTILINE): (
        "it wrote a larger file than sandbox.max_file_size_mb allows"
    ),
    # how programs report what the gateway answers
    re.compile(r"[Tt]unnel(?: connection)? failed(?:, response|:) 502"): "a registry cannot be reached from here",
    re.compile(r"[Tt]unnel(?: connection)? failed(?:, response|:) 403"): (
        "it wants a host that worktree.registries does not name"
    ),
}
WORD = re.compile(r"\w")  # a line without one is only a rule
RUNNER_LINE = re.compile(  # says only that what it ran has failed
    r"(make|gmake)(\[\d+\])?: |npm (ERR!|error|notice)|\W*ELIFECYCLE|error Command failed|info Visit |error: script "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedProject:
    """One way to set up and test a project, and how it ended: the checks, or the setup command that failed."""

    project: ProjectCommands
    candidate: Candidate
    checks: tuple[Check, ...]
    left_behind: tuple[str, ...] = ()  # files that the checks changed or added, and git does not ignore
    passed_over: tuple[Check, ...] = ()  # red tests of a likelier candidate that this one does without

    @property
    def tests(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.name in self.candidate.tests)

    @property
    def failures(self) -> tuple[str, ...]:
        return tuple(name for check in self.tests for name in check.failures)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A command that did not work, and the reason in one line."""

    command: str
    reason: str
    setup: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandChoice:
    """What worked on the base, what did not, and what is red there and kept."""

    commands: Commands
    checks: tuple[Check, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    left_behind: tuple[str, ...] = ()

    def describe_left_behind(self) -> str:
        """What agents would commit by accident; "" when the checks leave the checkout as it was."""
        if not self.left_behind:
            return ""
        named = ", ".join(self.left_behind[:3]) + (" ..." if len(self.left_behind) > 3 else "")
        return _cut(f"the checks change or add files that git does not ignore: {named}")

    def describe_red(self, command: str) -> str:
        """Why a command that is written is not green; "" when it is."""
        found = next((check for check in self.checks if check.name == command and not check.passed), None)
        return describe_check(found) if found is not None else ""


def is_usable(tried: TriedProject) -> bool:
    """Whether setup worked and the tests ran: green, or red with the names of what failed."""
    ran = len(tried.tests) == len(tried.candidate.tests) and not _find_failed_setup(tried)
    return ran and all(
        check.passed or (check.failures and not check.timed_out and not _is_interrupted(check)) for check in tried.tests
    )


def is_good_enough(tried: TriedProject) -> bool:
    ran = sum(check.tests or 0 for check in tried.tests)
    return is_usable(tried) and len(tried.failures) <= max(FEW_FAILURES, ran // FEW_OF)


def find_variant(tried: TriedProject) -> Candidate | None:
    """The same candidate in another form, where this one leaves the checkout changed or was interrupted."""
    candidate = tried.candidate
    if any(_is_interrupted(check) for check in tried.tests):
        lines = (f"{line} {GO_ON}" if PYTEST in line and GO_ON not in line else line for line in candidate.tests)
        return _differ(candidate, replace(candidate, tests=tuple(lines)))
    if tried.left_behind and not candidate.setup and is_good_enough(tried):  # with a setup, a copy costs too much
        return _differ(candidate, candidate.run_in_copy())
    return None


def choose_tried(tried: Sequence[TriedProject]) -> TriedProject:
    """The last one if it is good enough, else the one with the fewest failures; never one that did not run."""
    usable = [each for each in tried if is_usable(each)]
    if not usable:
        return tried[0]
    best = tried[-1] if is_good_enough(tried[-1]) else min(usable, key=lambda each: len(each.failures))
    lines = set(best.candidate.tests)
    return replace(best, passed_over=tuple(check for check in tried[0].tests if check.name not in lines))


def choose_commands(tried: Iterable[TriedProject]) -> CommandChoice:
    """Write setups that worked, tests that ran, and linters that are green; the rest is left out with its reason."""
    results = tuple(tried)
    ready = [each for each in results if not _find_failed_setup(each)]
    lost = {left.command for each in ready for left in _list_left_out(each)}
    chosen = combine_commands((each.project, each.candidate) for each in ready)
    kept = replace(
        chosen,
        tests=tuple(line for line in chosen.tests if line not in lost),
        lints=tuple(line for line in chosen.lints if line not in lost),
    )
    return CommandChoice(
        commands=kept,
        checks=tuple(check for each in ready for check in each.checks if check.name not in lost),
        left_out=tuple(left for each in results for left in _list_left_out(each)),
        left_behind=tuple(name for each in ready for name in each.left_behind),
    )


def _list_left_out(tried: TriedProject) -> Iterator[LeftOut]:
    failed = _find_failed_setup(tried)
    if failed is not None:
        yield from (
            LeftOut(line, describe_check(failed) if line == failed.name else "", setup=True)
            for line in tried.candidate.setup
        )
        yield from (LeftOut(line, "its setup failed") for line in (*tried.candidate.tests, *tried.project.lints))
        return
    yield from (LeftOut(check.name, describe_check(check)) for check in tried.passed_over)
    is_kept = is_usable(tried)
    for check in tried.checks:
        if not (is_kept if check in tried.tests else check.passed):
            yield LeftOut(check.name, describe_check(check) or "another test of its project did not run")


def _is_interrupted(check: Check) -> bool:
    """Whether pytest ran no test at all because it could not import some: its names say nothing about the rest."""
    return not check.passed and PYTEST in check.name and "during collection !" in check.output


def _differ(candidate: Candidate, other: Candidate) -> Candidate | None:
    return other if other != candidate else None


def _find_failed_setup(tried: TriedProject) -> Check | None:
    lines = {*tried.candidate.tests, *tried.project.lints}
    return next((check for check in tried.checks if check.name not in lines and not check.passed), None)


def describe_check(check: Check) -> str:
    """Why it is red, in one line; "" when it is green."""
    if check.passed:
        return ""
    if check.timed_out:
        return f"it took longer than {check.seconds / 60:.0f} min"
    if check.failures:
        named = ", ".join(check.failures[:3]) + (" ..." if len(check.failures) > 3 else "")
        tests = "1 test fails" if len(check.failures) == 1 else f"{len(check.failures)} tests fail"
        return _cut(f"{tests}: {named}")
    lines = [line.strip() for line in check.output.splitlines() if WORD.search(line)]
    last = next((line for line in reversed(lines) if not RUNNER_LINE.match(line)), lines[-1] if lines else "no output")
    last = next((line for line in lines if NOT_FOUND.search(line)), last)  # what follows is often only its consequence
    return f"exit {check.exit_code}: {_cut(last)}{_suggest_fix(check)}"


def _suggest_fix(check: Check) -> str:
    if check.exit_code == EXIT_NOT_FOUND:
        return f"; {HINTS[NOT_FOUND]}"
    return next((f"; {hint}" for sign, hint in HINTS.items() if sign.search(check.output)), "")


def _cut(text: str) -> str:
    plain = "".join(letter for letter in text if letter.isprintable())
    return plain if len(plain) <= MAX_REASON else f"{plain[: MAX_REASON - 4]} ..."
