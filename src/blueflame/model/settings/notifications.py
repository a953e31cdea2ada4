"""Settings of notifications: who is notified when a person is needed."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from blueflame.model.settings.fields import Command, Duration, DurationOrOff, InvalidValue, Section, Text, VariableName

LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|\[::1\]")
URL = re.compile(r"(https?)://([^/\s@:?#\[\]]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?([/?][\x21-\x7e]*)?")
URL_HINT = "write https://host/path, or http:// for this machine only"

Topic = Literal["gate", "ended", "failed", "parked", "budget"]


def find_url_problem(url: str) -> str:
    """What is wrong with an address that we connect to; empty when it is valid."""
    found = URL.fullmatch(url)
    if found is None:
        return "is not a web address"
    if found[1] == "http" and not LOOPBACK.fullmatch(found[2]):
        return "is not encrypted, and leaves this machine"
    return ""


def _convert_list_to_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class NotifierSettings(Section):
    kind: Literal["command", "desktop", "webhook", "apprise"]
    """How: a command of yours, a desktop notification, a POST of JSON, or a service that Apprise knows."""
    command: Annotated[Command | tuple[Text, ...] | None, BeforeValidator(_convert_list_to_tuple)] = None
    """For `command`: one line for a shell, or a list of a program and its arguments. It gets JSON on stdin."""
    url: Text | None = None
    """For `webhook`: where to. https, or http on this machine only."""
    url_from: VariableName | None = None
    """For `webhook` and `apprise`: the environment variable with the address, so that it is not in this file."""
    on: tuple[Topic, ...] = Field(default=("gate", "ended"), strict=False)
    """When: gate, ended, failed (a task, after its retries), parked (the model is unavailable, or no
    agent of the house is free), budget."""
    delay: DurationOrOff = 2.0
    """A gate that is answered within this time causes no notification."""
    throttle: DurationOrOff = 60.0
    """At most one message of each kind within this time; the others are combined into the next one."""
    timeout: Duration = 5.0
    """How long sending may take; a session never waits for it."""

    @model_validator(mode="after")
    def _what_its_kind_needs(self) -> NotifierSettings:
        if self.kind == "command" and not self.command:
            raise InvalidValue("is missing, and kind: command needs it", "write the command", at=("command",), got=None)
        if self.kind != "command" and self.command is not None:
            raise self._build_error("command", "command")
        given = [name for name in ("url", "url_from") if getattr(self, name) is not None]
        if self.kind == "webhook" and len(given) != 1:
            wrong = "is there, and url_from too" if given else "is missing, and so is url_from"
            raise InvalidValue(wrong, "write one of url and url_from", at=("url",), got=self.url)
        if self.kind == "apprise" and given != ["url_from"]:
            right = "write url_from: the address holds the secrets of the service"
            raise InvalidValue("is missing, and kind: apprise needs it", right, at=("url_from",), got=self.url_from)
        if self.kind not in ("webhook", "apprise") and given:
            raise self._build_error(given[0], "webhook")
        if self.url is not None and (fault := find_url_problem(self.url)):
            raise InvalidValue(fault, URL_HINT, at=("url",), got=self.url)
        return self

    def _build_error(self, name: str, kind: str) -> InvalidValue:
        right = f"remove it, or write kind: {kind}"
        return InvalidValue(f"does not go with kind: {self.kind}", right, at=(name,), got=getattr(self, name))
