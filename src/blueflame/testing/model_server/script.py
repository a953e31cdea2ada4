"""The script of a loopback model: scenarios and their turns (docs/how-to/test-without-a-provider.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from blueflame.config.problems import format_path
from blueflame.documents.yaml import KeyPath, read_document
from blueflame.model.errors import ScriptError, WorldError
from blueflame.system.files import read_text

CALL_KEYS = ("name", "shell", "write", "read")


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as fault:
        raise ValueError(f"is not a regular expression: {fault}") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_check_pattern)]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class _ScriptPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScriptCall(_ScriptPart):
    """A tool by its name, or by what it does: then one of the offered tools is picked."""

    name: str = ""
    input: dict[str, Any] | str = Field(default_factory=dict)  # a text for tools that take no JSON
    shell: str = ""
    write: str = ""
    content: str = ""
    read: str = ""

    @model_validator(mode="after")
    def _check_one_key(self) -> ScriptCall:
        given = [act for act in CALL_KEYS if getattr(self, act)]
        if len(given) != 1:
            raise ValueError(f"must have exactly one of {', '.join(CALL_KEYS)}; it has {' and '.join(given) or 'none'}")
        return self


class ScriptUsage(_ScriptPart):
    """Tokens to report. What is left out is estimated from the size of the question and of the answer."""

    input: Count | None = None
    output: Count | None = None
    cache_read: Count = 0
    cache_write: Count = 0
    cache_write_1h: Count = 0  # how many of cache_write
    thinking: Count = 0  # how many of output
    web_search: Count = 0


class ScriptTurn(_ScriptPart):
    text: str = ""
    thinking: str = ""
    tool: ScriptCall | None = None
    tools: tuple[ScriptCall, ...] = ()
    structured: Any = None
    usage: ScriptUsage = ScriptUsage()
    status: int = Field(default=200, ge=200, le=599)
    headers: Mapping[str, str] = Field(default_factory=dict)
    error: str = ""  # the message of a failure
    body: Any = None  # the whole answer, unchanged
    times: int | None = Field(default=None, ge=1)
    then: ScriptTurn | None = None
    delay: Seconds = 0
    pace: Seconds = 0
    pings: Count = 0  # before a streamed answer
    cut: Count | None = None
    broken: Count | None = None  # an error in mid-stream, after so many events

    @property
    def calls(self) -> tuple[ScriptCall, ...]:
        return (*((self.tool,) if self.tool else ()), *self.tools)

    @property
    def is_structured(self) -> bool:
        return "structured" in self.model_fields_set

    @model_validator(mode="after")
    def _check_times_and_then(self) -> ScriptTurn:
        if (self.times is None) != (self.then is None):
            raise ValueError("`times` and `then` go together: `times` answers with this turn, after them `then`")
        return self


class ScenarioCondition(_ScriptPart):
    user: Pattern = ""
    system: Pattern = ""
    model: str = ""  # a glob
    tool: str = ""
    api: str = ""


class Scenario(_ScriptPart):
    name: str = ""
    when: ScenarioCondition = ScenarioCondition()
    turns: tuple[ScriptTurn, ...] = Field(min_length=1)


class ModelScript(_ScriptPart):
    key: str = ""
    scenarios: tuple[Scenario, ...] = Field(min_length=1)


def read_model_script(script: Path | Mapping[str, Any]) -> ModelScript:
    """Read and check a script. Raises ScriptError with every problem and its line."""
    if isinstance(script, Path):
        return _load_file(script)
    return _validate_script(script, "the loopback model's script", {})


def _load_file(path: Path) -> ModelScript:
    try:
        text = read_text(path, "the loopback model's script")
    except WorldError as error:  # a file that the person named
        raise ScriptError("the loopback model has no script", [str(error)]) from error
    document = read_document(text)
    if document.problems:
        wrongs = [f"{path}:{problem.line or 1}: {problem.text}" for problem in document.problems]
        raise ScriptError(f"the loopback model cannot play {path}", wrongs)
    return _validate_script(document.data, str(path), document.get_lines())


def _validate_script(data: object, source: str, lines: Mapping[KeyPath, int]) -> ModelScript:
    try:
        return ModelScript.model_validate(data)
    except ValidationError as error:
        raise ScriptError(
            f"the loopback model cannot play {source}", list(_list_problems(error, source, lines))
        ) from None


def _list_problems(error: ValidationError, source: str, lines: Mapping[KeyPath, int]) -> Iterator[str]:
    found = error.errors(include_url=False, include_input=False)
    for details in found:
        path: KeyPath = details["loc"]
        if details["type"] == "too_short" and any(path == each["loc"][: len(path)] != each["loc"] for each in found):
            continue  # its invalid entries were removed, and are reported already
        line = next((f":{lines[path[:end]]}" for end in range(len(path), 0, -1) if path[:end] in lines), "")
        yield f"{source}{line}: {format_path(path)}: {_format_problem(details)}"


def _format_problem(details: ErrorDetails) -> str:
    if details["type"] == "extra_forbidden":
        return "unknown key; docs/how-to/test-without-a-provider.md lists the known ones"
    return details["msg"].removeprefix("Value error, ")
