"""Formats settings as text: resolved YAML, resolved JSON, and the schema for editors."""

from __future__ import annotations

import hashlib
import json
from io import StringIO
from typing import Any

from ruamel.yaml import YAML

from blueflame.config.keys import add_descriptions
from blueflame.model.settings import Settings


def format_config(settings: Settings) -> str:
    """The configuration with every default filled in; reading it gives the same settings."""
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 4096  # a long pattern stays on one line
    out = StringIO()
    data = settings.model_dump(mode="json")
    workflows = {"workflows": data["workflows"]}  # a null there is a value: nothing is taken from `default`
    yaml.dump({**_drop_nulls(data), **workflows}, out)
    return out.getvalue()


def format_resolved_json(settings: Settings) -> str:
    return settings.model_dump_json(indent=2) + "\n"  # json.dumps with an indent is not in C


def format_json_schema() -> str:
    """JSON schema, for editors that complete and check YAML."""
    add_descriptions()
    schema = Settings.model_json_schema(mode="validation")
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


def compute_digest(settings: Settings) -> str:
    return _hash_json(settings.model_dump(mode="json"))


def compute_resolved_digest(text: str) -> str:
    """Of what `format_resolved_json` wrote, in any version: a newer one may have more keys."""
    return _hash_json(json.loads(text))


def _hash_json(data: Any) -> str:  # noqa: ANN401 (JSON has any type)
    canonical = json.dumps(data, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _drop_nulls(data: Any) -> Any:  # noqa: ANN401 (JSON has any type)
    if isinstance(data, dict):
        return {key: _drop_nulls(value) for key, value in data.items() if value is not None}
    return data
