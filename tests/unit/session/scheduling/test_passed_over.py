from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blueflame.session.scheduling.passed_over import Patience


@given(st.integers(1, 20), st.integers(1, 4), st.data())
def test_counts_are_what_counting_one_by_one_gives(places: int, limit: int, data: st.DataObject) -> None:
    patience = Patience(places, limit)
    counts: dict[int, int] = {}
    step = st.tuples(st.sampled_from(["begin", "end", "claim", "claim"]), st.integers(0, places - 1))
    for what, place in data.draw(st.lists(step, max_size=60)):
        if what == "begin":
            patience.begin(place)
            counts[place] = 0
        elif what == "end":
            patience.end(place)
            counts.pop(place, None)
        else:
            counts = {one: count + (one < place) for one, count in counts.items()}
            over = [one for one in sorted(counts) if counts[one] >= limit]
            assert list(patience.passed_over_by(place)) == over
            counts = {one: count for one, count in counts.items() if one not in over}
