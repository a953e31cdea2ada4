from __future__ import annotations

from dataclasses import replace

from blueflame.memory.codec import decode_record, encode_record
from blueflame.model.memory import DOMAIN_TOKENS, get_knowledge_file
from support.memory_records import lesson


def test_a_lesson_of_an_unknown_kind_is_an_insight() -> None:
    assert get_knowledge_file(replace(lesson(1), about="of a later version")).name == "codebase-insights"


def test_a_lesson_about_a_domain_is_in_the_file_of_that_domain() -> None:
    file = get_knowledge_file(replace(lesson(1), domain="billing"))
    assert (file.name, file.tokens) == ("domain/billing", DOMAIN_TOKENS)


def test_a_lesson_saved_before_it_had_a_domain_can_be_read() -> None:
    before = (
        '{"schema_version":1,"type":"lesson","key":"wish:a:plan-1","text":"use UTC","about":"wish",'
        '"origin":{"session":"a","source":"person"}}'
    )
    read = decode_record(before, "it")
    assert decode_record(encode_record(read), "it") == read
    assert get_knowledge_file(read).name == "user-preferences"  # type: ignore[arg-type]
