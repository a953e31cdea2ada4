from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.session.scheduling.graph import find_components, sort_topologically

GRAPHS = st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from("abcdefghz"), max_size=4))


def reachable(start: str, needs: dict[str, set[str]]) -> set[str]:
    seen, line = {start}, [start]
    while line:
        fresh = (needs[line.pop()] & needs.keys()) - seen
        seen |= fresh
        line += sorted(fresh)
    return seen


@given(GRAPHS)
def test_two_are_in_one_ring_exactly_when_each_reaches_the_other(needs: dict[str, set[str]]) -> None:
    ring_of = {name: ring for ring in find_components(needs) for name in ring}
    assert ring_of.keys() == needs.keys()
    reach = {name: reachable(name, needs) for name in needs}
    for one in needs:
        for other in needs:
            assert (ring_of[one] == ring_of[other]) == (other in reach[one] and one in reach[other])


@given(GRAPHS)
def test_an_order_has_every_node_and_puts_needs_first_where_it_can(needs: dict[str, set[str]]) -> None:
    order = sort_topologically(needs, lambda name: name)
    assert sorted(order) == sorted(needs)
    if all(len(ring) == 1 for ring in find_components(needs)):
        for name, wanted in needs.items():
            for need in wanted & needs.keys() - {name}:
                assert order.index(need) < order.index(name)


def test_of_the_ready_nodes_the_smallest_key_comes_first() -> None:
    assert sort_topologically({"a": ["z"], "b": [], "z": []}, lambda name: name) == ("b", "z", "a")


def test_a_chain_of_ten_thousand_is_no_recursion() -> None:
    chain = {f"{n:05}": [f"{n + 1:05}"] for n in range(10_000)}
    assert len(find_components(chain)) == 10_000
    assert sort_topologically(chain, lambda name: name)[0] == "09999"
