"""The kinds of value that settings are made of: durations, globs, patterns, commands, names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema, model_validator
from pydantic.functional_validators import AfterValidator

from blueflame.model.ids import ROLE_NAME


class Wrong(ValueError):
    """A value that cannot be taken: what is wrong with it, and what would be right."""

    def __init__(self, wrong: str, right: str, *, at: tuple[str | int, ...] = (), got: object = ...) -> None:
        super().__init__(f"{wrong}; {right}")
        self.wrong = wrong
        self.right = right
        self.at = at  # where, below the place that raises
        self.got = got


class SeveralWrong(ValueError):
    """More than one at once, each with its place."""

    def __init__(self, wrongs: tuple[Wrong, ...]) -> None:
        super().__init__("; ".join(str(wrong) for wrong in wrongs))
        self.wrongs = wrongs


class Section(BaseModel):
    """A mapping of known keys. A section whose keys are all commented out is the section with its defaults."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _empty_means_defaults(cls, data: object) -> object:
        return {} if data is None else data


# --- durations ---------------------------------------------------------------------------------------------------

UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
DURATION = re.compile(
    r"(?:\d+(?:\.\d+)?d)?(?:\d+(?:\.\d+)?h)?(?:\d+(?:\.\d+)?m)?(?:\d+(?:\.\d+)?s)?(?:\d+ms)?", re.ASCII
)
LONGEST = 365 * UNITS["d"]
HOW_DURATIONS_LOOK = "write a duration such as 300s, 5m or 1h30m, or a number of seconds"


