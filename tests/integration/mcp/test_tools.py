"""The tools, resources and prompts, as the SDK's client gets them in both eras of the protocol."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from blueflame.mcp.prompts import JOBS
from support.mcp_clients import ERAS, connect, converse, read_calls
from support.recorded_session import ID

READS = {"size", "sessions", "status", "gates", "show", "diff", "cost", "log", "knowledge"}
ACTS = {"start", "resume", "fix", "stop", "answer", "take", "hand_in"}
MAX_RESULT_CHARS = 10_000


@pytest.mark.parametrize("era", ERAS)
def test_every_tool_has_a_typed_result_and_says_whether_it_only_reads(planned: Path, tmp_path: Path, era: str) -> None:
    async def story() -> None:
        async with connect(planned, tmp_path / "calls", era=era) as mine:
            tools = {tool.name: tool for tool in (await mine.client.list_tools()).tools}
            assert set(tools) == READS | ACTS
            for name, tool in tools.items():
                assert tool.output_schema, name
                assert tool.annotations
                assert tool.annotations.read_only_hint == (name in READS)

    converse(story())


def test_no_tool_takes_a_decision_as_an_argument(planned: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with connect(planned, tmp_path / "calls") as mine:
            for tool in (await mine.client.list_tools()).tools:
                given = json.dumps(tool.input_schema)
                assert not any(word in given for word in ("choice", "approve", "given", "budget")), tool.name

    converse(story())


@pytest.mark.parametrize("era", ERAS)
def test_reading_tools_are_short_and_name_what_waits(planned: Path, tmp_path: Path, era: str) -> None:
    async def story() -> None:
        async with connect(planned, tmp_path / "calls", era=era) as mine:
            status = await mine.call("status")
            assert status["gates"] == [{"id": "plan", "asks": status["gates"][0]["asks"]}]
            assert status["next"] == "a person decides"
            again = await mine.call("status", since=status["cursor"])
            assert ("events" in again, again["cursor"]) == (False, status["cursor"])
            gates = await mine.call("gates")
            assert gates["commands"] == {"plan": f"blueflame answer plan CHOICE --session {ID}"}
            shown = await mine.call("show")
            assert shown["kind"] == "plan"
            assert (await mine.call("sessions"))["sessions"][0]["session"] == ID
            assert (await mine.call("cost"))["cost_usd"] == 0
            assert ID in (await mine.call("log"))["session"]
            assert (await mine.call("knowledge"))["memories"] == []
            assert "no diff" in await mine.fail("diff")
            for result in (status, gates, shown):
                assert len(json.dumps(result, ensure_ascii=False)) < MAX_RESULT_CHARS

    converse(story())


def test_resources_have_the_whole_session(planned: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with connect(planned, tmp_path / "calls") as mine:
            assert (await mine.read("blueflame://sessions"))["sessions"][0]["session"] == ID
            assert (await mine.read(f"blueflame://sessions/{ID}"))["gates"][0]["id"] == "plan"
            assert (await mine.read(f"blueflame://sessions/{ID}/report"))["session"] == ID
            with pytest.raises(MCPError):
                await mine.read(f"blueflame://sessions/{ID}/changesets/plan")
            with pytest.raises(MCPError):
                await mine.read("blueflame://sessions/..%2F..%2Fetc")

    converse(story())


def test_prompts_are_the_skills_with_the_words_of_the_person(planned: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with connect(planned, tmp_path / "calls") as mine:
            listed = (await mine.client.list_prompts()).prompts
            assert [prompt.name for prompt in listed] == list(JOBS)
            got = await mine.client.get_prompt("run", {"words": "Build it"})
            text = json.dumps([message.model_dump() for message in got.messages], default=str)
            assert "Build it" in text
            assert "ARGUMENTS" not in text

    converse(story())


@pytest.mark.parametrize("era", ERAS)
def test_a_new_conversation_learns_what_waits_for_the_person(planned: Path, tmp_path: Path, era: str) -> None:
    async def story() -> None:
        async with connect(planned, tmp_path / "calls", era=era) as mine:
            assert f"Open gates of {ID}, for the person: plan." in (mine.client.instructions or "")

    converse(story())


@pytest.mark.parametrize("era", ERAS)
def test_every_call_is_recorded_with_the_name_of_the_client(planned: Path, tmp_path: Path, era: str) -> None:
    async def story() -> None:
        async with connect(planned, tmp_path / "state" / "calls", era=era) as mine:
            await mine.call("status", session="ses-")
            await mine.fail("show", item="\x1b[2Jnothing")
            await mine.read("blueflame://sessions")

    converse(story())
    calls = list(read_calls(tmp_path / "state" / "calls"))
    names = [(call["client"], call["name"]) for call in calls]
    assert names == [("prüfer␛[31m 1", name) for name in ("status", "show", "blueflame://sessions")]
    assert calls[0]["arguments"] == {"session": "ses-"}
    assert "\x1b" not in json.dumps(calls, ensure_ascii=False)


def test_a_call_that_cannot_be_recorded_is_not_carried_out(planned: Path, tmp_path: Path) -> None:
    (tmp_path / "calls").mkdir()

    async def story() -> None:
        async with connect(planned, tmp_path / "calls") as mine:
            with pytest.raises(MCPError, match="record the call"):
                await mine.client.call_tool("status", {})

    converse(story())


def test_without_a_configuration_it_says_what_to_do(repo: Path, tmp_path: Path) -> None:
    async def story() -> list[str]:
        async with connect(repo / "blueflame.yaml", tmp_path / "calls") as mine:
            return [await mine.fail(tool) for tool in ("status", "sessions", "gates")]

    for said in converse(story()):
        assert "blueflame.yaml" in said


def test_in_a_folder_that_is_gone_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    async def story() -> None:
        async with connect(None, tmp_path / "calls") as mine:
            for tool, arguments in (("status", {}), ("start", {"request": "x"})):
                with pytest.raises(MCPError, match="the current folder cannot be used"):
                    await mine.client.call_tool(tool, arguments)

    converse(story())


def test_what_is_not_trusted_starts_nothing(planned: Path, tmp_path: Path) -> None:
    untrusted = json.loads(planned.read_text()) | {"hooks": {"post_plan": "touch ran"}}
    planned.write_text(json.dumps(untrusted))

    async def story() -> list[str]:
        async with connect(planned, tmp_path / "calls") as mine:
            said = [
                await mine.fail("start", request="x"),
                await mine.fail("resume"),
                await mine.fail("size", request="x"),
                await mine.fail("fix", work="task-001", wrong="x"),
            ]
            assert not mine.served.children
            return said

    for said in converse(story()):
        assert "blueflame trust" in said
