"""house.yaml: load it, every problem with its line; the example that `blueflame serve --init` writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from blueflame.config.load import build_config_error
from blueflame.config.locate import read_config_text, resolve_repo_folder
from blueflame.config.problems import format_value, validate_model
from blueflame.documents.yaml import YamlProblem, read_document
from blueflame.lazy_dataclass import dataclass
from blueflame.model.errors import ConfigError
from blueflame.model.settings.house import HouseSettings, RepositorySettings
from blueflame.model.settings.sources import FeedsFile

_File = TypeVar("_File", HouseSettings, FeedsFile)
INIT = "run `blueflame serve --init` to write one"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedHouse:
    settings: HouseSettings
    path: Path

    def find_folder(self, repository: RepositorySettings) -> Path:
        """Paths are relative to the file."""
        return resolve_repo_folder(self.path, repository.path)

    def find_config(self, repository: RepositorySettings) -> Path:
        return self.find_folder(repository) / repository.config


def load_house(path: Path) -> LoadedHouse:
    """Raises ConfigError with every problem, each with its line."""
    settings = _load_file(path, HouseSettings, INIT)
    if problems := list(_find_folder_problems(path, settings)):
        raise build_config_error(read_document(read_config_text(path), any_key=True), path, problems)
    return LoadedHouse(settings=settings, path=path)


def _identify_folder(folder: Path) -> object:
    """What is the same for two names of a folder: a bind mount is not seen in its path."""
    try:
        found = folder.stat()
    except OSError:
        return folder
    return found.st_dev, found.st_ino


def _find_folder_problems(path: Path, settings: HouseSettings) -> Iterator[YamlProblem]:
    """A repository has one session at a time: under two names it would have two."""
    seen: dict[object, str] = {}
    for name, each in settings.repositories.items():
        at, got = ("repositories", name, "path"), format_value(each.path)
        try:
            folder = resolve_repo_folder(path, each.path)
        except RuntimeError:  # ~user, who is not known here
            yield YamlProblem(at, f"begins with the home of an unknown user (got {got}); write ~/, or the whole path")
            continue
        if (other := seen.setdefault(_identify_folder(folder), name)) != name:
            yield YamlProblem(at, f"is the folder of {other} too (got {got}); remove one of them")


def read_secret(environ: Mapping[str, str], variable: str, *, key: str, what: str) -> str:
    """The value of a variable that a key of house.yaml names. Raises ConfigError if it is not set."""
    if not (value := environ.get(variable, "").strip()):
        problem = f"{key}: the environment variable {variable} is not set; set it to {what}"
        raise ConfigError("house.yaml cannot be used: one problem", [problem])
    return value


def parse_house(text: str, *, path: Path) -> HouseSettings:
    return _parse_text(text, path, HouseSettings, INIT)


def load_feeds(path: Path) -> FeedsFile:
    """Raises ConfigError with every problem, each with its line."""
    return _load_file(path, FeedsFile, "write `feeds:` and its entries, or correct sources.feeds.file in house.yaml")


def _load_file(path: Path, model: type[_File], fix: str) -> _File:
    if not path.exists():
        raise ConfigError(f"there is no {path.name} in {path.parent}", [fix])
    return _parse_text(read_config_text(path), path, model, fix)


def _parse_text(text: str, path: Path, model: type[_File], fix: str) -> _File:
    document = read_document(text, any_key=True)  # the number of a chat is a key
    problems = list(document.problems)
    if not isinstance(document.data, dict):
        if not problems:
            wrong = (
                "the file is empty" if document.data is None else f"must be keys (got {format_value(document.data)})"
            )
            problems = [YamlProblem((), f"{wrong}; {fix}", 1)]
        raise build_config_error(document, path, problems)
    settings, faults = validate_model(document.data, model, {})
    problems += (YamlProblem(at, text) for at, text in faults)
    if problems or settings is None:
        raise build_config_error(document, path, problems)
    return settings


EXAMPLE = """\
# What `blueflame serve` serves. `blueflame help house` explains every key.
version: 1

# The repositories, by the names that requests use. Each has its own blueflame.yaml.
repositories: {}
#  shop:
#    path: ~/code/shop
#    config: blueflame.yaml
#    priority: 0            # added to the priority of its requests; a higher one goes first

# Who may ask and answer. An owner starts work, a member asks for it and an owner approves.
people: {}
#  alice:
#    trust: owner
#    terminal: alice        # as `whoami` prints it; left out, the name of this entry
#    telegram: 12345678     # `blueflame telegram pair` finds it
#    answers: [plan, changeset]  # the kinds of gates; left out, all for an owner
#    order: 1               # who is asked first
#    github: alice          # issues and comments of this account are the person's

# telegram:
#   token_from: TELEGRAM_BOT_TOKEN
#   chats:
#     12345678: {repository: shop}   # the repository of requests that name none

# quiet_hours:
#   - {begin: "22:00", end: "07:00", timezone: Europe/Berlin}

# gates:
#   changeset: {remind: 30m, next: 30m, deadline: 24h}

# The agents that all repositories share.
pool:
  agents: 8                 # at once
  roles: {}                 # so many of a role at once, such as {worker: 6, validator: 2}
  max_queue_length: 3       # tasks that wait for a role before a person is asked for an ad hoc agent
  max_adhoc_per_type: 2     # ad hoc agents of one role
  max_total_adhoc: 5
  min_ram_per_agent_mb: 600
  max_day_cost_usd: 0.0     # of all sessions together; 0 is unlimited

limits:
  requests_per_hour: 30     # of one sender
  queue_length: 50          # of one repository
  sessions: 4               # at once, over all repositories
"""
