"""The faces of a house, as its configuration has them: a bot, notifications, and deadlines of gates."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from blueflame.chat.house_text import HouseText
from blueflame.chat.sessions import GateDrawer, SessionReader
from blueflame.chat.setup import ChatSetup
from blueflame.chat.telegram import TelegramChat, find_token_lock
from blueflame.config.house import LoadedHouse
from blueflame.dispatch.people import AskRules
from blueflame.house.client import HouseClient
from blueflame.house.core import HouseCore
from blueflame.house.deadlines import DeadlineFace
from blueflame.house.desk import HouseFace
from blueflame.house.notifications import NotificationFace
from blueflame.model.errors import Refused, UsageError
from blueflame.model.settings.chat import TelegramSettings
from blueflame.system.layout import find_person_state


def build_faces(
    core: HouseCore, loaded: LoadedHouse, environ: Mapping[str, str], draw_gate: GateDrawer
) -> tuple[HouseFace, ...]:
    """`environ` has the secrets. Raises UsageError without a token, Refused without python-telegram-bot."""
    found = loaded.settings
    configs = {name: loaded.find_config(each) for name, each in found.repositories.items()}
    rules = AskRules(people=core.people, asks=found.gates, quiet_hours=found.quiet_hours)
    faces: list[HouseFace] = [DeadlineFace(rules, core.clock)]
    if found.notifications:
        faces.append(NotificationFace(settings=found, configs=configs, root=core.paths.root, environ=environ))
    if found.telegram is not None:
        reader = SessionReader(configs=configs, journal=core.journal, draw_gate=draw_gate)
        text = HouseText(client=HouseClient(loaded, core.paths), journal=core.journal, reader=reader)
        token = find_token(found.telegram, environ)
        setup = ChatSetup(
            settings=found,
            token=token,
            lock=find_token_lock(find_person_state(environ), token),
            reader=reader,
            describe_wait=text.describe_wait,
            describe_house=text.describe,
            list_gates=lambda: core.desk.gates,
            clock=core.clock,
        )
        faces.append(TelegramChat(setup))
    return tuple(faces)


def find_token(settings: TelegramSettings, environ: Mapping[str, str]) -> str:
    if find_spec("telegram") is None:
        raise Refused("python-telegram-bot is not installed: pip install 'blueflame[telegram]'")
    token = environ.get(settings.token_from, "").strip()
    if not token:
        raise UsageError(f"the variable {settings.token_from} is empty: set it to the token of the bot, from BotFather")
    return token
