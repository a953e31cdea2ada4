"""Classes with methods that are compiled later behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from blueflame import lazy_dataclass

Decorator = Callable[..., Callable[[type], type]]
DECORATORS = (dataclasses.dataclass, lazy_dataclass.dataclass)


def _build_point(dataclass: Decorator) -> type:
    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 2
        tags: list[str] = dataclasses.field(default_factory=list, compare=False)

    return Point


def _build_counter(dataclass: Decorator) -> type:
    @dataclass(slots=True, kw_only=True)
    class Counter:
        """Counts."""

        start: int
        total: int = dataclasses.field(default=0, init=False, repr=False)

        def __post_init__(self) -> None:
            self.total = self.start * 10

    return Counter


def _build_child(dataclass: Decorator) -> type:
    @dataclass(frozen=True, kw_only=True)
    class Parent:
        name: str = "parent"

        def __repr__(self) -> str:
            return f"<{self.name}>"

    Parent()  # compiled before its child is built

    @dataclass(frozen=True, kw_only=True)
    class Child(Parent):
        age: int = 3

    return Child


def _build_identity(dataclass: Decorator) -> type:
    @dataclass(eq=False)
    class Connection:
        port: int

    return Connection


USES: dict[str, tuple[Callable[[Decorator], type], Callable[[Any], object]]] = {
    "positional values": (_build_point, lambda cls: repr(cls(1))),
    "every value": (_build_point, lambda cls: repr(cls(1, 3, ["a"]))),
    "own default lists": (_build_point, lambda cls: cls(1).tags is cls(2).tags),
    "a missing value": (_build_point, lambda cls: cls()),
    "an unknown value": (_build_point, lambda cls: cls(1, z=3)),
    "equal ones": (_build_point, lambda cls: (cls(1) == cls(1, tags=["a"]), cls(1) == cls(2), cls(1) == 1)),
    "the first call compares": (_build_point, lambda cls: cls.__new__(cls).__eq__(0)),
    "hashes": (_build_point, lambda cls: (hash(cls(1)) == hash(cls(1)), len({cls(1), cls(1), cls(2)}))),
    "assignment": (_build_point, lambda cls: setattr(cls(1), "x", 2)),
    "deletion": (_build_point, lambda cls: delattr(cls(1), "x")),
    "an unknown attribute": (_build_point, lambda cls: cls(1).z),
    "no dictionary": (_build_point, lambda cls: hasattr(cls(1), "__dict__")),
    "replace": (_build_point, lambda cls: repr(dataclasses.replace(cls(1), y=5))),
    "as a dictionary": (_build_point, lambda cls: dataclasses.asdict(cls(1))),
    "copies": (_build_point, lambda cls: (repr(copy.copy(cls(1))), repr(copy.deepcopy(cls(1, 2, ["a"]))))),
    "its signature": (_build_counter, lambda cls: str(inspect.signature(cls))),
    "matches by position": (_build_point, lambda cls: cls.__match_args__),
    "by keyword only": (_build_counter, lambda cls: cls(1)),
    "computed afterwards": (_build_counter, lambda cls: (cls(start=4).total, repr(cls(start=4)), cls.__doc__)),
    "changeable ones are not hashed": (_build_counter, lambda cls: hash(cls(start=4))),
    "changeable ones change": (_build_counter, lambda cls: setattr(cls(start=4), "start", 2)),
    "inherited": (_build_child, lambda cls: (cls(age=3).name, cls.__base__(name="x").name)),
    "a method of its own": (_build_child, lambda cls: (repr(cls.__base__(name="x")), repr(cls(age=3)))),
    "a child is no parent": (_build_child, lambda cls: cls.__base__() == cls(age=3)),
    "compared by identity": (_build_identity, lambda cls: (cls(1) == cls(1), {cls(1): 1} == {}, repr(cls(1)))),
}


def _use(build: Callable[[Decorator], type], use: Callable[[Any], object], decorator: Decorator) -> object:
    try:
        return use(build(decorator))
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", USES)
def test_it_behaves_as_the_standard_one(name: str) -> None:
    expected, actual = (_use(*USES[name], decorator) for decorator in DECORATORS)

    assert expected == actual


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Pickled:
    text: str


def test_it_can_be_pickled() -> None:
    assert Pickled("a") == pickle.loads(pickle.dumps(Pickled("a")))
