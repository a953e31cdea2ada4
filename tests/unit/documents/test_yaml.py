from __future__ import annotations

import json

import pytest

from blueflame.documents.yaml import MAX_LOCATED_CHARS, find_half_characters, read_document


def test_yaml_values_have_their_types_and_lines() -> None:
    found = read_document("a: 1\nb:\n  - x: true\n    y: null\n  - 1.5\n# end\nс: 'да'\n")
    assert found.data == {"a": 1, "b": [{"x": True, "y": None}, 1.5], "с": "да"}
    assert [found.find_line(place) for place in [("a",), ("b", 0, "y"), ("b", 1), ("с",)]] == [1, 4, 5, 7]


def test_the_line_of_something_missing_is_that_of_what_is_around_it() -> None:
    found = read_document("a:\n  b: 1\nc: 2\n")
    assert found.find_line(("a", "nothing", 3)) == 1


def test_yaml_1_2_words_and_dates_are_texts() -> None:
    found = read_document("a: yes\nb: on\nc: 2026-02-06\nd: 0o14\ne: 1_0\nf: -.inf\n")
    assert found.data == {"a": "yes", "b": "on", "c": "2026-02-06", "d": 12, "e": 10, "f": float("-inf")}


def test_json_is_read_as_json_and_its_lines_are_known() -> None:
    found = read_document('{"a": [1,\n 2,\n {"b": "\\ud83d\\ude00"}]}')
    assert found.data == {"a": [1, 2, {"b": "😀"}]}
    assert found.find_line(("a", 2, "b")) == 3


def test_large_json_is_not_searched_for_lines() -> None:
    found = read_document(json.dumps({"a": "x" * MAX_LOCATED_CHARS}))
    assert found.find_line(("a",)) is None


def test_a_flow_mapping_is_yaml_although_it_begins_like_json() -> None:
    assert read_document("{a: 1, b: [x, y]}").data == {"a": 1, "b": ["x", "y"]}


def test_json_that_only_yaml_would_take_can_be_refused() -> None:
    found = read_document('{"a": 1,\n "b": }', only_json=True)
    assert (found.data, found.find_line(())) == (None, 2)
    assert read_document("a: 1\n", only_json=True).problems


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3\n", '{"a": 1, "b": 2, "a": 3}'])
def test_a_key_given_twice_is_a_problem(text: str) -> None:
    (problem,) = read_document(text).problems
    assert "'a' is given twice" in problem.text


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: [1,\nb: }\n", 2), ('{"a": 1,\n "b": [}', 2), ("a: 'open\n", 2), ("a: *missing\n", 1), ("\ta: 1\n", 1)],
)
def test_what_cannot_be_parsed_is_a_problem_with_its_line(text: str, line: int) -> None:
    found = read_document(text)
    assert found.data is None
    assert "this is not " in found.problems[0].text
    assert found.find_line(()) == line


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "a: \x07\n", "--- 1\n--- 2\n"])
def test_nothing_a_file_holds_raises(text: str) -> None:
    found = read_document(text)
    assert found.problems


def test_aliases_cannot_explode() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    assert "aliases" in read_document(bomb).problems[0].text
    assert "holds itself" in read_document("a: &a [*a]\n").problems[0].text


def test_tags_make_no_objects() -> None:
    found = read_document("a: !!python/object/apply:os.system ['x']\nb: !custom y\n")
    assert "tag !custom" in found.problems[-1].text


def test_yaml_that_a_json_library_wrote_has_whole_characters() -> None:
    found = read_document('a: "\\ud83d\\ude00"\n"\\ud83d\\ude01": 1\n')

    assert found.data == {"a": "😀", "😁": 1}


def test_half_of_a_character_is_kept_and_can_be_found() -> None:
    data = read_document('a: ["whole", "cut \\ud83d"]\n').data

    assert data == {"a": ["whole", "cut \ud83d"]}
    assert [problem.path for problem in find_half_characters(data)] == [("a", 1)]
