from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pytest

from blueflame.views.parts import pick


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Car:
    name: str = "Ida"
    colour: Colour | None = Colour.RED
    doors: tuple[str, ...] = ("left", "right")
    weight: int = 900


def test_named_fields_are_taken_in_their_order_as_json_has_them() -> None:
    assert list(pick(Car(), "doors colour name").items()) == [
        ("doors", ["left", "right"]),
        ("colour", "red"),
        ("name", "Ida"),
    ]


def test_a_field_without_a_value_is_none() -> None:
    assert pick(Car(colour=None), "colour") == {"colour": None}


def test_a_name_that_no_field_has_is_an_error() -> None:
    with pytest.raises(AttributeError):
        pick(Car(), "colur")
