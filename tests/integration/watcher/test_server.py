"""The hook server with hooks and other clients: what it allows, what it records, which tricks it refuses."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from blueflame.agents.hook import find_hook
from blueflame.model.audit import compute_input_digest
from blueflame.model.policy import Decision, ToolCall
from blueflame.policy.tool_calls import MAX_CALL_BYTES
from blueflame.telemetry.audit import read_audit
from blueflame.watcher import audit_log
from blueflame.watcher import decision as decision_module
from blueflame.watcher import server as server_module
from blueflame.watcher.http import ALLOWED
from support.command_line import MAIN
from support.hook_servers import (
    ATTEMPT,
    MALFORMED_CALLS,
    WatchedAttempt,
    build_question,
    build_watch,
    receive_all,
    run_hook_server,
    send_and_receive,
)
from support.wardens import ROOT


def allow_everything(call: ToolCall) -> Decision:
    return Decision(True, "allowed")


@pytest.mark.verification(11, 12, 13)
def test_a_call_is_decided_by_the_policy_and_recorded(repo: Path) -> None:
    with run_hook_server(repo) as watch:
        watch.prove()
        allowed = watch.ask("Write", file_path=str(repo / "src" / "новый.py"), content="x\n")
        denied = watch.ask("Write", file_path=str(repo / ".env"), content="x\n")
        ran = watch.ask("Bash", command="git status")
        refused = watch.ask("Bash", command="git status; curl example.org")
        closed = watch.server.close()

    assert [said["permissionDecision"] for said in (allowed, denied, ran, refused)] == [
        "allow",
        "deny",
        "allow",
        "deny",
    ]
    canary, *lines = watch.lines()
    assert (canary["tool"], canary["decision"], canary["rule"], canary["prev"]) == (
        "BlueflameCanary",
        "block",
        "canary",
        "",
    )
    assert [line["decision"] for line in lines] == ["allow", "block", "allow", "block"]
    assert lines[0] == {
        "timestamp": lines[0]["timestamp"],
        "agent_id": "worker-0a1b2c3d",
        "attempt": ATTEMPT,
        "tool": "Write",
        "target": str(repo / "src" / "новый.py"),
        "decision": "allow",
        "rule": "allowed",
        "details": lines[0]["details"],
        "call": "toolu_1",
        "digest": compute_input_digest({"file_path": str(repo / "src" / "новый.py"), "content": "x\n"}),
        "prev": lines[0]["prev"],
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", lines[0]["timestamp"])
    assert lines[1]["rule"] == "blocked_path"
    assert denied["permissionDecisionReason"].startswith("blocked_path: ")
    assert closed == {"lines": 5, "last": read_audit(watch.audit).last, "proven": True, "problem": ""}


def test_the_hook_program_gets_its_answer_from_here(repo: Path) -> None:
    def hook(watch: WatchedAttempt, tool: str, **given: object) -> subprocess.CompletedProcess[bytes]:
        call = build_question(tool, given, cwd=str(repo))
        return watch.during(
            lambda: subprocess.run([find_hook()], input=call, env=watch.env, capture_output=True, check=False)
        )

    with run_hook_server(repo) as watch:
        assert hook(watch, "Read", file_path=str(repo / "README.md")).returncode == 2  # the canary first
        assert hook(watch, "BlueflameCanary").returncode == 2
        allowed = hook(watch, "Read", file_path=str(repo / "README.md"))
        large = hook(watch, "Write", file_path=str(repo / "src" / "a.py"), content="ж" * 1_000_000)
        denied = hook(watch, "Write", file_path="/etc/passwd", content="")

    assert (allowed.returncode, large.returncode, denied.returncode) == (0, 0, 2)
    assert json.loads(allowed.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow"
    assert b"outside_worktree" in denied.stderr
    assert (denied.stdout, watch.server.problem) == (b"", "")


def test_a_warning_refuses_one_call_that_can_wait_and_no_commit(repo: Path) -> None:
    with run_hook_server(repo) as watch:
        watch.server.add_notice("limit_near", "About 6 of your 30 minutes are left.")
        watch.prove()
        commit = watch.ask("Bash", command="git commit -m x")
        denied = watch.ask("Write", file_path=str(repo / ".env"), content="x\n")
        warned = watch.ask("Bash", command="git status")
        repeated = watch.ask("Bash", command="git status")

    decisions = [said["permissionDecision"] for said in (commit, denied, warned, repeated)]
    assert decisions == ["allow", "deny", "deny", "allow"]
    assert denied["permissionDecisionReason"].startswith("blocked_path: ")
    assert warned["permissionDecisionReason"] == "limit_near: About 6 of your 30 minutes are left."


def test_messages_are_read_in_order_each_once_and_recorded(repo: Path) -> None:
    read: list[str] = []
    with run_hook_server(repo) as watch:
        for text in ("first", "second"):
            watch.server.add_notice("message", text, partial(read.append, text))
        watch.prove()
        said = [watch.ask("Bash", command="git status")["permissionDecisionReason"] for _ in range(3)]

    assert said == ["message: first", "message: second", "allowed by policy"]
    assert read == ["first", "second"]
    assert [line["rule"] for line in watch.lines()] == ["canary", "message", "message", "allowed"]


def test_an_agent_that_is_not_shown_reasons_gets_no_notice(repo: Path) -> None:
    with run_hook_server(repo, notices=False) as watch:
        watch.server.add_notice("limit_near", "About 6 of your 30 minutes are left.")
        watch.prove()
        assert watch.ask("Bash", command="git status")["permissionDecision"] == "allow"


def test_before_the_canary_nothing_is_allowed(repo: Path) -> None:
    with run_hook_server(repo, decide=allow_everything) as watch:
        before = watch.ask("Read", file_path=str(repo / "README.md"))
        assert not watch.server.proven
        watch.prove()
        after = watch.ask("Read", file_path=str(repo / "README.md"))

    assert (before["permissionDecision"], after["permissionDecision"]) == ("deny", "allow")
    assert [line["rule"] for line in watch.lines()] == ["canary", "canary", "allowed"]


def test_the_canary_is_refused_even_if_the_policy_allows_it(repo: Path) -> None:
    with run_hook_server(repo, decide=allow_everything) as watch:
        watch.prove()
        watch.prove()


def test_an_attempt_without_a_canary_has_a_problem(repo: Path) -> None:
    with run_hook_server(repo, decide=allow_everything) as watch:
        assert "canary" in str(watch.server.close()["problem"])


@pytest.mark.parametrize("body", MALFORMED_CALLS.values(), ids=MALFORMED_CALLS.keys())
def test_a_malformed_call_is_refused_and_recorded(repo: Path, body: bytes) -> None:
    with run_hook_server(repo, decide=lambda call: Decision(False, "malformed_call", "not even then")) as watch:
        watch.prove()
        answer = watch.post(body)

    assert b"X-Blueflame-Decision: deny\r\n" in answer
    assert (watch.lines()[-1]["decision"], watch.lines()[-1]["rule"]) == ("block", "malformed_call")
    assert watch.server.problem == ""


def test_policy_check_refuses_malformed_calls_with_the_message_of_the_hook_server(repo: Path) -> None:
    """Both run one parser; `policy check` only fills in a missing event and folder."""
    bodies = [body for name, body in MALFORMED_CALLS.items() if name not in ("nothing", "no folder")]
    (repo / "blueflame.yaml").write_text("schema_version: 2\nproject: {name: x}\n")
    command = [sys.executable, "-c", MAIN, "policy", "check"]
    with run_hook_server(repo) as watch:
        watch.prove()
        for body in bodies:
            watch.post(body)
        checked = subprocess.run(command, input=b"\n".join(bodies), capture_output=True, cwd=repo, check=True).stdout

    refused = [(line["rule"], line["details"]) for line in watch.lines()[1:]]
    answers = [json.loads(line) for line in checked.splitlines()]
    assert [(answer["rule"], answer["details"]) for answer in answers] == refused
    assert all(answer["decision"] == "deny" for answer in answers)


BAD_REQUESTS = {
    "another path": "POST /hook2 HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
    "the root": "POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
    "a query": "POST /hook?x HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
    "a GET": "GET /hook HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
    "no length": "POST /hook HTTP/1.1\r\nHost: x{0:.0s}\r\n\r\n",
    "two lengths": "POST /hook HTTP/1.1\r\nContent-Length: {0}\r\nContent-Length: {0}\r\n\r\n",
    "a negative length": "POST /hook HTTP/1.1\r\nContent-Length: -{}\r\n\r\n",
    "a length in letters": "POST /hook HTTP/1.1\r\nContent-Length: x{}\r\n\r\n",
    "chunks": "POST /hook HTTP/1.1\r\nContent-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
    "too long": "POST /hook HTTP/1.1\r\nContent-Length: 9{}\r\n\r\n".replace(
        "9{}", str(MAX_CALL_BYTES + 1) + "{0:.0s}"
    ),
    "no HTTP": "hello {}\r\n\r\n",
    "another HTTP": "POST /hook HTTP/2\r\nContent-Length: {}\r\n\r\n",
    "a head without end": "POST /hook HTTP/1.1\r\nX: " + "x" * 20_000 + "{}\r\n\r\n",
}


@pytest.mark.parametrize("head", BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_a_bad_request_is_never_allowed(repo: Path, head: str) -> None:
    with run_hook_server(repo, decide=allow_everything) as watch:
        watch.prove()
        body = build_question("Read", {}, cwd="/")
        sent = head.replace("{0:.0s}", "").format(len(body)).encode() + body
        answer = watch.during(lambda: send_and_receive(watch.port, sent))

    assert b"allow" not in answer.lower().replace(b"method not allowed", b"")
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert len(watch.lines()) == 1


def test_requests_may_come_in_pieces_and_in_parallel(repo: Path) -> None:
    body = build_question("Read", {"file_path": "x"}, cwd="/")
    whole = b"POST /hook HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def ask_in_turns(port: int) -> list[bytes]:
        crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        for n in range(0, len(whole), 7):
            for one in crowd:
                one.sendall(whole[n : n + 7])
        answers = [receive_all(one) for one in crowd]
        for one in crowd:
            one.close()
        return answers

    with run_hook_server(repo, decide=allow_everything) as watch:
        watch.prove()
        answers = watch.during(lambda: ask_in_turns(watch.port))

    assert answers == [ALLOWED] * 5


def test_incomplete_and_closed_requests_are_not_recorded(repo: Path) -> None:
    with run_hook_server(repo, decide=allow_everything) as watch:
        watch.prove()
        for part in (b"", b"POST /ho", b"POST /hook HTTP/1.1\r\nContent-Length: 10\r\n\r\n{"):
            with socket.create_connection(("127.0.0.1", watch.port)) as server_module:
                server_module.sendall(part)
            assert watch.ask("Read", file_path="x")["permissionDecision"] == "allow"

    assert len(watch.lines()) == 4


def test_silent_connections_are_closed_and_others_refused_meanwhile(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_hook_server(repo, decide=allow_everything) as watch:
        watch.prove()
        crowd = [socket.create_connection(("127.0.0.1", watch.port)) for _ in range(server_module.MAX_CONNECTIONS)]
        assert watch.post(build_question("Read", {}, cwd="/")) == b""
        monkeypatch.setattr(server_module, "CONNECTION_TIMEOUT", 0.0)
        assert watch.ask("Read")["permissionDecision"] == "allow"
        for one in crowd:
            one.close()


def test_a_client_that_does_not_read_delays_no_other(repo: Path) -> None:
    with run_hook_server(repo, decide=lambda call: Decision(False, "blocked_path", "no " * 2000)) as watch:
        watch.prove()
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            deaf.connect(("127.0.0.1", watch.port))
            body = build_question("Read", {}, cwd="/")
            deaf.sendall(b"POST /hook HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            assert watch.ask("Read")["permissionDecision"] == "deny"


def test_a_bug_in_a_rule_refuses_the_call_and_the_watcher_continues(
    repo: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def buggy(call: ToolCall) -> Decision:
        if call.tool == "Bash":
            raise ZeroDivisionError("a bug")
        return Decision(True, "allowed")

    with run_hook_server(repo, decide=buggy) as watch:
        watch.prove()
        broken = watch.ask("Bash", command="true")
        well = watch.ask("Read", file_path="x")

    assert (broken["permissionDecision"], well["permissionDecision"]) == ("deny", "allow")
    assert watch.lines()[1]["rule"] == "malformed_call"
    assert "ZeroDivisionError: a bug" in capfd.readouterr().err


def test_a_decision_that_takes_too_long_is_a_refusal(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_module, "DECISION_TIMEOUT", 0.1)

    def slow(call: ToolCall) -> Decision:
        if call.tool == "Bash":
            re.match(r"(a+)+$", "a" * 60 + "b")
        elif call.tool == "Grep":
            try:
                time.sleep(20)
            except Exception:  # noqa: BLE001 (a rule that takes whatever comes for a failure of its own)
                return Decision(True, "allowed")
        return Decision(True, "allowed")

    with run_hook_server(repo, decide=slow) as watch:
        watch.prove()
        before = signal.getsignal(signal.SIGALRM)
        late = [watch.ask("Bash", command="true"), watch.ask("Grep", pattern="x")]
        in_time = watch.ask("Read", file_path="x")

    assert [said["permissionDecision"] for said in late] == ["deny", "deny"]
    assert in_time["permissionDecision"] == "allow"
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_policy_that_cannot_be_used_allows_nothing_and_is_a_problem(
    repo: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for text in ("", "{}", '{"version": 1}'):
        given = build_watch(repo)
        Path(given["policy"]).write_text(text)
        with closing_in_the_end(WatchedAttempt(repo, given, None)) as watch:
            watch.prove()
            assert "policy" in watch.server.problem
            assert watch.ask("Read", file_path=str(repo / "README.md"))["permissionDecision"] == "deny"


@contextmanager
def closing_in_the_end(watch: WatchedAttempt) -> Iterator[WatchedAttempt]:
    yield watch
    watch.server.close()


def test_a_policy_changed_before_it_is_read_allows_nothing(repo: Path) -> None:
    with run_hook_server(repo) as watch:
        watch.policy.write_text(watch.policy.read_text().replace(".env*", ".nothing"))
        watch.prove()
        assert watch.ask("Read", file_path=str(repo / "README.md"))["permissionDecision"] == "deny"
        assert "changed" in watch.server.problem


def test_changes_of_watched_files_are_reported_at_the_end(repo: Path, tmp_path: Path) -> None:
    own = tmp_path / "hook.sh"
    own.write_bytes(find_hook().read_bytes())

    def tampered(how: str) -> str:
        with run_hook_server(repo, hook=str(own), decide=allow_everything) as watch:
            watch.prove()
            watch.ask("Read", file_path="x")
            if how == "policy":
                watch.policy.write_text("{}")
            elif how == "hook":
                own.write_text("#!/bin/sh\nexit 0\n")
            elif how == "audit grew":
                with watch.audit.open("a") as file:
                    file.write("{}\n")
            elif how == "audit cut":
                watch.audit.write_text(watch.audit.read_text().partition("\n")[0] + "\n")
            elif how == "audit gone":
                watch.audit.unlink()
            elif how == "audit replaced":
                text = watch.audit.read_text()
                watch.audit.unlink()
                watch.audit.write_text(text)
            problem = str(watch.server.close()["problem"])
        watch.audit.unlink(missing_ok=True)
        return problem

    assert tampered("nothing") == ""
    assert "the policy" in tampered("policy")
    assert "the hook" in tampered("hook")
    for how in ("audit grew", "audit cut", "audit gone", "audit replaced"):
        assert "the audit log" in tampered(how), how


def test_a_log_that_cannot_be_opened_means_nothing_is_allowed(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    (tmp_path / "a link").symlink_to(tmp_path / "elsewhere")
    for place in (tmp_path / "a file" / "log", tmp_path / "a link", tmp_path):
        with run_hook_server(repo, audit=str(place), decide=allow_everything) as watch:
            assert "audit log" in watch.server.problem
            watch.prove()
            assert watch.ask("Read", file_path="x")["permissionDecision"] == "deny"
    assert not (tmp_path / "elsewhere").exists()


def test_a_log_that_cannot_be_written_means_nothing_is_allowed(repo: Path) -> None:
    with run_hook_server(repo, audit="/dev/full", decide=allow_everything) as watch:
        watch.prove()
        said = watch.ask("Read", file_path="x")

        assert said["permissionDecision"] == "deny"
        assert "recorded" in said["permissionDecisionReason"]
        assert "/dev/full" in watch.server.problem
        assert watch.server.is_disk_at_fault


def test_a_call_that_is_answered_too_late_is_no_fault_of_the_agent(repo: Path) -> None:
    """A warden that was stopped, or has no processor: the hook has given up and refused the call."""
    with run_hook_server(repo, decide=allow_everything) as watch:
        watch.prove()
        question = build_question("Read", {"file_path": "x"}, cwd=str(repo))
        with socket.create_connection(("127.0.0.1", watch.port)) as hook:
            hook.sendall(f"POST /hook HTTP/1.1\r\nContent-Length: {len(question)}\r\n\r\n".encode() + question)
        watch.prove()
        recorded = watch.server.close()
    assert "did not answer in time" in str(recorded["hindrance"])


def test_a_decision_without_a_processor_is_no_fault_of_the_agent(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def decide_asleep(call: ToolCall) -> Decision:
        time.sleep(0.05)
        return allow_everything(call)

    monkeypatch.setattr(decision_module, "SLOW_SECONDS", 0.02)
    with run_hook_server(repo, decide=decide_asleep) as watch:
        watch.prove()
        assert "of the processor" in watch.server.hindrance


def test_an_agent_that_fills_the_audit_log_is_refused(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "MAX_BYTES", 2000)
    with run_hook_server(repo, decide=allow_everything) as watch:
        watch.prove()
        answers = [watch.ask("Read", file_path="x")["permissionDecision"] for _ in range(10)]

    assert answers[0] == "allow"
    assert answers[-1] == "deny"
    assert "full" in watch.server.problem
    assert watch.audit.stat().st_size <= 2000


def test_the_audit_log_is_private_ascii_and_bounded(repo: Path) -> None:
    with run_hook_server(repo, decide=lambda call: Decision(False, "blocked_path", "нет\x1b[31m" * 1000)) as watch:
        watch.prove()
        watch.ask("Write", file_path="\x1b]0;title\x07\x7f\x9b\ud800ж" * 1000, content="\0")

    data = watch.audit.read_bytes()
    assert stat.S_IMODE(watch.audit.stat().st_mode) == 0o600
    assert all(0x20 <= byte < 0x7F or byte == 0x0A for byte in data)
    assert len(data) < 20_000
    assert read_audit(watch.audit).findings == ()


def test_an_existing_audit_log_is_continued(repo: Path) -> None:
    for _ in range(3):
        with run_hook_server(repo, decide=allow_everything) as watch:
            watch.prove()
            watch.ask("Read", file_path="x")

    audit = read_audit(watch.audit)
    assert (len(audit.lines), audit.findings) == (6, ())


def test_nothing_of_the_hooks_files_leaks_to_children(repo: Path) -> None:
    with run_hook_server(repo, decide=allow_everything) as watch:
        watch.prove()
        left = subprocess.run(
            ["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=True, close_fds=False
        )

    assert "audit" not in left.stdout


IN_A_WARDEN = """
import json, socket, sys
sys.path.insert(0, sys.argv[1])
from blueflame.watcher.server import HookServer
from blueflame.warden.poll_loop import PollLoop
poll_loop, listener = PollLoop(), socket.create_server(("127.0.0.1", 0))
server = HookServer(json.loads(sys.argv[2]), listener, "ses-1.task-001.worker.1", poll_loop)
print(listener.getsockname()[1], flush=True)
while not poll_loop.stops:
    poll_loop.wait(1)
