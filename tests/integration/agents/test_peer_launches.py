"""How Codex, the Gemini CLI, opencode and ACP agents are started: their arguments, variables and homes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from blueflame.agents import acp, codex, registry
from blueflame.agents.programs import build_hook_command, find_program
from blueflame.agents.runtime import AgentLaunch
from blueflame.agents.structured_output import build_strict_schema, parse_object
from blueflame.model.errors import Refused
from blueflame.model.schemas import PLAN_SCHEMA, VERDICT_SCHEMA
from support.agent_briefs import GATEWAY, build_brief


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Write a file that begins like a native program."""
    path = tmp_path / "bin" / "agent"
    path.parent.mkdir()
    path.write_bytes(b"\x7fELF" + b"\0" * 60)
    path.chmod(0o755)
    return path


def launched(kind: str, program: Path, tmp_path: Path, **changes: Any) -> AgentLaunch:  # noqa: ANN401
    runtime = registry.build_runtime(kind, {"command": str(program)}, tmp_path)
    return runtime.prepare_launch(build_brief(**changes), directory=tmp_path)


def settings_of(launch: AgentLaunch) -> dict[str, Any]:
    """Parse the settings of Codex as it does: one line of TOML for each -c."""
    words = launch.argv
    lines = [words[n + 1] for n, word in enumerate(words) if word == "-c"]
    return tomllib.loads("\n".join(lines))


def test_codex_has_everything_that_governs_it_in_its_arguments(program: Path, tmp_path: Path) -> None:
    launch = launched("codex", program, tmp_path)
    settings = settings_of(launch)

    hook = settings["hooks"]["PreToolUse"][0]
    assert (hook["matcher"], hook["hooks"][0]["command"]) == ("*", build_hook_command("quiet"))
    assert settings["projects"] == {'/somewhere/my "repo".x': {"trust_level": "untrusted"}}
    provider = settings["model_providers"][settings["model_provider"]]
    assert (provider["base_url"], launch.env[provider["env_key"]]) == (f"{GATEWAY}/openai", "bf-token")
    assert settings["web_search"] == "disabled"
    assert [launch.argv[n + 1] for n, word in enumerate(launch.argv) if word == "--enable"] == ["hooks"]
    assert {"unified_exec_tty", "plugins", "multi_agent"} <= set(launch.argv)
    assert (launch.apis, launch.dialect, launch.home) == (("openai",), "codex", {})
    assert launch.stdin == "Be brief.\n\nDo it."
    assert "bf-token" not in " ".join(launch.argv)


def test_codex_is_held_to_a_schema(program: Path, tmp_path: Path) -> None:
    launch = launched("codex", program, tmp_path, role="validator", schema=VERDICT_SCHEMA)

    schema = Path(launch.argv[launch.argv.index("--output-schema") + 1])
    found = json.loads(schema.read_text())
    assert found["required"] == list(VERDICT_SCHEMA["properties"])  # its provider allows no optional keys
    assert found["properties"]["status"] == VERDICT_SCHEMA["properties"]["status"]
    assert found["properties"]["confidence"]["type"] == ["number", "null"]
    assert schema in launch.needs


def test_nothing_is_optional_in_a_strict_schema_down_to_its_last_part() -> None:
    task = build_strict_schema(PLAN_SCHEMA)["properties"]["tasks"]["items"]

    assert task["required"] == list(PLAN_SCHEMA["properties"]["tasks"]["items"]["properties"])
    assert task["properties"]["model"]["type"] == ["string", "null"]
    assert task["properties"]["id"]["type"] == "string"
    assert build_strict_schema({"type": "object", "properties": {"x": {"type": "string", "enum": ["a"]}}})[
        "properties"
    ]["x"] == {
        "type": ["string", "null"],
        "enum": ["a", None],
    }


@pytest.mark.parametrize("left", [0, 3])
def test_gemini_reaches_the_tool_ask_only_if_it_may_ask(program: Path, tmp_path: Path, left: int) -> None:
    launch = launched("gemini", program, tmp_path, tools=("Read",), questions=left)

    settings = json.loads((tmp_path / "gemini-settings.json").read_text())
    servers = [server["httpUrl"] for server in settings["mcpServers"].values()]
    assert servers == (["http://127.0.0.1:${BLUEFLAME_HOOK_PORT}/mcp"] if left else [])
    assert ("mcp_blueflame_ask" in settings["tools"]["core"]) == bool(left)
    assert launch.questions == left


def test_gemini_gets_its_hook_and_its_tools_in_settings_of_its_own(program: Path, tmp_path: Path) -> None:
    launch = launched("gemini", program, tmp_path, tools=("Read", "Bash", "StructuredOutput"))

    settings = json.loads((tmp_path / "gemini-settings.json").read_text())
    assert tmp_path / "gemini-settings.json" in launch.needs
    assert settings["hooks"]["BeforeTool"][0]["hooks"][0]["timeout"] == 5000  # milliseconds
    assert settings["hooks"]["BeforeTool"][0]["hooks"][0]["command"] == build_hook_command()
    assert settings["tools"]["core"] == ["list_directory", "read_file", "run_shell_command"]
    assert launch.env["GOOGLE_GEMINI_BASE_URL"] == f"{GATEWAY}/gemini"
    assert launch.env["GEMINI_API_KEY"] == "bf-token"
    assert launch.argv[launch.argv.index("--model") + 1] == "some-model"
    assert (launch.apis, launch.dialect) == (("gemini",), "gemini")


