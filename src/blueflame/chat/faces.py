"""The faces of a house, as its configuration has them: a bot, notifications, and deadlines of gates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from blueflame.chat.house_text import HouseText
from blueflame.chat.sessions import GateDrawer, SessionReader
from blueflame.chat.setup import ChatSetup
from blueflame.chat.telegram import TelegramChat, find_token_lock
from blueflame.config.house import LoadedHouse, read_secret
from blueflame.dispatch.people import AskRules
from blueflame.house.client import HouseClient
from blueflame.house.core import HouseCore
from blueflame.house.deadlines import DeadlineFace
from blueflame.house.desk import HouseFace
from blueflame.house.notifications import NotificationFace
from blueflame.model.errors import Refused
from blueflame.model.settings.chat import TelegramSettings
from blueflame.system.layout import find_person_state


class FaceParts(NamedTuple):
    core: HouseCore
    loaded: LoadedHouse
    environ: Mapping[str, str]  # with the secrets
    draw_gate: GateDrawer

    def find_configs(self) -> dict[str, Path]:
        return {name: self.loaded.find_config(each) for name, each in self.loaded.settings.repositories.items()}


def build_faces(parts: FaceParts) -> tuple[HouseFace, ...]:
    """Raises ConfigError for a secret that is not set, Refused without python-telegram-bot."""
    return tuple(face for build in FACE_BUILDERS.values() for face in build(parts))


def _build_deadlines(parts: FaceParts) -> tuple[HouseFace, ...]:
    found = parts.loaded.settings
    rules = AskRules(people=parts.core.people, asks=found.gates, quiet_hours=found.quiet_hours)
    return (DeadlineFace(rules, parts.core.clock),)


def _build_notifications(parts: FaceParts) -> tuple[HouseFace, ...]:
    found, root = parts.loaded.settings, parts.core.paths.root
    for name, notifier in found.notifications.items():
        if notifier.url_from is not None:
            key = f"notifications.{name}.url_from"
            read_secret(parts.environ, notifier.url_from, key=key, what="the address that messages go to")
    if not found.notifications:
        return ()
    return (NotificationFace(settings=found, configs=parts.find_configs(), root=root, environ=parts.environ),)


def _build_telegram(parts: FaceParts) -> tuple[HouseFace, ...]:
    core, found = parts.core, parts.loaded.settings
    if found.telegram is None:
        return ()
    reader = SessionReader(configs=parts.find_configs(), journal=core.journal, draw_gate=parts.draw_gate)
    text = HouseText(client=HouseClient(parts.loaded, core.paths), journal=core.journal, reader=reader)
    token = find_token(found.telegram, parts.environ)
    setup = ChatSetup(
        settings=found,
        token=token,
        lock=find_token_lock(find_person_state(parts.environ), token),
        reader=reader,
        describe_wait=text.describe_wait,
        describe_house=text.describe,
        list_gates=lambda: core.desk.gates,
        clock=core.clock,
    )
    return (TelegramChat(setup),)


FACE_BUILDERS: Mapping[str, Callable[[FaceParts], tuple[HouseFace, ...]]] = {
    "deadlines": _build_deadlines,
    "notifications": _build_notifications,
    "telegram": _build_telegram,
}


def find_token(settings: TelegramSettings, environ: Mapping[str, str]) -> str:
    if find_spec("telegram") is None:
        raise Refused("python-telegram-bot is not installed: pip install 'blueflame[telegram]'")
    what = "the token of the bot, from BotFather"
    return read_secret(environ, settings.token_from, key="telegram.token_from", what=what)
