"""The best setting: mean over seeds, on validation only."""

from __future__ import annotations

import pytest

from deidsearch.evaluate.choice import choose, metric_of


def result(ceiling: float | None, seed: int, f1: float | None, **more):
    return {
        "cell": f"c{ceiling}-{seed}",
        "state": "done",
        "settings": {"annotation.ceiling": ceiling, "training.seed": seed},
        "validation": {"f1": f1, "recall": f1},
        "test": {"f1": 1 - (f1 or 0)},
        **more,
    }


def test_highest_mean_over_seeds_wins_over_the_luckiest_seed() -> None:
    results = [result(1, 1, 0.95), result(1, 2, 0.5), result(2, 1, 0.8), result(2, 2, 0.82)]
    best = choose(results).best
    assert best is not None
    assert best.settings == {"annotation.ceiling": 2}
    assert best.best_cell["cell"] == "c2-2"
    assert (best.low, best.high) == (0.8, 0.82)


def test_test_scores_can_not_choose() -> None:
    with pytest.raises(ValueError, match="not one of validation"):
        choose([], "test/f1")


def test_failed_undefined_and_gold_trained_cells_do_not_compete() -> None:
    results = [
        result(1, 1, 0.6),
        result(1, 2, 0.99, state="failed"),
        result(2, 1, None),
        result(None, 1, 0.97, upper_bound=True),
    ]
    choice = choose(results)
    assert [s.settings["annotation.ceiling"] for s in choice.ranking] == [1]
    assert choice.ranking[0].num_missing == 1
    assert len(choice.upper_bounds) == 1


def test_first_of_equal_settings_wins() -> None:
    best = choose([result(4, 1, 0.7), result(2, 1, 0.7)]).best
    assert best is not None and best.settings["annotation.ceiling"] == 4


def test_minimum_recall_leaves_settings_out() -> None:
    results = [result(1, 1, 0.6), result(2, 1, 0.8)]
    assert len(choose(results, min_recall=0.7).ranking) == 1
    assert choose(results, min_recall=0.9).best is None


def test_minimum_recall_is_held_against_the_lower_end_of_the_interval() -> None:
    unsure = result(1, 1, 0.8)
    unsure["validation"]["interval"] = {"recall": [0.65, 0.9]}
    assert choose([unsure], min_recall=0.7).best is None
    assert choose([unsure], min_recall=0.6).best is not None


def test_nothing_finished_has_no_best() -> None:
    assert choose([]).best is None
    assert metric_of({"validation": None}, "validation/f1") is None
