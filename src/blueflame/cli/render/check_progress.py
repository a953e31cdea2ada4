"""Shows setup and checks while they are tried: one line for each command, as it begins and ends."""

from __future__ import annotations

from blueflame.cli.output import print_text
from blueflame.config.detect.choose_commands import describe_check
from blueflame.model.verdict import Check
from blueflame.text.format import format_duration
from blueflame.text.marks import BAD, OK


class CheckProgress:
    """Writes to standard error, so that standard output holds the result alone."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._is_begun = False

    def report(self, line: str, check: Check | None) -> None:
        if self._quiet:
            return
        if not self._is_begun:
            self._is_begun = True
            print_text("Trying setup and checks in the sandbox, on the base commit", err=True)
        if check is None:
            print_text(f"    {line} ...", err=True)
        else:
            why = describe_check(check)
            print_text(
                f"  {OK if check.passed else BAD} {format_duration(check.seconds)}" + (f"  {why}" if why else ""),
                err=True,
            )