def seconds(value: object) -> float:
    """300 of `300s`, `5m` and 300; 5400 of `1h30m`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Wrong("is not a duration", HOW_DURATIONS_LOOK)
    if isinstance(value, str):
        return _parsed(value)
    return float(value) if value <= LONGEST else LONGEST + 1


def _parsed(text: str) -> float:
    text = text.strip()
    if not text or not DURATION.fullmatch(text):
        raise Wrong("is not a duration", HOW_DURATIONS_LOOK)
    parts = re.findall(r"([\d.]+)(ms|[dhms])", text)
    return round(sum(float(number) * UNITS[unit] for number, unit in parts), 3)


def show_duration(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "s"


def _at_least(least: float) -> Callable[[object], float]:
    def check(value: object) -> float:
        found = seconds(value)
        if not least <= found <= LONGEST:  # also refuses NaN
            raise Wrong("is out of range", f"write a duration from {'1ms' if least else '0s'} to 365d")
        return found

    return check


AS_DURATION = PlainSerializer(show_duration, return_type=str)
_DURATION_SCHEMA = {
    "anyOf": [{"type": "string", "pattern": r"^[0-9.dhms]+$"}, {"type": "number", "minimum": 0}],
    "examples": ["300s", "5m", "1h30m"],
}
Duration = Annotated[float, BeforeValidator(_at_least(0.001)), AS_DURATION, WithJsonSchema(_DURATION_SCHEMA)]
DurationOrOff = Annotated[float, BeforeValidator(_at_least(0)), AS_DURATION, WithJsonSchema(_DURATION_SCHEMA)]

# --- text --------------------------------------------------------------------------------------------------------

CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def _one_line(text: str) -> str:
    if not text.strip():
        raise Wrong("is empty", "write some text")
    if CONTROL.search(text):
        raise Wrong("holds a line break or a control character", "write it on one line")
    return text


def _command(text: str) -> str:
    if not text.strip():
        raise Wrong("is an empty command", "write the command, or take the entry out")
    if "\0" in text:
        raise Wrong("holds a NUL character", "write a command that a shell can run")
    return text


def _hook(text: str) -> str:
    return _command(text) if text else ""


def _off(value: object) -> object:
    return "" if value is None else value


def _role_name(text: str) -> str:
    if not ROLE_NAME.fullmatch(text):
        raise Wrong("is not a name", "use small letters, digits and single dashes, such as review-git")
    return text


def _label(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", text):
        raise Wrong("is not a name", "use small letters, digits, - and _, such as backend_only")
    return text


def _variable(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise Wrong("is not the name of an environment variable", "use letters, digits and _, such as API_BASE")
    return text


HOST = re.compile(
    r"(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:[1-9][0-9]{0,4})?", re.IGNORECASE
)


def _host(value: str) -> str:
    if not HOST.fullmatch(value):
        raise Wrong("is no host name", "write a name such as example.org, *.example.net or example.org:8443", got=value)
    return value.lower()


Text = Annotated[str, AfterValidator(_one_line)]
Command = Annotated[str, AfterValidator(_command)]
HookCommand = Annotated[str, AfterValidator(_hook), BeforeValidator(_off)]
RoleName = Annotated[str, AfterValidator(_role_name)]
Label = Annotated[str, AfterValidator(_label)]
VariableName = Annotated[str, AfterValidator(_variable)]
HostName = Annotated[str, AfterValidator(_host)]

# --- globs and patterns ------------------------------------------------------------------------------------------

GLOB_FAULTS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"^\s*$"), "is an empty glob", "write a pattern such as src/**"),
    (CONTROL, "holds a line break or a control character", "write one pattern per entry"),
    (re.compile(r"^\s|(?<!\\)\s$"), "begins or ends with a blank", "take the blank away"),
    (re.compile(r"^!"), "is a negation", "list what is meant; ! has no meaning here"),
    (re.compile(r"^#"), "begins with #", r"write \# for a name that begins with #"),
    (re.compile(r"^~"), "begins with ~", "globs are relative to the repository; write src/**"),
    (re.compile(r"^\.?/?$|^\./"), "names the folder itself", "write ** for everything, or src/** without ./"),
    (re.compile(r"(^|/)\.\.(/|$)"), "climbs out of the repository with ..", "globs are relative to the repository"),
    (re.compile(r"//"), "has an empty part between two slashes", "write a single slash"),
    (re.compile(r"\*\*\*"), "has three stars", "write ** for folders at any depth, * for part of a name"),
    (
        re.compile(r"^(?:[^\\]|\\.)*\\(?=[^\\*?\[\]{}!#~ ^-])"),
        "has a backslash before an ordinary letter",
        "write / in paths",
    ),
    (re.compile(r"(?<!\\)(\\\\)*\\$"), "ends with a lone backslash", "take it away, or write \\\\"),
    (
        re.compile(r"(?<!\\)[{}]"),
        "has braces, which are no alternatives here",
        "write one pattern for each alternative",
    ),
)
CLASS = re.compile(r"\\.|\[[!^]?+\]?+(?:\\.|[^\]\\])*\]")


def _glob(text: str) -> str:
    for fault, wrong, right in GLOB_FAULTS:
        if fault.search(text):
            raise Wrong(wrong, right)
    if "[" in CLASS.sub("", text):
        raise Wrong("has a [ that is never closed", r"close it with ], or write \[ for the character itself")
    if not _matches_something(text):
        raise Wrong("can match nothing", "write the pattern as in .gitignore, such as src/**")
    return text


def _matches_something(glob: str) -> bool:
    """The last word has the library that will match with it."""
    from pathspec import GitIgnoreSpec  # late: it takes 50 ms, which `blueflame --help` need not pay

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # "[[]" is a fine glob, whatever re may think of it one day
            return all(pattern.include is not None for pattern in GitIgnoreSpec.from_lines([glob]).patterns)
    except (ValueError, re.error):
        return False


def _regex(text: str) -> str:
    if not text:
        raise Wrong("is an empty pattern", "write a regular expression of Python's re, or take the entry out")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # [[:alpha:]] compiles, with a warning, to something nobody meant
            re.purge()  # a pattern that was compiled before gives no second warning
            re.compile(text)
    except (re.error, OverflowError, RecursionError, Warning) as fault:
        raise Wrong(f"is not a regular expression of Python's re: {fault}", "mend the pattern") from None
    return text


Glob = Annotated[str, AfterValidator(_glob)]
Regex = Annotated[str, AfterValidator(_regex)]


def several(default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A list in YAML, a tuple here: nothing can be added to it later."""
    field: tuple[str, ...] = Field(default=default, strict=False)
    return field
