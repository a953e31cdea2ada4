"""The account with which agents of a runtime reach their model, and where the limits of an account are shared."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from blueflame.agents.credentials import Access, find_access, find_home
from blueflame.model.errors import Refused
from blueflame.model.runtime_support import RUNTIMES
from blueflame.orchestrator.context import SessionContext
from blueflame.session.from_settings import find_runtime_kind
from blueflame.system.layout import POOL_VARIABLE, HousePaths

REPLAY_ACCESS = Access(upstream="http://127.0.0.1:9")  # never contacted: a replay calls no model


def find_account(context: SessionContext, runtime: str, api: str) -> Access:
    if context.cassette.replay is not None:
        return REPLAY_ACCESS
    found = context.settings.runtimes.get(runtime)
    options = found.model_dump() if found else {}
    return find_access(api, runtime, options, context.environ, find_home(context.environ))


def find_shared_wait(context: SessionContext, runtime: str) -> Path:
    """Find the file by which gateways share a limit of the account: one for all repositories of a house."""
    house = HousePaths(Path(context.environ.get(POOL_VARIABLE, "")))
    if POOL_VARIABLE not in context.environ or not house.journal.exists():  # a house that was deleted stays so
        return context.paths.parked(runtime)
    kind = RUNTIMES.get(find_runtime_kind(context.settings, runtime))
    with suppress(Refused):  # without a credential no call is made
        found = [find_account(context, runtime, api) for api in (kind.apis if kind else ())]
        if found:
            runtime = " ".join(f"{each.upstream} {each.origin}" for each in found)
    return house.parked(sha256(runtime.encode()).hexdigest()[:16])
