"""The reference of blueflame.yaml as Markdown, made from the models: what is documented is what is read."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import BaseModel

from blueflame.config.keys import ConfigKey, iter_keys
from blueflame.config.schema_v1 import MOVES
from blueflame.model.settings import Settings
from blueflame.model.settings.built_in import BUILT_IN_PIPELINES, BUILT_IN_ROLES, BUILT_IN_WORKFLOWS
from blueflame.model.settings.house import HouseSettings


def build_config_reference() -> str:
    return "\n".join([*HEAD, *_format_tables(Settings), *_format_built_ins(), *_format_moved_keys()]) + "\n"


def build_house_reference() -> str:
    return "\n".join([*HOUSE_HEAD, *_format_tables(HouseSettings)]) + "\n"


HOUSE_HEAD = """\
# house.yaml

Every key, made from the code by `make docs-write`; do not edit by hand.
The file stands in the folder of the house: `--house`, else `$BLUEFLAME_HOUSE`, else `~/.local/state/blueflame/house`.
`blueflame serve --init` writes one with comments, and `blueflame doctor --house` says what is wrong with it.
[Serve several repositories](../how-to/serve-repositories.md) shows how it is used.

- Tokens and other secrets are never in the file: a key that ends in `_from` names the environment variable.
- Durations are written `300s`, `5m`, `1h30m`, `30d`, or as plain seconds.
- A lease of the pool, a request and a session are explained in the [glossary](../explanation/glossary.md).
""".splitlines()


HEAD = """\
# blueflame.yaml

Every key, made from the code by `make docs-write`; do not edit by hand.
The file stands at the top of the repository, or where `--config` says.
`blueflame.yaml.example` shows all keys in use.
`blueflame config check` says what is wrong with a file, and which of its keys have no effect.

- Durations are written `300s`, `5m`, `1h30m`, `30d`, or as plain seconds.
- Globs are those of `.gitignore`: without a `/` they match at any depth, and `src/**` is everything below `src`.
- Patterns are regular expressions of Python's `re`, searched anywhere in the text.
- A budget has one unit: 0 is unlimited, tokens switch the default in dollars off, both at once are an error.
- A section without keys has its defaults; a list without entries is written `[]`.
""".splitlines()


def _format_tables(model: type[BaseModel]) -> Iterator[str]:
    section: tuple[str, ...] | None = None
    top = [key for key in iter_keys(model) if not key.section and len(key.path) == 1]
    yield from ("", "## Top level", "", *_format_header(), *(_format_row(key) for key in top))
    for key in iter_keys(model):
        if key.section and len(key.path) == 1:
            yield from ("", f"## {key.dotted}", "", key.description)
            section = None
        elif not key.section and len(key.path) > 1:
            if key.path[:-1] != section:
                section = key.path[:-1]
                yield from ("", *_format_header())
            yield _format_row(key)


def _format_header() -> tuple[str, str]:
    return "| key | kind | default | meaning |", "|---|---|---|---|"


def _format_row(key: ConfigKey) -> str:
    default = "**needed**" if key.required else _format_default(key.default)
    return f"| `{key.dotted}` | {_escape_cell(key.kind)} | {default} | {_escape_cell(key.description)} |"


def _format_default(default: object) -> str:
    if default is None:
        return "none"
    text = default if isinstance(default, str) and default else json.dumps(default, ensure_ascii=False)
    return f"`{_escape_cell(text)}`"


def _escape_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _format_built_ins() -> Iterator[str]:
    yield from ("", "## Built-in roles", "", "| role | set to |", "|---|---|")
    yield from (f"| `{name}` | `{json.dumps(dict(role))}` |" for name, role in BUILT_IN_ROLES.items())
    workflows = {**BUILT_IN_WORKFLOWS, **BUILT_IN_PIPELINES}
    yield from ("", "## Built-in workflows", "", "| workflow | set to |", "|---|---|")
    yield from (f"| `{name}` | `{json.dumps(dict(workflow))}` |" for name, workflow in workflows.items())


def _format_moved_keys() -> Iterator[str]:
    yield from ("", "## What moved since schema 1", "")
    yield "A file of schema 1 is read as it is; `blueflame config migrate --write` rewrites it and keeps its comments."
    yield from ("", "| schema 1 | schema 2 |", "|---|---|")
    yield from (f"| `{'.'.join(old)}` | `{'.'.join(new)}` |" for old, new in MOVES)


if __name__ == "__main__":
    print(build_config_reference())
