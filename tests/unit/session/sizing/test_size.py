"""Requests are sized by code: the clear ones of a table of sixty, without a model."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.model.sizing import CodeMap, Sizing, Tier
from blueflame.session.sizing.size import list_symbols, size_request
from support.sized_requests import GO, MONOREPO, PYTHON, REQUESTS, TINY, Shape


def size(shape: Shape, request: str) -> Sizing:
    symbols = {name: shape.symbols[name] for name in list_symbols(request) if name in shape.symbols}
    return size_request(request, shape.code, symbols)


@pytest.mark.parametrize(("shape", "request_", "tier"), REQUESTS, ids=[text[:50] for _, text, _ in REQUESTS])
def test_clear_requests_are_decided_and_unclear_ones_are_not(shape: Shape, request_: str, tier: Tier | None) -> None:
    found = size(shape, request_)
    assert (found.tier if found.is_clear else None) == tier, found
    assert found.reasons
    assert found.is_clear or found.tier is Tier.PLANNED  # the workflow that a person approves first


def test_the_table_has_sixty_requests_of_every_size() -> None:
    sizes = Counter(tier for _, _, tier in REQUESTS)
    assert len(REQUESTS) == 60
    assert len({text for _, text, _ in REQUESTS}) == 60
    assert min(sizes.values()) >= 8, sizes
    assert set(sizes) == {None, *Tier}


def test_the_same_words_are_larger_where_the_code_base_is() -> None:
    request = "Use UTC in all functions"
    assert size(TINY, request).tier is Tier.SINGLE
    assert size(PYTHON, request).tier is Tier.PLANNED


def test_a_symbol_that_only_one_file_has_is_as_good_as_the_file() -> None:
    request = "Change MAX_RETRIES from 3 to 5"
    assert size_request(request, PYTHON.code, {"MAX_RETRIES": ("src/shop/orders/api.py",)}).tier is Tier.DIRECT
    assert size_request(request, PYTHON.code, {}).tier is Tier.SINGLE


def test_a_symbol_that_many_files_use_leads_to_the_one_that_defines_it() -> None:
    used = {"total_of": PYTHON.code.files[:12]}
    request = "Make `total_of` reject None, and log what was given"
    assert not size_request(request, PYTHON.code, used).reasons[0].endswith("src/shop/orders/totals.py")
    known = replace(PYTHON.code, defined={"total_of": ("src/shop/orders/totals.py",)})
    found = size_request(request, known, used)
    assert (found.tier, found.reasons) == (
        Tier.SINGLE,
        ("all in one part of the code base: src/shop/orders/totals.py",),
    )
    renaming = size_request("Rename `total_of` to `sum_of`", known, used)
    assert renaming.reasons == ("a new name for total_of, in 12 files: mechanical",)


def test_a_symbol_that_many_files_define_leads_to_no_file() -> None:
    everywhere = {"close": PYTHON.code.files[:12]}
    known = replace(PYTHON.code, defined=everywhere)
    request = "Make `close` idempotent and log it"
    assert size_request(request, known, everywhere) == size_request(request, PYTHON.code, everywhere)


def test_steps_to_reproduce_and_tracebacks_are_no_demands() -> None:
    report = (
        "The total is wrong.\n\nSteps to reproduce:\n1. make an order\n2. add an item\n3. remove it\n4. print it\n\n"
        "```\n- add\n- remove\n- change\n- move\n```\n"
        'Traceback (most recent call last):\n  File "src/shop/cli/main.py", line 1, in f\n'
    )
    found = size(PYTHON, report)
    assert (found.tier, found.reasons) == (Tier.SINGLE, ("one fix: it cannot be split",))


def test_tests_and_documentation_that_go_with_a_change_do_not_count() -> None:
    request = "In src/shop/orders/totals.py, reject None. Add tests, update the docs and write a changelog."
    assert size(PYTHON, request).tier is Tier.SINGLE


def test_a_named_file_decides_in_any_language() -> None:
    assert size(MONOREPO, "把 README.md 里的错别字改掉").tier is Tier.SINGLE
    assert size(GO, "Corrige la faute dans internal/auth/token.go").tier is Tier.SINGLE


def test_the_reasons_name_what_was_found() -> None:
    assert size(PYTHON, "Fix the typo in the README").reasons == ("a typo in README.md",)
    assert "“faster” does not say what is to change" in size(PYTHON, "Make it faster").reasons
    several = size(PYTHON, "Let orders, billing and stock write an audit trail")
    assert several.reasons == (
        "it concerns 3 parts of the code base: src/shop/billing, src/shop/orders, src/shop/stock",
    )


@pytest.mark.parametrize("text", ["_" * 200_000, "a/" * 100_000, "aB" * 100_000, "`a" * 100_000, "- add x\n" * 25_000])
def test_a_huge_request_is_read_at_once(text: str) -> None:
    """Without the limits, most of these take seconds or more."""
    assert size(PYTHON, text).tier is Tier.PLANNED


@settings(max_examples=200)
@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=5))
def test_any_text_and_any_names_have_a_size(request_: str, files: list[str]) -> None:
    code = CodeMap(files=tuple(files), sources=len(files))
    symbols = {name: tuple(files) for name in list_symbols(request_)}
    found = size_request(request_, code, symbols)
    assert found == size_request(request_, code, symbols)
    assert 0 <= found.confidence <= 1
    assert found.parts >= 1
