"""Small graphs get a place for every box, edges from above to below, and words for who cannot see them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bnfold.report.html.layout import Box, lay_out, shorten


def drawing(edges: list[tuple[int, int]], count: int) -> dict[str, Any]:
    nodes = [{"op": "Conv", "name": f"node{index}", "role": "context", "weights": ["3x3"]} for index in range(count)]
    return {
        "nodes": nodes,
        "edges": [{"from": start, "to": end, "value": f"v{start}"} for start, end in edges],
        "left_out": 0,
    }


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 12))
    pairs = st.tuples(st.integers(-1, count - 1), st.integers(0, count)).map(
        lambda p: (p[0], -1 if p[1] == count else p[1])
    )
    edges = draw(st.lists(pairs.filter(lambda pair: pair[1] == -1 or pair[0] < pair[1]), max_size=24, unique=True))
    return drawing([edge for edge in edges if edge != (-1, -1)], count)


@given(graphs())
def test_boxes_lie_inside_apart_and_below_what_feeds_them(picture: dict[str, Any]) -> None:
    laid = lay_out(picture)
    assert len([box for box in laid.boxes if box.role == "context"]) == len(picture["nodes"])
    assert len(laid.wires) == len(picture["edges"])
    for place, box in enumerate(laid.boxes):
        assert box.left >= 0
        assert box.y >= 0
        assert box.left + box.width <= laid.width
        assert box.y + box.height <= laid.height
        assert not any(overlap(box, other) for other in laid.boxes[:place])
        assert all(other.layer > box.layer for other in box.below)


def overlap(one: Box, other: Box) -> bool:
    across = one.left < other.left + other.width and other.left < one.left + one.width
    return across and one.y < other.y + other.height and other.y < one.y + one.height


def test_a_cycle_in_a_broken_model_ends() -> None:
    assert len(lay_out(drawing([(0, 1), (1, 0)], 2)).boxes) == 2


def test_an_empty_region_is_an_empty_drawing() -> None:
    assert lay_out(drawing([], 0)).boxes == ()


def test_the_words_name_every_node_and_where_it_leads() -> None:
    words = lay_out(drawing([(-1, 0), (0, 1), (1, -1)], 2)).description
    assert words == "Conv node0 goes to Conv node1. Conv node1 goes to graph output v1."


def test_long_names_keep_both_ends() -> None:
    assert shorten("short") == "short"
    cut = shorten("a" * 30 + "b" * 30, 21)
    assert (len(cut), cut[:10], cut[-10:]) == (21, "a" * 10, "b" * 10)
