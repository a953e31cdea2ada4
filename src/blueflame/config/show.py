"""Settings as text: resolved YAML, resolved JSON, and the schema for editors."""

from __future__ import annotations

import hashlib
import json
from io import StringIO
from typing import Any

from ruamel.yaml import YAML

from blueflame.model.settings import Settings


def show(settings: Settings) -> str:
    """The whole configuration with every default filled in; it can be read again and means the same."""
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 4096  # a long pattern stays on one line
    out = StringIO()
    yaml.dump(_without_nothing(settings.model_dump(mode="json")), out)
    return out.getvalue()


def resolved_json(settings: Settings) -> str:
    return json.dumps(settings.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"


def schema_json() -> str:
    """JSON schema, for editors that complete and check YAML."""
    schema = Settings.model_json_schema(mode="validation")
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


def digest_of(settings: Settings) -> str:
    return _digest(settings.model_dump(mode="json"))


def digest_of_resolved(text: str) -> str:
    """Of what `resolved_json` wrote, by whatever version: a newer one may have keys that it did not know."""
    return _digest(json.loads(text))


def _digest(data: Any) -> str:  # noqa: ANN401 (JSON has any type)
    canonical = json.dumps(data, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _without_nothing(data: Any) -> Any:  # noqa: ANN401 (JSON has any type)
    if isinstance(data, dict):
        return {key: _without_nothing(value) for key, value in data.items() if value is not None}
    return data
