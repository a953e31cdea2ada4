"""Who may answer, who is asked when, and what happens at the deadline."""

from __future__ import annotations

import pytest

from blueflame.dispatch.admission import build_approval_gate
from blueflame.dispatch.people import (
    DEADLINE,
    HARMLESS,
    Ask,
    AskRules,
    can_answer,
    find_answer_problem,
    find_deadline,
    find_default,
    find_sender,
    is_announced,
    list_asks,
)
from blueflame.model.gate import FORMS, Gate, GateKind
from blueflame.model.house.arrival import IncomingRequest, Sender, Trust
from blueflame.model.settings.chat import AskSettings, PersonSettings, QuietHours

PEOPLE = {
    "anna": PersonSettings(trust="owner", telegram=11),
    "ben": PersonSettings(trust="owner", telegram=22, order=2, terminal="bk"),
    "carl": PersonSettings(telegram=33),
    "dora": PersonSettings(telegram=44, answers=(GateKind.CHANGESET,)),
}
NOON = 1_794_916_800.0  # 2026-11-17 12:00 UTC
HOUR = 3600.0


def build_gate(kind: GateKind) -> Gate:
    form = FORMS[kind]
    return Gate(id="g", kind=kind, subject="s", title="t", options=form.options, default=form.safe)


def build_rules(**asks: dict[str, str]) -> AskRules:
    return AskRules(
        people=PEOPLE, asks={GateKind(kind): AskSettings.model_validate(given) for kind, given in asks.items()}
    )


def test_an_owner_answers_everything_and_a_member_what_is_listed() -> None:
    assert all(can_answer(PEOPLE["anna"], kind) for kind in GateKind)
    assert not any(can_answer(PEOPLE["carl"], kind) for kind in GateKind)
    assert [kind for kind in GateKind if can_answer(PEOPLE["dora"], kind)] == [GateKind.CHANGESET]


@pytest.mark.parametrize(
    ("name", "trust", "kind", "said"),
    [
        ("anna", Trust.OWNER, GateKind.PLAN, ""),
        ("dora", Trust.MEMBER, GateKind.CHANGESET, ""),
        ("dora", Trust.MEMBER, GateKind.PLAN, "dora may not answer plan gates; anna, ben may"),
        ("carl", Trust.MEMBER, GateKind.PLAN, "carl may not answer plan gates; anna, ben may"),
        ("claude", Trust.OWNER, GateKind.PLAN, "claude is not one of the people in house.yaml: only they answer gates"),
        ("anna", Trust.FEED, GateKind.PLAN, "anna is not one of the people in house.yaml: only they answer gates"),
    ],
)
def test_an_answer_of_another_is_refused_with_who_may(name: str, trust: Trust, kind: GateKind, said: str) -> None:
    assert find_answer_problem(PEOPLE, Sender(name=name, trust=trust, address="x:1"), kind) == said


def test_the_deadline_may_answer_and_no_sender_can_pretend_to_be_it() -> None:
    assert find_answer_problem(PEOPLE, DEADLINE, GateKind.CHANGESET) == ""
    assert find_sender({**PEOPLE, "deadline": PersonSettings(trust="owner")}, DEADLINE.address) is None


def test_a_sender_is_found_by_number_or_user_name() -> None:
    assert find_sender(PEOPLE, "telegram:11") == Sender(name="anna", trust=Trust.OWNER, address="telegram:11")
    assert find_sender(PEOPLE, "terminal:bk") == Sender(name="ben", trust=Trust.OWNER, address="terminal:bk")
    assert find_sender(PEOPLE, "terminal:carl") == Sender(name="carl", trust=Trust.MEMBER, address="terminal:carl")


@pytest.mark.parametrize("address", ["telegram:99", "telegram:", "telegram:None", "terminal:ben", "mcp:anna", "anna"])
def test_strangers_are_not_found(address: str) -> None:
    assert find_sender({**PEOPLE, "eve": PersonSettings(trust="owner")}, address) is None


def test_the_first_is_asked_then_reminded_then_the_next_is_asked() -> None:
    rules = build_rules(plan={"remind": "10m", "next": "20m"})

    assert list(list_asks(rules, GateKind.PLAN, NOON)) == [
        Ask(NOON, "anna", False),
        Ask(NOON + 600, "anna", True),
        Ask(NOON + 1800, "ben", False),
        Ask(NOON + 2400, "ben", True),
    ]


