"""Record in .blueflame/prices.json how the built-in prices differ from what agents' programs report.

Later attempts are then metered correctly while they run, not only after their program has reported its cost. Only
higher prices are recorded, and none is ever lowered: a lower one may be forged, and would let later attempts exceed
their budget. A person who knows better writes `prices`, or removes the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from threading import Lock

from blueflame.lazy_dataclass import dataclass
from blueflame.model.spend import Spend
from blueflame.system.files import build_file_error, write_atomically
from blueflame.telemetry.usage import MeteredUsage, has_same_tokens, is_credible

PRICES_FILE = "prices.json"
MIN_MICRO_USD = 1_000  # millionths of a dollar: for a smaller run, rounding dominates
MAX_MODELS = 500

_lock = Lock()  # attempts end on several threads


@dataclass(frozen=True, slots=True)
class ObservedPrice:
    """The dearest usable run: what its program reported, and the built-in table for the same tokens."""

    reported: int
    listed: int

    @property
    def factor(self) -> Fraction:
        return Fraction(self.reported, self.listed)


def read_observed_prices(state: Path) -> Mapping[str, Fraction]:
    """Return the factor by which each model's price differs from the table; invalid entries are skipped."""
    return {model: seen.factor for model, seen in _read_prices(state / PRICES_FILE).items()}


def record_observed_price(state: Path, metered: MeteredUsage, reported: Spend | None) -> None:
    """Record the price of an ended attempt, if it used one model and both counted the same tokens."""
    if reported is None or len(metered.listed) != 1 or not has_same_tokens(metered, reported):
        return
    ((model, listed),) = metered.listed.items()
    is_higher = reported.micro_usd - listed > metered.calls  # each call is rounded up by less than one
    if not model or listed < MIN_MICRO_USD or not is_higher or not is_credible(reported.micro_usd, listed):
        return
    path, seen = state / PRICES_FILE, ObservedPrice(reported.micro_usd, listed)
    with _lock:
        known = _read_prices(path)
        if model not in known or known[model].factor < seen.factor:
            _write_prices(path, {**known, model: seen})


def _read_prices(path: Path) -> dict[str, ObservedPrice]:
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    except OSError as e:
        raise build_file_error("read the observed prices", path, e) from e
    models = content.get("models") if isinstance(content, dict) else None
    if not isinstance(models, dict):
        return {}
    found = {model: _parse_price(value) for model, value in sorted(models.items())[:MAX_MODELS]}
    return {model: seen for model, seen in found.items() if seen is not None}


def _parse_price(value: object) -> ObservedPrice | None:
    if not isinstance(value, dict):
        return None
    reported, listed = value.get("reported"), value.get("listed")
    if (
        type(reported) is not int
        or type(listed) is not int
        or listed < MIN_MICRO_USD
        or not is_credible(reported, listed)
    ):
        return None
    return ObservedPrice(reported, listed)


def _write_prices(path: Path, models: Mapping[str, ObservedPrice]) -> None:
    content = {
        "about": "millionths of a dollar: what agents' programs reported, and the built-in table",
        "models": {name: {"reported": seen.reported, "listed": seen.listed} for name, seen in sorted(models.items())},
    }
    write_atomically(path, json.dumps(content, indent=2) + "\n")
