"""What an agent shows that it did, against what the watcher wrote down."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from blueflame.checks.audit_gaps import find_defied_refusals, find_unaudited_calls
from blueflame.model.audit import ALLOW, BLOCK, AuditLine, ObservedCall


def line(act: ObservedCall, decision: str = ALLOW) -> AuditLine:
    return AuditLine(
        timestamp="2026-11-16T01:02:03.456Z",
        agent_id="worker-0a1b2c3d",
        attempt="ses-1.task-001.worker.1",
        tool=act.tool,
        target=act.target,
        decision=decision,
        rule="allowed" if decision == ALLOW else "blocked_path",
        details="",
        call=act.call,
        digest=act.digest,
        prev="",
    )


WRITE = ObservedCall("Write", "src/a.py", "call-1", "sha256:1")
RUN = ObservedCall("Bash", "make", "call-2", "sha256:2")


def test_a_stream_and_a_log_that_match_leave_no_gap() -> None:
    assert find_unaudited_calls([], []) == ()
    assert find_unaudited_calls([WRITE, RUN], [line(WRITE), line(RUN)]) == ()
    assert find_unaudited_calls([RUN, WRITE], [line(WRITE), line(RUN)]) == ()


def test_a_refused_call_has_its_line_too() -> None:
    assert find_unaudited_calls([replace(WRITE, denied=True)], [line(WRITE, BLOCK)]) == ()
    assert find_unaudited_calls([replace(WRITE, denied=True)], []) != ()


def test_lines_without_a_call_are_no_gap() -> None:
    """The agent had asked and was ended before it could show what it did."""
    assert find_unaudited_calls([], [line(WRITE)]) == ()
    assert find_unaudited_calls([WRITE], [line(WRITE), line(WRITE), line(RUN)]) == ()


def test_a_call_without_a_line_is_a_gap() -> None:
    assert find_unaudited_calls([WRITE, RUN], [line(WRITE)]) == ("Bash 'make' was never asked for",)


def test_a_call_that_is_not_what_was_asked_for_is_a_gap() -> None:
    asked = ObservedCall("Bash", "git status", "call-2", "sha256:9")

    assert find_unaudited_calls([RUN], [line(asked)]) == ("Bash 'make' is not what was asked for: Bash 'git status'",)


def test_a_name_that_is_used_twice_is_a_gap_even_when_it_was_asked_for_twice() -> None:
    other = replace(RUN, call=WRITE.call)

    assert "'call-1' is 2 times" in find_unaudited_calls([WRITE, other], [line(WRITE), line(other)])[0]
    assert "'call-1' is 2 times" in find_unaudited_calls([WRITE, WRITE], [line(WRITE), line(WRITE)])[0]
    assert (
        find_unaudited_calls([WRITE, WRITE], [line(WRITE)])[1]
        == "Write 'src/a.py' was asked for less often than it was done"
    )


def test_a_call_without_a_name_is_a_gap() -> None:
    for nameless in (replace(WRITE, call=""), replace(WRITE, call="", digest=""), ObservedCall("", "")):
        (gap,) = find_unaudited_calls([nameless], [line(nameless)])
        assert "no name" in gap


def test_a_call_without_a_digest_is_found_by_its_name_alone() -> None:
    shown, asked = replace(WRITE, digest=""), replace(WRITE, target="/whole/src/a.py")

    assert find_unaudited_calls([shown, RUN], [line(asked), line(RUN)]) == ()
    assert find_unaudited_calls([shown], [line(RUN)]) == ("Write 'src/a.py' was never asked for",)
    assert find_unaudited_calls([shown], []) == ("Write 'src/a.py' was never asked for",)


def test_a_line_covers_only_one_call_without_a_digest() -> None:
    shown = replace(WRITE, digest="")

    gaps = find_unaudited_calls([shown, shown], [line(WRITE)])

    assert gaps == (
        "the call 'call-1' is 2 times in its output",
        "Write 'src/a.py' was asked for less often than it was done",
    )


def test_a_refused_call_that_is_shown_as_done_without_a_digest_is_defied() -> None:
    shown = replace(WRITE, digest="")

    assert find_defied_refusals([shown], [line(WRITE, BLOCK)]) == (line(WRITE, BLOCK),)
    assert find_defied_refusals([replace(shown, denied=True)], [line(WRITE, BLOCK)]) == ()
    assert find_defied_refusals([shown], [line(WRITE, BLOCK), line(WRITE)]) == ()
    assert find_defied_refusals([shown], [line(RUN, BLOCK)]) == ()


def test_what_was_not_read_is_a_gap() -> None:
    assert "too large" in find_unaudited_calls([WRITE], [line(WRITE)], unread=True)[0]


def test_the_report_is_bounded_and_harmless_on_a_terminal() -> None:
    many = [ObservedCall("\x1b[2J" * 100, "\x1b]0;x\x07" * 1000, f"c{n}", "sha256:0") for n in range(1000)]

    gaps = find_unaudited_calls(many, [])

    assert len(gaps) == 21
    assert gaps[-1] == "and 980 more"
    assert all(gap.isprintable() and len(gap) < 300 for gap in gaps)


def test_a_refused_call_that_was_done_is_defied_and_no_gap() -> None:
    audit = [line(WRITE, BLOCK), line(RUN)]

    assert find_unaudited_calls([WRITE, RUN], audit) == ()
    assert find_defied_refusals([WRITE, RUN], audit) == (audit[0],)
    assert find_defied_refusals([replace(WRITE, denied=True), RUN], audit) == ()
    assert find_defied_refusals([], audit) == ()


def test_a_call_that_was_refused_and_then_allowed_is_not_defied() -> None:
    assert find_defied_refusals([WRITE], [line(WRITE, BLOCK), line(WRITE)]) == ()


ACTS = st.lists(
    st.builds(
        ObservedCall, st.sampled_from(["Write", "Bash"]), st.just("t"), st.uuids().map(str), st.sampled_from(["a", "b"])
    ),
    unique_by=lambda act: act.call,
)


@given(ACTS, st.randoms(use_true_random=False))
def test_the_order_of_the_log_does_not_matter(acts: list[ObservedCall], chance: object) -> None:
    audit = [line(act) for act in acts]
    chance.shuffle(audit)  # type: ignore[attr-defined] # hypothesis calls it a Random

    assert find_unaudited_calls(acts, audit) == ()


@given(ACTS.filter(bool), st.data())
def test_each_line_that_is_missing_is_one_gap(acts: list[ObservedCall], data: st.DataObject) -> None:
    missing = data.draw(st.sets(st.sampled_from(range(len(acts))), min_size=1, max_size=20))
    audit = [line(act) for n, act in enumerate(acts) if n not in missing]

    assert len(find_unaudited_calls(acts, audit)) == len(missing)