def test_people_of_the_same_order_are_asked_together() -> None:
    asks = list(list_asks(build_rules(changeset={"remind": "0s"}), GateKind.CHANGESET, NOON))

    assert asks == [Ask(NOON, "anna", False), Ask(NOON, "dora", False)]


def test_without_a_next_only_the_first_are_reminded() -> None:
    asks = list(list_asks(build_rules(plan={"next": "0s"}), GateKind.PLAN, NOON))

    assert [ask.person for ask in asks] == ["anna", "anna"]


def test_quiet_hours_move_asks_and_reminders_but_not_those_about_money() -> None:
    night = QuietHours(begin="11:00", end="13:00")
    rules = AskRules(people=PEOPLE, asks={}, quiet_hours=(night,))

    assert [ask.at - NOON for ask in list_asks(rules, GateKind.PLAN, NOON)][:2] == [HOUR, 1.5 * HOUR]
    assert [ask.at - NOON for ask in list_asks(rules, GateKind.BUDGET, NOON)][:2] == [0, 0.5 * HOUR]


@pytest.mark.parametrize("kind", GateKind)
def test_a_default_of_ours_lands_spends_and_loses_nothing(kind: GateKind) -> None:
    taken = find_default(build_rules(), build_gate(kind))

    assert taken in {None, *HARMLESS.get(kind, ())}
    assert taken not in {"approve", "raise", "continue", "retry", "requeue", "abort", "drop", "kill", "use", "clean"}
    assert set(HARMLESS.get(kind, ())) <= {option.name for option in FORMS[kind].options}


def test_a_plan_a_failed_task_and_an_open_cycle_wait_for_a_person() -> None:
    waiting = [GateKind.PLAN, GateKind.SESSION, GateKind.VALIDATION, GateKind.VALIDATOR, GateKind.ESCALATION]

    assert [find_deadline(build_rules(), build_gate(kind), NOON) for kind in waiting] == [None] * 5


def test_a_default_that_a_person_chose_is_taken() -> None:
    rules = build_rules(plan={"default": "approve", "deadline": "2h"})

    assert find_default(rules, build_gate(GateKind.PLAN)) == "approve"
    assert find_deadline(rules, build_gate(GateKind.PLAN), NOON) == NOON + 2 * HOUR


def test_a_chosen_default_that_the_gate_does_not_offer_is_not_taken() -> None:
    rules = build_rules(plan={"default": "approve"})
    faulty = Gate(
        id="g", kind=GateKind.PLAN, subject="s", title="t", options=FORMS[GateKind.PLAN].options[1:], default="quit"
    )

    assert find_default(rules, faulty) is None
    assert find_deadline(rules, faulty, NOON) is None


def test_a_deadline_can_be_switched_off() -> None:
    assert find_deadline(build_rules(changeset={"deadline": "0s"}), build_gate(GateKind.CHANGESET), NOON) is None
    assert find_deadline(build_rules(), build_gate(GateKind.CHANGESET), NOON) == NOON + 24 * HOUR


@pytest.mark.parametrize(
    ("source", "matched", "announced"),
    [("feeds", (), False), ("feeds", ("AI",), True), ("issues", (), True), ("plans", (), True)],
)
def test_people_get_a_message_about_an_item_of_a_feed_only_if_it_has_a_keyword(
    source: str, matched: tuple[str, ...], *, announced: bool
) -> None:
    sender = Sender(name="tech-news", trust=Trust.FEED, address="feed:tech-news")
    request = IncomingRequest(source=source, key="k", sender=sender, at=NOON, text="t", matched=matched)
    assert is_announced(build_approval_gate("req-1", request, "shop")) is announced


def test_accounts_on_forges_are_the_people_who_name_them() -> None:
    people = {"anna": PersonSettings.model_validate({"trust": "owner", "github": "Anna-K", "gitlab": "anna.k"})}
    for address in ("github:anna-k", "gitlab:anna.k"):
        found = find_sender(people, address)
        assert found is not None
        assert (found.name, found.trust) == ("anna", Trust.OWNER)
    assert find_sender(people, "github:anna.k") is None
