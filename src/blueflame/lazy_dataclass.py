"""`dataclass` as in the standard library, but each method is compiled when it is first called.

The standard one compiles six methods as each class is defined. Blue Flame has hundreds of classes, a command uses a
third of them, and compiling was four tenths of the time that its imports took.
"""

from __future__ import annotations

import dataclasses

__all__ = ["dataclass"]

TYPE_CHECKING = False  # typing alone would cost every warden some 8 ms
METHODS = {"__init__": "init", "__repr__": "repr", "__eq__": "eq", "__hash__": "eq"}  # and the standard one's options

if TYPE_CHECKING:  # a type checker knows the standard one
    from collections.abc import Sequence
    from dataclasses import dataclass
    from typing import Any as Class  # each has other fields
    from typing import NoReturn
else:

    def dataclass(cls: Class | None = None, /, **options: bool) -> object:
        return _build_class(cls, **options) if cls else lambda cls: _build_class(cls, **options)


def _build_class(
    cls: Class, *, frozen: bool = False, slots: bool = False, eq: bool = True, kw_only: bool = False
) -> Class:
    wanted = [name for name, option in METHODS.items() if eq or option != "eq"]
    missing = [name for name in wanted if cls.__dict__.get(name) is None]  # next to an __eq__, __hash__ is None
    cls.__doc__ = cls.__doc__ or f"{cls.__name__}(...)"  # the standard one, with a signature, takes long
    built: Class = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
    for name in missing:
        changeable = name == "__hash__" and not frozen
        setattr(built, name, None if changeable else _LazyMethod(built, name, frozen))
    if frozen:
        built.__setattr__, built.__delattr__ = _refuse_assignment, _refuse_deletion
        if slots:  # copying would assign
            built.__getstate__, built.__setstate__ = _read_state, _restore_state
    return built


class _LazyMethod:
    """Stands in a class for a method, and puts it in its place when it is looked up."""

    def __init__(self, cls: Class, name: str, frozen: bool) -> None:
        self.cls, self.name, self.frozen = cls, name, frozen

    def __get__(self, instance: object, owner: Class) -> object:
        setattr(self.cls, self.name, _compile_method(self.cls, self.name, self.frozen))
        return self.cls.__dict__[self.name].__get__(instance, owner)


def _compile_method(cls: Class, name: str, frozen: bool) -> Class:
    """Take it from a standard dataclass with the same fields: it does not depend on its class."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    namespace = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__, **fields}
    namespace["__annotations__"] = {name: field.type for name, field in fields.items()}
    if hasattr(cls, "__post_init__"):
        namespace["__post_init__"] = cls.__post_init__
    parts = dict.fromkeys(METHODS.values(), False) | {METHODS[name]: True}
    compiled: Class = dataclasses.dataclass(frozen=frozen, **parts)(type(cls.__name__, (), namespace))
    return compiled.__dict__[name]


def _refuse_assignment(_self: object, name: str, _value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _read_state(self: Class) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore_state(self: Class, state: Sequence[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
