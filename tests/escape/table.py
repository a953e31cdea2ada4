"""All attacks, in the order of their groups: what docs/reference/attacks.md is written from."""

from __future__ import annotations

from escape import (
    arrivals,
    clones,
    forgeries,
    gateway_calls,
    gateway_money,
    histories,
    poisons,
    probes_kernel,
    probes_places,
    senders,
    watcher_git,
    watcher_paths,
    watcher_shell,
)
from escape.attack import GROUPS, Attack, Wall
from escape.probes_resources import RESOURCES

_TABLES: tuple[tuple[Attack, ...], ...] = (
    watcher_paths.PATHS,
    watcher_paths.LINKS,
    watcher_paths.TOOLS,
    watcher_shell.SYNTAX,
    watcher_shell.REDIRECTS,
    watcher_shell.WRAPPERS,
    watcher_shell.OPTIONS,
    watcher_shell.ENVIRONMENT,
    watcher_shell.EXPORTS,
    watcher_git.GIT,
    watcher_git.TAMPERING,
    watcher_git.SECRETS,
    probes_places.PATHS,
    probes_places.LINKS,
    probes_places.PERSISTENCE,
    probes_kernel.PROCESSES,
    probes_kernel.NETWORK,
    probes_kernel.SECRETS,
    probes_kernel.LEFT,
    RESOURCES,
    clones.CLONES,
    poisons.SETTINGS,
    poisons.FOLDERS,
    poisons.REFS,
    poisons.HISTORIES,
    poisons.OBJECTS,
    poisons.LEAVINGS,
    poisons.KEPT,
    poisons.RESULTS,
    histories.BOMBS,
    histories.MALFORMED,
    histories.HISTORIES,
    histories.IDENTITIES,
    histories.NAMED,
    histories.CONTENTS,
    histories.WORDS,
    forgeries.FORGERIES,
    gateway_calls.CALLS,
    gateway_money.SPREES,
    arrivals.PLAN_FILES,
    arrivals.PAGES,
    arrivals.ADDRESSES,
    arrivals.REBINDING,
    arrivals.FEEDS,
    arrivals.CALLS,
    arrivals.WORDS,
    arrivals.CHAT,
    senders.SENDERS,
)

ATTACKS: tuple[Attack, ...] = tuple(
    sorted((attack for table in _TABLES for attack in table), key=lambda attack: GROUPS.index(attack.group))
)


def behind(wall: Wall) -> tuple[Attack, ...]:
    return tuple(attack for attack in ATTACKS if attack.wall == wall)
