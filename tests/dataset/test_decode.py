"""Decoding without overlap, against a plain reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deidsearch.dataset.decode import decode
from deidsearch.records import SpanTable

CANDIDATES = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 9), st.integers(1, 5), st.integers(0, 2),
        st.sampled_from([0.3, 0.5, 0.5, 0.7, 0.9]),
    ),
    max_size=25,
    unique_by=lambda row: row[:3],
)  # fmt: skip


def make_spans(rows) -> SpanTable:
    """Returns the table of (sentence, start, width, label, score)."""
    columns = list(zip(*rows, strict=True)) or [[], [], [], [], []]
    sentence, start, width, label, score = (np.array(column) for column in columns)
    return SpanTable.build(sentence, start, start + width, label, score)


def plain_greedy(rows) -> set[tuple[int, int, int, int]]:
    """Returns the predictions, one candidate at a time, by falling score."""
    taken: list[tuple[int, int, int, int]] = []
    for sentence, start, width, label, _ in sorted(
        rows, key=lambda row: (-row[4], row[0], row[1], -row[2])
    ):
        end = start + width
        if all(s != sentence or end <= b or e <= start for s, b, e, _ in taken):
            taken.append((sentence, start, end, label))
    return set(taken)


@given(CANDIDATES)
def test_greedy_equals_the_plain_reference(rows) -> None:
    assert set(decode(make_spans(rows)).keys().tolist()) == plain_greedy(rows)


@given(CANDIDATES, st.sampled_from([0.4, 0.5, 0.8]))
def test_cutting_candidates_or_predictions_at_a_score_is_the_same(rows, score: float) -> None:
    spans = make_spans(rows)
    score = np.float32(score)
    before = decode(spans.take(spans.score >= score))
    after = decode(spans)
    after = after.take(after.score >= score)
    assert before.keys().tolist() == after.keys().tolist()


def test_nested_span_of_higher_score_wins_and_equal_scores_take_the_longer() -> None:
    spans = make_spans([(0, 1, 3, 0, 0.6), (0, 2, 1, 1, 0.9), (1, 0, 1, 0, 0.5), (1, 0, 2, 1, 0.5)])
    assert decode(spans).keys().tolist() == [(0, 2, 3, 1), (1, 0, 2, 1)]


def test_independent_keeps_overlapping_predictions() -> None:
    spans = make_spans([(0, 1, 3, 0, 0.6), (0, 2, 1, 1, 0.9)])
    assert decode(spans, "independent").keys().tolist() == spans.keys().tolist()


def test_unknown_decoding_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown decoding 'best', choose from greedy"):
        decode(make_spans([]), "best")
