"""The 2x2 table, McNemar's exact test and words of both kinds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deidsearch.evaluate.compare import mcnemar_exact, shared_words, two_by_two


def test_table_counts_each_mention_once() -> None:
    model = np.array([True, True, False, False, True])
    dictionary = np.array([True, False, True, False, False])
    table = two_by_two(model, dictionary)
    assert (table.both_right, table.model_only, table.dictionary_only, table.both_wrong) == (
        1,
        2,
        1,
        1,
    )
    assert table.p_value == 1.0


@settings(deadline=None)  # scipy is imported inside the first example
@given(st.integers(0, 400), st.integers(0, 400))
def test_p_value_equals_scipys_binomial_test(first: int, second: int) -> None:
    from scipy.stats import binomtest

    want = 1.0 if first + second == 0 else binomtest(first, first + second, 0.5).pvalue
    assert mcnemar_exact(first, second) == pytest.approx(want, rel=1e-9)


def test_p_value_of_the_papers_table_is_far_below_chance() -> None:
    assert 0 < mcnemar_exact(283, 13) < 1e-60


def test_words_of_both_kinds_are_counted_per_word() -> None:
    # per(NAME) per hans(NAME) hans og . ; "." stands in and out of mentions but is no word.
    word = np.array([0, 0, 1, 1, 2, 3, 3])
    is_word = np.array([True] * 5 + [False] * 2)
    none = 1
    gold = np.array([0, none, 0, none, none, 0, none])
    model = np.array([0, 0, 0, none, none, 0, none])
    dictionary = np.array([none, none, 0, none, 0, 0, none])
    found = shared_words(word, is_word, gold, [model, dictionary], none)
    assert found.word.tolist() == [0, 1]
    assert found.right_inside.tolist() == [[1, 1], [0, 1]]
    assert found.right_outside.tolist() == [[0, 1], [1, 1]]
    assert found.to_json() == {
        "words": 2,
        "identifiers": 2,
        "non_identifiers": 2,
        "model": {"identifiers": 1.0, "non_identifiers": 0.5},
        "dictionary": {"identifiers": 0.5, "non_identifiers": 1.0},
    }


def test_no_word_of_both_kinds_is_undefined() -> None:
    empty = np.zeros(0, np.int64)
    block = shared_words(empty, empty.astype(bool), empty, [empty], 1).to_json()
    assert block["words"] == 0 and block["model"]["identifiers"] is None
