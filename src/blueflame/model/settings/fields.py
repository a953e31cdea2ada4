"""Types of settings: durations, globs, patterns, commands, names."""

from __future__ import annotations

import re
import warnings
from functools import partial
from string import Template
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema, model_validator
from pydantic.functional_validators import AfterValidator

from blueflame.model.ids import ROLE_NAME
from blueflame.model.settings.registries import REGISTRIES


class InvalidValue(ValueError):
    """A value that is not accepted: what is wrong with it, and what would be right."""

    def __init__(self, wrong: str, right: str, *, at: tuple[str | int, ...] = (), got: object = ...) -> None:
        super().__init__(f"{wrong}; {right}")
        self.wrong = wrong
        self.right = right
        self.at = at  # where, below the place that raises
        self.got = got


class InvalidValues(ValueError):
    """Several invalid values, each with its place."""

    def __init__(self, wrongs: tuple[InvalidValue, ...]) -> None:
        super().__init__("; ".join(str(wrong) for wrong in wrongs))
        self.wrongs = wrongs


class Section(BaseModel):
    """A mapping of known keys. A section whose keys are all commented out is the section with its defaults."""

    # Settings builds the validators of all sections once, when it is first used.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_means_defaults(cls, data: object) -> object:
        return {} if data is None else data


# --- durations ---------------------------------------------------------------------------------------------------

DURATION_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
DURATION = re.compile(
    r"(?:\d+(?:\.\d+)?d)?(?:\d+(?:\.\d+)?h)?(?:\d+(?:\.\d+)?m)?(?:\d+(?:\.\d+)?s)?(?:\d+ms)?", re.ASCII
)
MAX_DURATION = 365 * DURATION_UNITS["d"]
DURATION_HINT = "write a duration such as 300s, 5m or 1h30m, or a number of seconds"


