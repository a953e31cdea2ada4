from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from blueflame.documents.yaml import YamlValue, format_mapping, read_document

hostile = st.one_of(
    st.text(),
    st.text(alphabet=st.characters(exclude_categories=())),  # lone surrogates too
    st.text(alphabet=" \n\t\r:#-|>&*!%@`'\"\\{}[],?ab\x1b\x85\u2028\ufeff"),
    st.sampled_from(
        ["null", "true", "Yes", "off", "1", "1e3", "0x1f", "1_000", ".inf", "~", "", "=", "<<", "---", "..."]
    ),
    st.sampled_from(
        ["2026-02-06", "1:30", "- a", "a: b", "# c", " lead", "trail ", "a\n\n\nb", "a\nb\n", "\n", "a \nb"]
    ),
)
numbers = st.integers() | st.floats(allow_nan=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | hostile,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["id", "title", "notes"]), values, min_size=1))
def test_what_is_written_is_read_back_the_same(fields: dict[str, YamlValue]) -> None:
    text = format_mapping(fields)
    found = read_document(text)
    assert found.problems == ()
    assert found.data == fields


@given(st.dictionaries(st.sampled_from(["id", "title"]), values, min_size=1))
def test_ruamel_itself_reads_the_same(fields: dict[str, YamlValue]) -> None:
    assert YAML(typ="safe", pure=True).load(format_mapping(fields)) == fields


def test_several_lines_are_written_as_a_person_would() -> None:
    assert format_mapping({"notes": "первая\nвторая\n"}) == "notes: |\n  первая\n  вторая\n"
    assert format_mapping({"notes": "a\n\n  b"}) == "notes: |-\n  a\n\n    b\n"


def test_terminal_escapes_never_stand_raw() -> None:
    assert format_mapping({"title": "\x1b[2J"}) == 'title: "\\u001b[2J"\n'


def test_empty_values_keep_their_type() -> None:
    text = format_mapping({"a": [], "b": {}, "c": "", "d": None, "e": [[], {}, [1, [2]]]})
    assert read_document(text).data == {"a": [], "b": {}, "c": "", "d": None, "e": [[], {}, [1, [2]]]}


@pytest.mark.parametrize("number", [math.inf, -math.inf, 1e-07, 1e22, -0.0, 10**30])
def test_awkward_numbers_survive(number: float) -> None:
    assert read_document(format_mapping({"n": number})).data == {"n": number}
