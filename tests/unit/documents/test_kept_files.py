"""One entry in a file that a person keeps: put in, and taken out again, with all the rest as it was."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueflame.documents.jsonc import drop_member, put_member, read_jsonc
from blueflame.documents.toml_tables import drop_table, put_table
from blueflame.model.errors import UsageError

PLACE = ("mcpServers", "blueflame")
ENTRY = {"command": "blueflame", "args": ["mcp"]}
TABLE = ("mcp_servers", "blueflame")

JSON_FILES = [
    '{\n  "theme": "dark"\n}\n',
    '{\n  // mine\n  "theme": "dark", // really\n  "mcpServers": {\n    "other": { "command": "x" } // keep\n  }\n}\n',
    '{\n\t"mcpServers": {\n\t\t"other": {},\n\t},\n}\n',
    '{"theme": "a // b", "mcpServers": {"other": {}}}',
    '{\n  "mcpServers": {},\n  /* { "mcpServers": 1 } */\n  "z": [1, {"a": "}"}]\n}',
]


@pytest.mark.parametrize("text", JSON_FILES)
def test_an_entry_is_added_and_every_line_of_the_person_stays(text: str) -> None:
    after = put_member(text, PLACE, ENTRY)
    known = read_jsonc(text)
    assert read_jsonc(after) == {**known, "mcpServers": {**known.get("mcpServers", {}), "blueflame": ENTRY}}
    assert put_member(after, PLACE, ENTRY) == after
    for words in ("// mine", "// really", "// keep", '/* { "mcpServers": 1 } */', '"a // b"', '"theme": "dark"'):
        assert (words in after) == (words in text)


@pytest.mark.parametrize("text", [each for each in JSON_FILES if '"other"' in each])
def test_what_was_added_beside_others_is_removed_without_a_trace(text: str) -> None:
    assert drop_member(put_member(text, PLACE, ENTRY), PLACE) == text


def test_an_older_entry_of_ours_is_replaced() -> None:
    text = '{"mcpServers": {"blueflame": {"command": "old"}, "other": {}}}'
    assert read_jsonc(put_member(text, PLACE, ENTRY)) == {"mcpServers": {"blueflame": ENTRY, "other": {}}}


@pytest.mark.parametrize(
    "text", ["[1]", "{", '{"a": }', "nonsense", '{"mcpServers": 1}', '{"mcpServers": []}', "{'a': 1}"]
)
def test_what_is_no_settings_file_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        put_member(text, PLACE, ENTRY)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
settings_files = st.dictionaries(st.text(max_size=6), values, max_size=4)
layouts = st.sampled_from([None, 0, 2, "\t"])


@given(settings_files, settings_files, layouts)
def test_any_settings_keep_what_they_had(
    settings: dict[str, Any], servers: dict[str, Any], layout: int | str | None
) -> None:
    known = {**settings, "mcpServers": {name: value for name, value in servers.items() if name != "blueflame"}}
    text = json.dumps(known, indent=layout, ensure_ascii=False)
    added = put_member(text, PLACE, ENTRY)
    assert json.loads(added) == {**known, "mcpServers": {**known["mcpServers"], "blueflame": ENTRY}}
    assert json.loads(drop_member(added, PLACE)) == known


TOML_FILES = [
    "",
    '# mine\nmodel = "x"\n',
    'model = "x"  # no newline at the end',
    '[mcp_servers.other]  # keep\ncommand = "y"\n\n[profiles.a]\nmodel = "z"\n',
    "[mcp_servers]\n",
]


@pytest.mark.parametrize("text", TOML_FILES)
def test_a_table_is_added_at_the_end_and_removed_again(text: str) -> None:
    after = put_table(text, TABLE, ENTRY)
    assert after.startswith(text)
    assert tomllib.loads(after)["mcp_servers"]["blueflame"] == ENTRY
    assert put_table(after, TABLE, ENTRY) == after
    assert drop_table(after, TABLE).rstrip() == text.rstrip()


def test_a_table_in_the_middle_is_removed_with_the_tables_within_it() -> None:
    text = '[mcp_servers.blueflame]\ncommand = "b"\n[mcp_servers.blueflame.env]\nA = "1"\n[z]\na = 1\n'
    assert drop_table(text, TABLE) == "[z]\na = 1\n"


def test_a_comment_above_the_next_table_stays() -> None:
    rest = '\n# the other one\n[mcp_servers.other]\ncommand = "x"\n'
    assert drop_table(f'[mcp_servers.blueflame]\n# ours\ncommand = "b"\n{rest}', TABLE) == rest
    assert drop_table('a = 1\n[mcp_servers.blueflame]\ncommand = "b"\n# mine', TABLE) == "a = 1\n# mine"


@pytest.mark.parametrize("text", ["a = ", "mcp_servers = 1", 'mcp_servers = { other = { command = "x" } }', "a\n=1"])
def test_what_cannot_be_changed_safely_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        put_table(text, TABLE, ENTRY)
