"""The bootstrap: against a plain loop, pairing, undefined scores, saved counts."""

from __future__ import annotations

import numpy as np
import pytest

from deidsearch.evaluate.bootstrap import (
    SentenceCounts,
    against,
    interval,
    load_counts,
    mean_interval,
    paired_difference,
    resampled,
    save_counts,
)


def random_counts(size: int, share: float, seed: int = 3) -> SentenceCounts:
    rng = np.random.default_rng(99)
    support = rng.integers(0, 4, size).astype(np.int32)
    rng = np.random.default_rng(seed)
    tp = rng.binomial(support, share).astype(np.int32)
    positives = (tp + rng.binomial(2, 0.1, size)).astype(np.int32)
    return SentenceCounts(tp, positives, support)


def test_resamples_equal_a_plain_loop_over_drawn_sentences() -> None:
    counts = random_counts(40, 0.7)
    values = resampled([counts], "f1", resamples=50, seed=7)[:, 0]
    rng = np.random.default_rng(7)
    drawn = rng.integers(0, 40, size=(50, 40))
    for row, sentences in enumerate(drawn):
        tp = sum(int(counts.tp[s]) for s in sentences)
        total = sum(int(counts.positives[s] + counts.support[s]) for s in sentences)
        assert values[row] == 2 * tp / total


def test_resamples_in_blocks_have_the_same_spread_as_in_one(monkeypatch) -> None:
    from deidsearch.evaluate import bootstrap

    counts = random_counts(100, 0.8)
    whole = interval(counts, resamples=400, seed=1)
    monkeypatch.setattr(bootstrap, "_BLOCK", 1000)
    assert interval(counts, resamples=400, seed=1) == whole


def test_interval_holds_the_score_and_narrows_with_more_sentences() -> None:
    few, many = random_counts(100, 0.8), random_counts(4000, 0.8)
    widths = []
    for counts in (few, many):
        low, high = interval(counts)["f1"]
        f1 = 2 * counts.tp.sum() / (counts.positives.sum() + counts.support.sum())
        assert low < f1 < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 4


def test_interval_is_seeded() -> None:
    counts = random_counts(200, 0.8)
    assert interval(counts, seed=1) == interval(counts, seed=1)
    assert interval(counts, seed=1)["f1"] != interval(counts, seed=2)["f1"]


def test_undefined_score_has_no_interval() -> None:
    zeros = np.zeros(10, np.int32)
    ones = np.ones(10, np.int32)
    nothing_predicted = interval(SentenceCounts(zeros, zeros, ones))
    assert nothing_predicted["precision"] is None
    assert nothing_predicted["recall"] == [0.0, 0.0]
    assert nothing_predicted["f1"] == [0.0, 0.0]
    empty = np.zeros(0, np.int32)
    assert interval(SentenceCounts(empty, empty, empty), resamples=10)["f1"] is None


def test_resamples_without_the_mention_are_left_out_of_recall() -> None:
    one = np.array([1] + [0] * 9, np.int32)
    assert interval(SentenceCounts(one, one, one))["recall"] == [1.0, 1.0]


def test_a_system_against_itself_differs_by_nothing() -> None:
    counts = random_counts(300, 0.8)
    difference = paired_difference(counts, counts)
    assert (difference.value, difference.low, difference.high) == (0.0, 0.0, 0.0)
    assert not difference.is_clear


def test_pairing_sees_a_small_steady_gain_that_single_intervals_hide() -> None:
    worse = random_counts(1500, 0.8)
    gain = np.zeros(1500, np.int32)
    missed = np.flatnonzero(worse.support > worse.tp)[:25]
    gain[missed] = 1
    better = SentenceCounts(worse.tp + gain, worse.positives + gain, worse.support)
    assert interval(better)["f1"][0] < interval(worse)["f1"][1]
    difference = paired_difference(better, worse)
    assert difference.is_clear and difference.value is not None and difference.value > 0


def test_mean_over_seeds_is_taken_within_each_resample() -> None:
    seeds = [random_counts(200, 0.8, seed) for seed in (1, 2, 3)]
    values = resampled(seeds).mean(axis=1)
    low, high = mean_interval(seeds) or (0, 0)
    assert [low, high] == pytest.approx(np.quantile(values, [0.025, 0.975]).tolist())


def test_against_names_every_other_system() -> None:
    systems = {
        "best": [random_counts(800, 0.8)],
        "alike": [random_counts(800, 0.8, seed=4)],
        "worse": [random_counts(800, 0.5)],
    }
    found = against(systems, "best")
    assert set(found) == {"alike", "worse"}
    assert found["worse"].is_clear
    assert not found["alike"].is_clear


def test_sets_of_different_sizes_are_not_compared() -> None:
    with pytest.raises(ValueError, match="different sizes"):
        paired_difference(random_counts(10, 0.5), random_counts(11, 0.5))


def test_saved_counts_come_back(tmp_path) -> None:
    model, dictionary = random_counts(50, 0.9), random_counts(50, 0.4)
    save_counts(tmp_path / "counts-test", model, dictionary)
    back, theirs = load_counts(tmp_path / "counts-test")
    assert np.array_equal(back.tp, model.tp) and np.array_equal(back.support, model.support)
    assert theirs is not None and np.array_equal(theirs.positives, dictionary.positives)
    save_counts(tmp_path / "alone", model)
    assert load_counts(tmp_path / "alone")[1] is None
    with pytest.raises(FileNotFoundError):
        load_counts(tmp_path / "nowhere")
