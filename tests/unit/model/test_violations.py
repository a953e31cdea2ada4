from __future__ import annotations

from blueflame.journal.codec import decode_event, encode_event
from blueflame.model.event import AttemptEnded
from blueflame.model.verdict import Violation


def test_a_violation_names_its_line_when_it_has_one() -> None:
    assert str(Violation(rule="sensitive_content", path="мой файл", line=7)) == "sensitive_content: мой файл:7"
    assert str(Violation(rule="case_collision", path="a", detail="why")) == "case_collision: a (why)"


def test_a_violation_of_an_old_journal_still_loads() -> None:
    body = (
        '{"attempt": "a", "ended": {"ending": "postcheck", '
        '"violations": [{"rule": "blocked_path_modified", "path": ".env", "detail": "added"}]}}'
    )
    event = decode_event("AttemptEnded", body)
    assert isinstance(event, AttemptEnded)
    assert event.ended.violations == (Violation(rule="blocked_path_modified", path=".env", detail="added"),)
    assert decode_event(*encode_event(event)) == event
