"""Strict scores: hand-worked cases, seqeval as oracle, empty sides, positions and order."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deidsearch.evaluate.metrics import Counts, GoldMentions, hits, micro_f1, score
from deidsearch.records import SpanTable

TYPES = ("NAME", "STREET", "LOCATION")
MARK = re.compile(r"\[([^\]]+)\]\((\w+)\)|(\S+)")


def spans_of(*texts: str) -> SpanTable:
    """Returns the spans of texts like "[Anna](NAME) bor i [Odense](LOCATION)"."""
    rows = []
    for sentence, text in enumerate(texts):
        token = 0
        for match in MARK.finditer(text):
            width = len(match[1].split()) if match[1] else 1
            if match[1]:
                rows.append((sentence, token, token + width, TYPES.index(match[2])))
            token += width
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return SpanTable.build(*columns)


def scores_of(gold: list[str], pred: list[str], **options: int):
    return score(
        GoldMentions.from_spans(spans_of(*gold), len(gold)), spans_of(*pred), TYPES, **options
    )


def test_hand_worked_scores_pool_over_types() -> None:
    scores = scores_of(
        ["[anna jensen](NAME) bor i [odense](LOCATION)", "ingen", "[nygade](STREET) 3"],
        ["[anna jensen](NAME) bor i [odense](NAME)", "[ingen](NAME)", "[nygade](STREET) 3"],
    )
    assert scores.overall == Counts(tp=2, support=3, positives=4)
    assert scores.overall.precision == 0.5
    assert scores.overall.recall == pytest.approx(2 / 3)
    assert scores.overall.f1 == pytest.approx(4 / 7)
    assert scores.per_type == {
        "NAME": Counts(1, 1, 3),
        "STREET": Counts(1, 1, 1),
        "LOCATION": Counts(0, 1, 0),
    }
    assert scores.sentences.tp.tolist() == [1, 0, 1]
    assert scores.sentences.positives.tolist() == [2, 1, 1]
    assert scores.sentences.support.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    "pred",
    [
        "[anna](NAME) jensen bor",  # too short
        "[anna jensen bor](NAME)",  # too long
        "[anna jensen](STREET) bor",  # other type
        "[anna](NAME) [jensen](NAME) bor",  # in two pieces
    ],
)
def test_only_equal_bounds_and_type_are_right(pred: str) -> None:
    assert scores_of(["[anna jensen](NAME) bor"], [pred]).overall.tp == 0


def test_finding_the_second_mention_of_a_word_is_not_finding_the_first() -> None:
    # R64: matching is by position, not by words.
    scores = scores_of(["[per](NAME) og per"], ["per og [per](NAME)"])
    assert scores.overall == Counts(tp=0, support=1, positives=1)


def test_no_gold_mention_gives_undefined_recall_and_keeps_counts() -> None:
    # R63.
    scores = scores_of(["ingen her"], ["[ingen](NAME) her"])
    assert scores.overall.recall is None
    assert scores.overall.precision == 0.0
    assert scores.overall.f1 == 0.0
    assert scores.to_json()["counts"] == {"tp": 0, "support": 0, "positives": 1, "sentences": 1}


def test_nothing_predicted_gives_undefined_precision_and_zero_f1() -> None:
    scores = scores_of(["[anna](NAME)"], ["anna"])
    assert (scores.overall.precision, scores.overall.recall, scores.overall.f1) == (None, 0.0, 0.0)


def test_both_sides_empty_is_undefined_throughout() -> None:
    block = scores_of(["ingen"], ["ingen"]).to_json()
    assert (block["precision"], block["recall"], block["f1"]) == (None, None, None)
    assert block["per_type"]["NAME"]["f1"] is None


def test_no_sentence_at_all_is_undefined() -> None:
    assert (
        score(GoldMentions.from_spans(SpanTable.empty(), 0), SpanTable.empty(), TYPES).overall.f1
        is None
    )


def test_counts_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="contradict"):
        Counts(tp=2, support=1, positives=3)


def test_fbeta_weighs_recall() -> None:
    counts = Counts(tp=6, support=10, positives=8)
    precision, recall = 0.75, 0.6
    assert counts.fbeta(2) == pytest.approx(5 * precision * recall / (4 * precision + recall))


def test_unreachable_mentions_stay_in_recalls_denominator_and_are_counted_once() -> None:
    gold = GoldMentions(
        num_sentences=2,
        sentence=np.array([0, 0, 0, 1, 1]),
        start_token=np.array([0, -1, -1, 0, 1]),
        end_token=np.array([9, -1, -1, 4, 2]),
        label=np.array([0, 0, 0, 1, 0]),
        reason=np.array([0, 1, 2, 0, 3], np.uint8),
    )
    truncated = np.array([True, True, False, True, False])
    pred = SpanTable.build([1], [0], [4], [1])
    scores = score(gold, pred, TYPES, max_span_width=8, truncated=truncated)
    assert scores.unreachable == {
        "split": 1,
        "alignment": 1,
        "nested": 1,
        "width": 1,
        "truncated": 1,
    }
    assert scores.overall == Counts(tp=1, support=5, positives=1)
    assert scores.hit.tolist() == [False, False, False, True, False]


def test_equal_predictions_count_once() -> None:
    gold = GoldMentions.from_spans(spans_of("[anna](NAME) her"), 1)
    twice = SpanTable.build([0, 0, 0], [0, 1, 0], [1, 2, 1], [0, 0, 0])
    assert score(gold, twice, TYPES).overall == Counts(tp=1, support=1, positives=2)


ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(1, 3), st.integers(0, 2)),
    max_size=25,
)


def table(rows: list[tuple[int, int, int, int]]) -> SpanTable:
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return SpanTable.build(columns[0], columns[1], columns[1] + columns[2], columns[3])


@given(ROWS, ROWS, st.randoms())
def test_scores_equal_set_operations_in_whatever_order(gold_rows, pred_rows, random) -> None:
    gold = GoldMentions.from_spans(table(gold_rows), 5)
    shuffled = list(pred_rows)
    random.shuffle(shuffled)
    pred = table(shuffled)
    # Past the sorting of build, too.
    order = np.array(random.sample(range(len(pred)), len(pred)), np.int64)
    scores = score(gold, pred.take(order), TYPES)
    want, have = set(gold_rows), set(pred_rows)
    assert scores.overall == Counts(len(want & have), len(want), len(have))
    assert hits(gold, pred).sum() == len(want & have)
    assert micro_f1(gold, pred) == (scores.overall.f1 or 0.0)
    for label, name in enumerate(TYPES):
        of_type = [{row for row in side if row[3] == label} for side in (want, have)]
        assert scores.per_type[name] == Counts(
            len(of_type[0] & of_type[1]), len(of_type[0]), len(of_type[1])
        )
    assert scores.sentences.tp.sum() == len(want & have)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_flat_scores_equal_seqevals_strict_mode(data) -> None:
    # R62: seqeval's default mode is lenient; its strict IOB2 mode is the oracle.
    from seqeval.metrics import f1_score, precision_score, recall_score
    from seqeval.scheme import IOB2

    def flat_tags() -> list[list[str]]:
        sentences = []
        for _ in range(4):
            tags: list[str] = []
            for _ in range(data.draw(st.integers(1, 4))):
                name = data.draw(st.sampled_from([*TYPES, None]))
                width = data.draw(st.integers(1, 3))
                tags += (
                    ["O"] * width if name is None else [f"B-{name}"] + [f"I-{name}"] * (width - 1)
                )
            sentences.append((tags + ["O"] * 12)[:12])
        return sentences

    def spans(sentences: list[list[str]]) -> SpanTable:
        rows = []
        for number, tags in enumerate(sentences):
            for start, tag in enumerate(tags):
                if tag.startswith("B-"):
                    end = start + 1
                    while end < len(tags) and tags[end].startswith("I-"):
                        end += 1
                    rows.append((number, start, end - start, TYPES.index(tag[2:])))
        return table(rows)

    gold_tags, pred_tags = flat_tags(), flat_tags()
    if data.draw(st.booleans()):
        pred_tags[0] = gold_tags[0]
    scores = score(GoldMentions.from_spans(spans(gold_tags), 4), spans(pred_tags), TYPES).overall
    strict = {"mode": "strict", "scheme": IOB2, "zero_division": 0}
    if not scores.support and not scores.positives:
        assert scores.f1 is None
        return
    assert (scores.precision or 0.0) == pytest.approx(
        precision_score(gold_tags, pred_tags, **strict)
    )
    assert (scores.recall or 0.0) == pytest.approx(recall_score(gold_tags, pred_tags, **strict))
    assert scores.f1 == pytest.approx(f1_score(gold_tags, pred_tags, **strict))
