"""How long a client waits for `blueflame mcp`, and its memory, beside a server of the bare SDK with one tool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import Figure, Report

ROUNDS = 9
SMALL = {"ROUNDS": 1}
BARE = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("bare")
@server.tool()
def status(session: str = "") -> dict[str, str]:
    return {}
server.run("stdio")
"""
CONFIG = "schema_version: 2\nproject: {name: example}\n"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


class Start(NamedTuple):
    seconds: float  # until the first answer
    processor: float  # seconds of processor time until then: they say something on a busy machine as well
    megabytes: float


def run() -> Report:
    bare, ours = _measure_alternately([sys.executable, "-c", BARE], [sys.executable, "-m", "blueflame", "mcp"])
    figures = (
        Figure(name="start of the bare SDK", value=bare.seconds, unit="s"),
        Figure(name="start of ours beyond it", value=ours.seconds - bare.seconds, unit="s", aim=0.3),
        Figure(name="processor time of the bare SDK", value=bare.processor, unit="s"),
        Figure(name="processor time of ours beyond it", value=ours.processor - bare.processor, unit="s", aim=0.3),
        Figure(name="memory of the bare SDK", value=bare.megabytes, unit="MB"),
        Figure(name="memory of ours beyond it", value=ours.megabytes - bare.megabytes, unit="MB", aim=20),
    )
    return Report(name="mcp_server", about="blueflame mcp beside the bare SDK; the least of each", figures=figures)


def _measure_alternately(*commands: list[str]) -> list[Start]:
    rounds = [[_measure_start(argv) for argv in commands] for _ in range(ROUNDS)]
    return [Start(*(min(values) for values in zip(*starts, strict=True))) for starts in zip(*rounds, strict=True)]


def _measure_start(argv: list[str]) -> Start:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        Path(folder, "blueflame.yaml").write_text(CONFIG, encoding="utf-8")  # so that it looks for open gates
        begin = time.monotonic()
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, cwd=folder, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as server:
            assert server.stdin
            assert server.stdout
            server.stdin.write(json.dumps(HELLO).encode() + b"\n")
            server.stdin.flush()
            assert b'"result"' in server.stdout.readline()
            seconds = time.monotonic() - begin
            processor, megabytes = _read_processor_time(server.pid), _read_memory(server.pid)
            server.stdin.close()
    return Start(seconds, processor, megabytes)


def _read_processor_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read_memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
