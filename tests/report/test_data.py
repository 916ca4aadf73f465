"""Points of the figures: slices, order, labels, places on the axis."""

from __future__ import annotations

from typing import Any

import pytest

from deidsearch.evaluate.choice import choose
from deidsearch.report.data import (
    by_ceiling,
    by_sentences,
    ceiling_label,
    is_log,
    positions,
    thinned,
    varied,
)
from deidsearch.report.figures import _apart, _short


def cell(ceiling: Any, size: int | None, f1: float, seed: int = 1, **more: Any) -> dict[str, Any]:
    settings = {
        "annotation.ceiling": ceiling,
        "training.sentences": size,
        "training.seed": seed,
        "model.head": "pure",
    }
    block = {"f1": f1, "recall": f1, "interval": {"f1": [f1 - 0.1, f1 + 0.1]}}
    return {
        "cell": f"{ceiling}-{size}-{seed}",
        "state": "done",
        "settings": settings,
        "available_sentences": size or 147_000,
        "training_sentences": 1000,
        "validation": block,
        "dictionary": {"validation": {"f1": 0.5, "interval": {"f1": None}}},
        **more,
    }


def test_slice_with_most_ceilings_is_drawn_though_the_best_lies_elsewhere() -> None:
    results = [cell(c, None, 0.8) for c in (1, 2, 4)] + [cell(2, 8000, 0.9)]
    curve = by_ceiling(results, choose(results))
    assert curve is not None
    assert [p.value for p in curve.points] == [1, 2, 4]
    assert not curve.holds_best and not any(p.is_best for p in curve.points)


def test_of_equal_slices_the_best_ones_is_drawn() -> None:
    results = [cell(c, n, 0.5 + 0.1 * (n == 8000)) for n in (None, 8000) for c in (1, 2)]
    curve = by_ceiling(results, choose(results))
    assert curve is not None and curve.fixed["training.sentences"] == 8000 and curve.holds_best


def test_points_hold_mean_seeds_and_interval() -> None:
    results = [cell(4, None, 0.6, 1), cell(4, None, 0.8, 2), cell(8, None, 0.1, state="failed")]
    curve = by_ceiling(results, choose(results))
    assert curve is not None
    first, second = curve.points
    assert first.model is not None
    assert first.model.mean == pytest.approx(0.7) and first.model.seeds == (0.6, 0.8)
    assert first.model.interval == pytest.approx((0.6, 0.8))
    assert first.dictionary is not None and first.dictionary.interval is None
    assert second.model is None and curve.num_scored == 1


def test_ceilings_are_ordered_numbers_types_none() -> None:
    per_type = {"NAME": 512, "STREET": None}
    results = [cell(c, None, 0.5) for c in (None, per_type, 64, 8)]
    curve = by_ceiling(results, choose(results))
    assert curve is not None
    assert [p.label for p in curve.points] == ["8", "64", "NAME 512, STREET none", "none"]
    assert not is_log(curve) and positions(curve) == [0, 1, 2, 3]


def test_no_ceiling_stands_past_the_highest_on_the_log_axis() -> None:
    results = [cell(c, None, 0.5) for c in (1, 2, 8, None)]
    curve = by_ceiling(results, choose(results))
    assert curve is not None and is_log(curve)
    assert positions(curve) == [0, 1, 3, 4.5]


def test_null_sentences_stand_where_all_sentences_are() -> None:
    results = [cell(4, n, 0.5) for n in (None, 8000)] + [cell(8, None, 0.4)]
    (curve,) = by_sentences(results, choose(results))
    assert [p.value for p in curve.points] == [8000, 147_000]


def test_too_many_lines_are_thinned_around_the_best() -> None:
    results = [cell(2**k, n, 0.5 + 0.01 * (k == 7)) for k in range(19) for n in (None, 8000)]
    curves = by_sentences(results, choose(results))
    kept = [curve.fixed["annotation.ceiling"] for curve in thinned(curves)]
    assert len(curves) == 19 and len(kept) == 7
    assert {1, 2**7, 2**18} <= set(kept) and kept == sorted(kept)


def test_only_settings_that_differ_are_named() -> None:
    results = [cell(1, None, 0.5), cell(2, None, 0.5), cell(None, None, 0.9, 5, upper_bound=True)]
    assert varied(results) == ["annotation.ceiling"]


@pytest.mark.parametrize(
    ("value", "label"),
    [(512, "512"), (262144.0, "262,144"), (0.5, "0.5"), (None, "none"), ({"A": 2}, "A 2")],
)
def test_ceiling_labels(value: Any, label: str) -> None:
    assert ceiling_label(value) == label


@pytest.mark.parametrize(
    ("value", "label"),
    [(512, "512"), (1024, "1,024"), (4096, "4,096"), (262144, "262k"), (1.5e6, "1.5M"), (0, "0")],
)
def test_short_numbers(value: float, label: str) -> None:
    assert _short(value) == label


def test_tick_labels_keep_their_distance() -> None:
    assert _apart([float(n) for n in range(19)], 0.1) == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]
    assert _apart([0.0, 1.0, 1.05], 0.2, keep_last=True) == [0.0, 1.05]
    assert _apart([3.0], 0.2) == [3.0]