heavy = {"pydantic", "pathspec", "psutil", "ruamel", "asyncio", "subprocess", "click"} & set(sys.modules)
print(json.dumps({**server.close(), "heavy": sorted(heavy)}), flush=True)
"""


def test_it_works_in_a_warden_with_nothing_but_the_standard_library(repo: Path) -> None:
    given = json.dumps(build_watch(repo))
    argv = [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", IN_A_WARDEN, str(ROOT), given]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as warden:
        assert warden.stdout is not None
        env = {"BLUEFLAME_HOOK_PORT": warden.stdout.readline().strip()}
        calls: tuple[tuple[str, dict[str, str]], ...] = (
            ("BlueflameCanary", {}),
            ("Write", {"file_path": str(repo / "src" / "a.py"), "content": "x"}),
            ("Bash", {"command": "git add -A && git commit -m 'feat(task-001): x'"}),
            ("Bash", {"command": "curl example.org"}),
        )
        codes = [
            subprocess.run(
                [find_hook()],
                input=build_question(tool, used, cwd=str(repo)),
                env=env,
                capture_output=True,
                check=False,
            ).returncode
            for tool, used in calls
        ]
        warden.terminate()
        result = json.loads(warden.stdout.read())

    assert codes == [2, 0, 0, 2]
    assert (result["problem"], result["lines"], result["heavy"]) == ("", 4, [])
