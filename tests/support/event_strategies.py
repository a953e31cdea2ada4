"""Events of every kind, for laws that hold for all of them."""

from __future__ import annotations

from typing import TypeVar, get_args

from hypothesis import strategies as st

from blueflame.model.attempt import AttemptOutcome
from blueflame.model.event import Event, SessionOpened
from blueflame.model.gate import Answer, Gate
from blueflame.model.limits import Limits
from blueflame.model.seat import Seat
from blueflame.model.spend import Budget

KINDS: tuple[type[Event], ...] = get_args(Event)
_Event = TypeVar("_Event")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=3)

# what is typed as Any holds JSON, and a mapping is compared as the dict that it comes back as
st.register_type_strategy(AttemptOutcome, lambda _: st.builds(AttemptOutcome, output=st.none() | json_objects))
st.register_type_strategy(Gate, lambda _: st.builds(Gate, evidence=json_objects))
st.register_type_strategy(
    Limits,
    lambda _: st.builds(
        Limits,
        role_budgets=st.dictionaries(st.text(), st.from_type(Budget), max_size=2),
        role_timeouts=st.dictionaries(st.text(), st.floats(), max_size=2),
        role_models=st.dictionaries(st.text(), st.text(), max_size=2),
        role_runtimes=st.dictionaries(st.text(), st.text(), max_size=2),
        group_validator_models=st.dictionaries(st.text(), st.text(), max_size=2),
        domains=st.dictionaries(st.text(), st.tuples(st.text()), max_size=2),
    ),
)
st.register_type_strategy(Seat, lambda _: st.builds(Seat, tasks=st.dictionaries(st.text(), st.integers(), max_size=2)))
st.register_type_strategy(SessionOpened, lambda _: st.builds(SessionOpened, overrides=json_objects))
st.register_type_strategy(Answer, lambda _: st.builds(Answer, payload=json_objects))


def build_events(kind: type[_Event]) -> st.SearchStrategy[_Event]:
    return st.from_type(kind)