def test_opencode_asks_for_everything_and_reads_nothing_of_the_repositorys(program: Path, tmp_path: Path) -> None:
    launch = launched("opencode", program, tmp_path, tools=("Read", "Write", "Edit", "Agent"))

    settings = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
    assert settings["permission"] == {"*": "deny", "external_directory": "ask", "read": "ask", "edit": "ask"}
    assert settings["provider"]["blueflame"]["options"]["baseURL"] == f"{GATEWAY}/openai"
    assert launch.env["OPENCODE_DISABLE_PROJECT_CONFIG"] == launch.env["OPENCODE_PURE"] == "1"
    orders = json.loads((tmp_path / "acp.json").read_text())
    assert (orders["argv"], orders["model"]) == ([str(program), "acp"], "blueflame/some-model")
    assert launch.apis == ("openai",)


def test_an_acp_agent_gets_the_address_of_its_model(program: Path, tmp_path: Path) -> None:
    options = {
        "command": str(program),
        "args": ["--model", "{model}"],
        "env": {"MY_URL": "{gateway}/gemini", "MY_KEY": "{token}", "OTHER": "{this} stays"},
    }
    launch = acp.build_runtime(options, tmp_path).prepare_launch(build_brief(), directory=tmp_path)

    assert {name: launch.env[name] for name in ("MY_URL", "MY_KEY", "OTHER")} == {
        "MY_URL": f"{GATEWAY}/gemini",
        "MY_KEY": "bf-token",
        "OTHER": "{this} stays",
    }
    assert json.loads((tmp_path / "acp.json").read_text())["argv"] == [str(program), "--model", "some-model"]
    assert launch.apis == ("gemini",)
    assert all(path.exists() for path in launch.needs)


def test_an_acp_agent_with_a_known_name_needs_no_settings(program: Path, tmp_path: Path) -> None:
    bridge = program.with_name("claude-agent-acp")
    program.rename(bridge)

    launch = acp.build_runtime({"command": str(bridge)}, tmp_path).prepare_launch(
        build_brief(model="sonnet"), directory=tmp_path
    )

    assert launch.apis == ("anthropic",)
    assert launch.env["ANTHROPIC_BASE_URL"] == f"{GATEWAY}/anthropic"
    assert launch.env["ANTHROPIC_MODEL"] == "sonnet"


@pytest.mark.parametrize("kind", ["codex", "gemini", "opencode", "acp"])
def test_a_model_that_only_claude_knows_is_refused_and_not_guessed(kind: str, program: Path, tmp_path: Path) -> None:
    for model in ("sonnet", "haiku", ""):
        with pytest.raises(Refused, match=r"roles\.worker\.model"):
            launched(kind, program, tmp_path, model=model)


@pytest.mark.parametrize("kind", ["gemini", "opencode", "acp"])
def test_a_schema_is_requested_in_the_prompt(kind: str, program: Path, tmp_path: Path) -> None:
    launch = launched(kind, program, tmp_path, schema={"type": "object", "title": "a verdict"})

    assert launch.stdin.startswith("Be brief.\n\nDo it.\n\nYour last message must be one JSON object")
    assert '"title": "a verdict"' in launch.stdin


@pytest.mark.parametrize("kind", ["codex", "gemini", "opencode", "acp"])
def test_a_missing_program_is_reported_and_refused(kind: str, tmp_path: Path) -> None:
    runtime = registry.build_runtime(kind, {"command": "no-such-agent"}, tmp_path)

    assert "no-such-agent" in runtime.find_problems()[0]
    with pytest.raises(Refused, match="no-such-agent"):
        runtime.prepare_launch(build_brief(), directory=tmp_path)


@pytest.mark.parametrize("kind", ["codex", "gemini", "opencode", "acp"])
def test_variables_that_bypass_the_walls_are_reported(kind: str, program: Path, tmp_path: Path) -> None:
    runtime = registry.build_runtime(
        kind, {"command": str(program), "env": {"NODE_OPTIONS": "-r x", "HOME": "/x", "FINE": "1"}}, tmp_path
    )

    result = [problem for problem in runtime.find_problems() if "remove it" in problem]

    assert [problem.split()[1] for problem in result] == ["HOME", "NODE_OPTIONS"]


def test_an_old_program_is_reported(tmp_path: Path) -> None:
    script = tmp_path / "node_modules" / "old" / "agent.sh"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\necho codex-cli 0.1.0\n")
    script.chmod(0o755)

    (problem,) = codex.build_runtime({"command": str(script)}, tmp_path).find_problems()

    assert "codex 0.1.0" in problem and "is too old: 0.166.0 or newer is needed" in problem


def test_a_script_needs_its_packages_and_its_interpreter(tmp_path: Path) -> None:
    package = tmp_path / "place" / "node_modules" / "@some" / "agent"
    package.mkdir(parents=True)
    (package / "cli.js").write_text("#!/usr/bin/env sh\n")
    (package / "cli.js").chmod(0o755)
    links = tmp_path / "place" / "node_modules" / ".bin"
    links.mkdir()
    (links / "agent").symlink_to(package / "cli.js")

    found = find_program("place/node_modules/.bin/agent --flag 'a b'", root=tmp_path)

    assert found is not None
    assert found.argv[1:] == (str(package / "cli.js"), "--flag", "a b")
    assert found.needs[:2] == (package / "cli.js", tmp_path / "place" / "node_modules")
    assert found.needs[2].name.endswith("sh")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": null, "b": [{"c": null, "d": [null]}]}', {"b": [{"d": [None]}]}),
        ('\n ```json\n{"a": 1}\n```\n', {"a": 1}),
        ('Here it is:\n```\n{"a": 1}\n```', {"a": 1}),
        ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', None),
        ("[1]", None),
        ("done", None),
        ("", None),
        ("[" * 100_000, None),
    ],
)
def test_an_object_is_found_only_where_it_is_the_whole_message(text: str, expected: object) -> None:
    assert parse_object(text) == expected
