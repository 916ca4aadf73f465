"""Thresholds on span scores, found on validation and carried to test."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deidsearch.evaluate.metrics import GoldMentions, score
from deidsearch.evaluate.operating import at_threshold, curve, operating_points
from deidsearch.records import SpanTable

TYPES = ("NAME",)


def case(right: list[bool], scores: list[float], missed: int = 0) -> tuple[GoldMentions, SpanTable]:
    size = len(right)
    pred = SpanTable.build(range(size), [0] * size, [1] * size, [0] * size, scores)
    sentences = [n for n in range(size) if right[n]] + list(range(size, size + missed))
    zero = [0] * len(sentences)
    gold = SpanTable.build(sentences, zero, [1] * len(sentences), zero)
    return GoldMentions.from_spans(gold, size + missed), pred


def test_precision_target_takes_the_most_recall_that_keeps_it() -> None:
    gold, pred = case([True, True, False, True], [0.9, 0.8, 0.7, 0.6], missed=1)
    points = operating_points(gold, pred, precisions=[0.75, 1.0], recalls=[0.75, 0.9])
    assert [(p["precision"], p["recall"]) for p in points] == [
        (0.75, 0.75),
        (1.0, 0.5),
        (0.75, 0.75),
        (None, None),
    ]
    assert points[3]["threshold"] is None


def test_spans_of_equal_score_stand_or_fall_together() -> None:
    gold, pred = case([True, False], [0.5, 0.5])
    threshold, precision, recall = curve(gold, pred)
    assert (threshold.tolist(), precision.tolist(), recall.tolist()) == ([0.5], [0.5], [1.0])


def test_threshold_of_validation_is_used_as_it_is_on_test() -> None:
    gold, pred = case([True, False], [0.9, 0.1])
    points = operating_points(gold, pred, precisions=[1.0], recalls=[])
    test_gold, test_pred = case([True, False, True], [0.95, 0.92, 0.2])
    (point,) = at_threshold(test_gold, test_pred, TYPES, points)
    assert (point["precision"], point["recall"]) == (0.5, 0.5)


def test_no_score_or_no_span_reaches_no_target() -> None:
    gold, _ = case([True], [0.5])
    assert all(p["threshold"] is None for p in operating_points(gold, SpanTable.empty()))


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.1, 0.2, 0.5, 0.9])), min_size=1))
def test_curve_equals_scoring_at_each_threshold(rows) -> None:
    gold, pred = case([right for right, _ in rows], [value for _, value in rows], missed=1)
    for threshold, precision, recall in zip(*curve(gold, pred), strict=True):
        kept = score(gold, pred.take(pred.score >= threshold), TYPES).overall
        assert (kept.precision, kept.recall) == (precision, recall)
        assert np.isfinite(threshold)
