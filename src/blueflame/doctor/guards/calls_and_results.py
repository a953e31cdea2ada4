"""Whether tool calls and results are judged: the watcher, and the checks of results."""

from __future__ import annotations

from secrets import choice
from string import ascii_letters, digits

from blueflame.checks.postcheck import OUTSIDE_SCOPE, check_result
from blueflame.checks.secrets.scan import AddedLine, SecretAllowList, judge_findings, scan_lines
from blueflame.doctor.guards.findings import GuardFinding, GuardState, judge_breaches
from blueflame.doctor.probe_runs import GuardEvidence
from blueflame.model.changes import Change
from blueflame.model.errors import Refused
from blueflame.model.policy import CANARY
from blueflame.watcher.policy_file import find_shfmt

REFUSED_EXIT_CODE = 2  # of the hook: the agent does not make its call


def judge_watcher(evidence: GuardEvidence) -> GuardFinding:
    breaches = _find_wrong_decisions(evidence, {CANARY: "block", "forbidden": "block", "honest": "allow"})
    return judge_breaches(
        breaches + ([] if evidence.watch.get("proven") else ["the canary was not refused"]),
        "through the agent's own hook: canary and forbidden call refused, honest call allowed",
    )


def judge_shell(evidence: GuardEvidence) -> GuardFinding:
    try:
        find_shfmt()
    except Refused as e:
        return GuardState.IMPOSSIBLE, str(e)
    breaches = _find_wrong_decisions(evidence, {"hidden": "block", "plain": "allow"})
    return judge_breaches(breaches, "a command hidden in another was refused, the same without it allowed")


def _find_wrong_decisions(evidence: GuardEvidence, expected: dict[str, str]) -> list[str]:
    logged = {line.tool if line.tool == CANARY else line.call: line.decision for line in evidence.audit.lines}
    found = {name: logged.get(name, "nothing") for name in expected}
    return [f"its log says {word} of the {name} call" for name, word in found.items() if word != expected[name]]


def judge_dead_watcher(evidence: GuardEvidence) -> GuardFinding:
    code = evidence.dead_watcher
    breaches = [] if code == REFUSED_EXIT_CODE else [f"the hook ended with {code}, not {REFUSED_EXIT_CODE}"]
    return judge_breaches(breaches, "the hook without a watcher: refused")


def judge_secrets(evidence: GuardEvidence) -> GuardFinding:
    if not evidence.validation.secrets.enabled:
        return GuardState.OFF, "validation.secrets.enabled is false"
    token = "ghp_" + "".join(choice(ascii_letters + digits) for _ in range(36))
    lines = [AddedLine("src/app.py", 1, f'token = "{token}"'), AddedLine("src/app.py", 2, "x = 1")]
    found = judge_findings(scan_lines(lines), SecretAllowList())
    breaches = [] if [each.line for each in found] == [1] else ["a made-up token was not found"]
    return judge_breaches(breaches, "a token made up just now, in an added line: found")


def judge_scope(evidence: GuardEvidence) -> GuardFinding:
    if not evidence.validation.file_scope.enforce:
        return GuardState.OFF, "validation.file_scope.enforce is false"
    changes = [Change(status="M", path="src/mine.py"), Change(status="M", path="src/others.py")]
    found = check_result(changes, [], allowed_paths=["src/**"], file_locks=["src/mine.py"])
    is_found = [(one.rule, one.path) for one in found] == [(OUTSIDE_SCOPE, "src/others.py")]
    seen = "a change beside the task's own file: found, and its own let through"
    return judge_breaches([] if is_found else ["it was missed"], seen)