def parse_duration(value: object) -> float:
    """300 of `300s`, `5m` and 300; 5400 of `1h30m`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidValue("is not a duration", DURATION_HINT)
    if isinstance(value, str):
        return _parse_duration_text(value)
    return float(value) if value <= MAX_DURATION else MAX_DURATION + 1


def _parse_duration_text(text: str) -> float:
    text = text.strip()
    if not text or not DURATION.fullmatch(text):
        raise InvalidValue("is not a duration", DURATION_HINT)
    parts = re.findall(r"([\d.]+)(ms|[dhms])", text)
    return round(sum(float(number) * DURATION_UNITS[unit] for number, unit in parts), 3)


def format_duration(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "s"


def check_duration(value: object, *, least: float = 0.0) -> float:
    found = parse_duration(value)
    if not least <= found <= MAX_DURATION:  # also refuses NaN
        raise InvalidValue("is out of range", f"write a duration from {'1ms' if least else '0s'} to 365d")
    return found


DURATION_SERIALIZER = PlainSerializer(format_duration, return_type=str)
_DURATION_SCHEMA = {
    "anyOf": [{"type": "string", "pattern": r"^[0-9.dhms]+$"}, {"type": "number", "minimum": 0}],
    "examples": ["300s", "5m", "1h30m"],
}
Duration = Annotated[
    float, BeforeValidator(partial(check_duration, least=0.001)), DURATION_SERIALIZER, WithJsonSchema(_DURATION_SCHEMA)
]
DurationOrOff = Annotated[float, BeforeValidator(check_duration), DURATION_SERIALIZER, WithJsonSchema(_DURATION_SCHEMA)]

# --- text --------------------------------------------------------------------------------------------------------

CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def _check_one_line(text: str) -> str:
    if not text.strip():
        raise InvalidValue("is empty", "write some text")
    if CONTROL_CHARACTER.search(text):
        raise InvalidValue("holds a line break or a control character", "write it on one line")
    return text


def _check_command(text: str) -> str:
    if not text.strip():
        raise InvalidValue("is an empty command", "write the command, or remove the entry")
    if "\0" in text:
        raise InvalidValue("holds a NUL character", "write a command that a shell can run")
    return text


def _check_hook(text: str) -> str:
    return _check_command(text) if text else ""


def _read_null_as_empty(value: object) -> object:
    return "" if value is None else value


PERSONA_VALUES = ("role", "task", "session", "project", "base_branch")
MAX_PERSONA_CHARS = 10_000


def _check_persona(text: str) -> str:
    if not text.strip() or "\0" in text or len(text) > MAX_PERSONA_CHARS:
        raise InvalidValue(
            "is empty, too long, or has a NUL character", f"write some text of at most {MAX_PERSONA_CHARS} characters"
        )
    known = ", ".join(f"${name}" for name in PERSONA_VALUES)
    template = Template(text)
    if not template.is_valid():
        raise InvalidValue("has a $ without a name", f"write $$ for a dollar sign, or one of {known}")
    unknown = [name for name in template.get_identifiers() if name not in PERSONA_VALUES]
    if unknown:
        named = ", ".join(f"${name}" for name in unknown)
        raise InvalidValue(f"uses {named}, which has no value", f"use {known}, or write $$ for a dollar sign")
    return text


def _check_repository_path(text: str) -> str:
    parts = text.split("/")
    if text.startswith("~") or "\\" in text or "\0" in text or not {"", ".", "..", ".git"}.isdisjoint(parts):
        raise InvalidValue(
            "is not the path of a file in the repository", "write it from the top, such as docs/worker.md"
        )
    return text


def _check_role_name(text: str) -> str:
    if not ROLE_NAME.fullmatch(text):
        raise InvalidValue("is not a name", "use small letters, digits and single dashes, such as review-git")
    return text


def _check_label(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", text):
        raise InvalidValue("is not a name", "use small letters, digits, - and _, such as backend_only")
    return text


def _check_variable_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise InvalidValue("is not the name of an environment variable", "use letters, digits and _, such as API_BASE")
    return text


HOST_NAME = re.compile(
    r"(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:[1-9][0-9]{0,4})?", re.IGNORECASE
)


def _check_host_name(value: str) -> str:
    if not HOST_NAME.fullmatch(value):
        raise InvalidValue(
            "is not a host name", "write a name such as example.org, *.example.net or example.org:8443", got=value
        )
    return value.lower()


def _check_registry(value: str) -> str:
    if value not in REGISTRIES and "." not in value:
        raise InvalidValue(
            "is not a registry", f"write one of {', '.join(REGISTRIES)}, or the name of a host", got=value
        )
    return _check_host_name(value)


def _check_zone(name: str) -> str:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # late: only the house needs it

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidValue("is not a time zone", "write a name such as Europe/Berlin or UTC", got=name) from None
    return name


Text = Annotated[str, AfterValidator(_check_one_line)]
Command = Annotated[str, AfterValidator(_check_command)]
HookCommand = Annotated[str, AfterValidator(_check_hook), BeforeValidator(_read_null_as_empty)]
Persona = Annotated[str, AfterValidator(_check_persona)]
RepositoryPath = Annotated[str, AfterValidator(_check_repository_path)]
RoleName = Annotated[str, AfterValidator(_check_role_name)]
Label = Annotated[str, AfterValidator(_check_label)]
VariableName = Annotated[str, AfterValidator(_check_variable_name)]
HostName = Annotated[str, AfterValidator(_check_host_name)]
ZoneName = Annotated[str, AfterValidator(_check_zone)]
RegistryName = Annotated[str, AfterValidator(_check_registry)]

# --- globs and patterns ------------------------------------------------------------------------------------------

GLOB_PROBLEMS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"^\s*$"), "is an empty glob", "write a pattern such as src/**"),
    (CONTROL_CHARACTER, "holds a line break or a control character", "write one pattern per entry"),
    (re.compile(r"^\s|(?<!\\)\s$"), "begins or ends with a blank", "remove the blank"),
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
    (re.compile(r"(?<!\\)(\\\\)*\\$"), "ends with a lone backslash", "remove it, or write \\\\"),
    (
        re.compile(r"(?<!\\)[{}]"),
        "has braces, which do not mean alternatives here",
        "write one pattern for each alternative",
    ),
)
CHARACTER_CLASS = re.compile(r"\\.|\[[!^]?+\]?+(?:\\.|[^\]\\])*\]")


def _check_glob(text: str) -> str:
    for fault, wrong, right in GLOB_PROBLEMS:
        if fault.search(text):
            raise InvalidValue(wrong, right)
    if "[" in CHARACTER_CLASS.sub("", text):
        raise InvalidValue("has a [ that is never closed", r"close it with ], or write \[ for the character itself")
    if not _can_match(text):
        raise InvalidValue("can match nothing", "write the pattern as in .gitignore, such as src/**")
    return text


def _can_match(glob: str) -> bool:
    """Ask the library that will match with it."""
    from pathspec import GitIgnoreSpec  # late: it takes 50 ms, which `blueflame --help` does not need

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # "[[]" is a fine glob, whatever re may think of it one day
            return all(pattern.include is not None for pattern in GitIgnoreSpec.from_lines([glob]).patterns)
    except (ValueError, re.error):
        return False


def _check_regex(text: str) -> str:
    if not text:
        raise InvalidValue("is an empty pattern", "write a regular expression of Python's re, or remove the entry")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # [[:alpha:]] compiles, with a warning, to something else than POSIX means
            re.purge()  # a pattern that was compiled before gives no second warning
            re.compile(text)
    except (re.error, OverflowError, RecursionError, Warning) as fault:
        raise InvalidValue(f"is not a regular expression of Python's re: {fault}", "fix the pattern") from None
    return text


Glob = Annotated[str, AfterValidator(_check_glob)]
Globs = Annotated[tuple[Glob, ...], Field(strict=False, min_length=1)]
Regex = Annotated[str, AfterValidator(_check_regex)]
RegexOrEmpty = Annotated[str, AfterValidator(lambda pattern: pattern and _check_regex(pattern))]


def build_tuple_field(default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A list in YAML, a tuple here: nothing can be added to it later."""
    field: tuple[str, ...] = Field(default=default, strict=False)
    return field
