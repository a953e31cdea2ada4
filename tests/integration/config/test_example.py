"""The example is complete, correct, and says the defaults that hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blueflame.config.keys import iter_keys
from blueflame.config.load import load_config
from blueflame.documents.yaml import read_document
from blueflame.session.from_settings import build_session_limits, build_workflow
from support.yaml_keys import is_in

EXAMPLE = Path(__file__).parents[3] / "blueflame.yaml.example"


@pytest.mark.verification(1)
def test_the_example_passes_its_own_check() -> None:
    loaded = load_config(EXAMPLE)
    assert (loaded.version, loaded.warnings) == (2, ())
    assert build_session_limits(loaded.settings).workers == 4
    assert build_workflow(loaded.settings).name == "waves"


@pytest.mark.verification(1)
def test_the_example_has_every_key() -> None:
    written = read_document(EXAMPLE.read_text()).data
    assert [key.dotted for key in iter_keys() if not key.section and not is_in(written, key.path)] == []


def test_the_example_says_the_defaults_that_hold() -> None:
    lines = EXAMPLE.read_text().splitlines()
    document = read_document(EXAMPLE.read_text())
    for key in iter_keys():
        if key.section or key.required or key.path not in document.get_lines():
            continue
        if "example" in lines[document.get_lines()[key.path] - 1] or "_patterns" in key.path[-1]:
            continue
        written: Any = document.data
        for part in key.path:
            written = written[part]
        default = list(key.default) if isinstance(key.default, tuple) else key.default
        same_duration = {"10m": "600s", "30m": "1800s", "6h": "21600s", "30d": "2592000s"}.get(str(written), written)
        assert same_duration == default or key.path[-1] in ("enforce_for", "validator_models"), key.dotted
