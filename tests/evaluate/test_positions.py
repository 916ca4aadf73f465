"""Tokens and characters: confusion, leakage, groups by dictionary knowledge."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from deidsearch.evaluate.groups import GROUPS, group_scores, mention_groups
from deidsearch.evaluate.positions import Positions, confusion, leakage, paint
from deidsearch.records import SpanTable
from deidsearch.text.tokens import TokenTable, fold_vocabulary, tokenise

TYPES = ("NAME", "LOCATION")


def place(
    texts: list[str],
    mentions: list[tuple[int, int, int, int]],
    documents: list[str] | None = None,
    starts: list[int] | None = None,
) -> tuple[Positions, TokenTable]:
    """Mentions are (sentence, first character, end character, label)."""
    tokens = tokenise(texts)
    rows = np.array(mentions, np.int64).reshape(-1, 4).T
    positions = Positions.build(
        tokens,
        documents or [str(n) for n in range(len(texts))],
        np.array(starts or [0] * len(texts)),
        np.array([len(text) for text in texts]),
        *rows,
    )
    return positions, tokens


def test_confusion_rows_are_gold_and_sum_to_the_tokens() -> None:
    positions, tokens = place(["Anna Holm bor i Odense"], [(0, 0, 9, 0), (0, 16, 22, 1)])
    pred = SpanTable.build([0, 0], [0, 4], [1, 5], [0, 0])
    matrix = confusion(positions.gold_tokens(2), positions.pred_tokens(pred, 2), TYPES)
    assert matrix == {
        "labels": ["NAME", "LOCATION", "none"],
        "matrix": [[1, 0, 1], [1, 0, 0], [0, 0, 2]],
    }
    assert np.sum(matrix["matrix"]) == tokens.num_tokens


def test_mention_off_token_bounds_still_labels_the_tokens_it_touches() -> None:
    positions, _ = place(["hr Annas hus"], [(0, 3, 7, 0)])
    assert positions.gold_tokens(2).tolist() == [2, 0, 2]


def test_longest_of_overlapping_mentions_labels_the_token() -> None:
    assert paint(np.array([0, 1]), np.array([3, 2]), np.array([0, 1]), 4, 2).tolist() == [
        0,
        0,
        0,
        2,
    ]
    assert paint(np.array([0, 0]), np.array([1, 1]), np.array([1, 0]), 1, 2).tolist() == [0]


def test_a_wrong_type_hides_as_well() -> None:
    positions, _ = place(["Anna Holm bor i Odense"], [(0, 0, 9, 0), (0, 16, 22, 1)])
    pred = SpanTable.build([0, 0], [0, 4], [1, 5], [1, 0])
    assert leakage(positions, pred) == {
        "characters": 14,
        "hidden_characters": 10,
        "character_share": 10 / 14,
        "mentions": 2,
        "hidden_mentions": 1,
        "mention_share": 0.5,
    }


def test_two_spans_hide_a_mention_whatever_the_blank_between_them() -> None:
    positions, _ = place(["Anna  Holm bor"], [(0, 0, 10, 0)])
    pred = SpanTable.build([0, 0], [0, 1], [1, 2], [0, 0])
    assert leakage(positions, pred)["hidden_mentions"] == 1


def test_mention_cut_by_the_splitter_is_hidden_only_with_both_its_parts() -> None:
    # "Anna J." and "Holm bor" are two sentences of one document, the mention runs over both.
    positions, _ = place(
        ["Anna J.", "Holm bor"], [(0, 0, 12, 0)], documents=["a", "a"], starts=[0, 8]
    )
    half = SpanTable.build([0], [0], [3], [0])
    both = SpanTable.build([0, 1], [0, 0], [3, 1], [0, 0])
    assert leakage(positions, half)["hidden_mentions"] == 0
    assert leakage(positions, both)["hidden_mentions"] == 1
    assert positions.gold_tokens(2).tolist() == [0, 0, 0, 0, 2]


def test_documents_do_not_reach_into_each_other() -> None:
    positions, _ = place(
        ["Anna", "Holm", "Ole"], [(0, 0, 7, 0), (2, 0, 3, 0)], documents=["a", "b", "c"]
    )
    assert positions.gold_tokens(2).tolist() == [0, 2, 0]


def test_nothing_to_hide_is_undefined() -> None:
    positions, _ = place(["ingen"], [])
    assert leakage(positions, SpanTable.empty())["mention_share"] is None
    assert leakage(place([], [])[0], SpanTable.empty())["character_share"] is None


IDENTIFIERS = {
    "anna": False,
    "holm": True,
    "vestre gade": False,
    "jens": False,
    "anne - marie": False,
}


@pytest.mark.parametrize(
    ("mention", "group"),
    [
        ("Anna", "unambiguous"),
        ("HOLM", "ambiguous"),
        ("Anna Holm", "ambiguous"),
        ("Anna Jens", "unambiguous"),
        ("Anna M. Jens", "unambiguous"),
        ("Anne-Marie", "unambiguous"),
        ("Vestre Gade", "unambiguous"),
        ("Vestre", "unlisted"),
        ("Anna Ukendt", "unlisted"),
        ("M.", "unlisted"),
        (".", "unlisted"),
    ],
)
def test_groups_by_what_the_dictionary_lists(mention: str, group: str) -> None:
    text = f"hos {mention} her"
    positions, tokens = place([text], [(0, 4, 4 + len(mention), 0)])
    found = mention_groups(
        positions,
        tokens,
        fold_vocabulary(tokens.vocabulary),
        pa.array(list(IDENTIFIERS)),
        np.array(list(IDENTIFIERS.values())),
    )
    assert GROUPS[found[0]] == group


def test_group_without_mentions_has_undefined_recall() -> None:
    scores = group_scores(np.array([0, 0, 1], np.uint8), {"model": np.array([True, False, True])})
    assert scores == {
        "unambiguous": {"support": 2, "model": {"tp": 1, "recall": 0.5}},
        "ambiguous": {"support": 1, "model": {"tp": 1, "recall": 1.0}},
        "unlisted": {"support": 0, "model": {"tp": 0, "recall": None}},
    }
