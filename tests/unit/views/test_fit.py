"""JSON that fits."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.views.fit import MAX_CHARS, fit_json, shorten_schema

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=60,
)


def test_what_fits_stays_as_it_is() -> None:
    small = {"a": [1, None, True, {"b": "текст\n"}], "c": 0.5}
    assert fit_json(small) == small


def test_long_texts_and_lists_say_how_much_is_left_out() -> None:
    fitted = fit_json({"text": "x" * 50_000, "list": list(range(9_000))})
    assert "more characters)" in str(fitted["text"])
    assert str(list(fitted["list"])[-1]).endswith(" more")  # type: ignore[call-overload] # a list, cut


def test_a_schema_has_no_titles_and_null_is_left_out() -> None:
    name = {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}], "default": None, "title": "Name"}
    either = {"anyOf": [{"type": "string"}, {"type": "integer"}], "title": "Either"}
    whole = {"type": "object", "title": "T", "properties": {"name": name, "either": either}, "required": ["either"]}
    assert shorten_schema(whole) == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "either": {"anyOf": either["anyOf"]}},
        "required": ["either"],
    }


@settings(max_examples=40)  # each is slow
@given(st.dictionaries(st.text(), values, max_size=5), st.integers(60, MAX_CHARS))
def test_nothing_is_larger_than_it_may_be_or_reaches_a_terminal_raw(value: dict[str, Any], most: int) -> None:
    fitted = fit_json(value, most)
    text = json.dumps(fitted, ensure_ascii=False)
    assert len(text) <= max(most, 80)
    assert "\x1b" not in "".join(map(str, fitted.values()))
