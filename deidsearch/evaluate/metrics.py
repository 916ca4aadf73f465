"""Strict scores on mentions, and what each gold mention came to.

Source: METHOD §9; Laursen et al. 2022, §4.2. A predicted mention is right where its sentence,
start, end and type all equal a gold mention's. Both sides are sets of positions, so neither the
order of the spans nor equal words elsewhere in the sentence can change a score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from deidsearch.evaluate.bootstrap import SentenceCounts
from deidsearch.records import SpanTable

if TYPE_CHECKING:
    from deidsearch.dataset.gold import GoldSet

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.integer[Any]]

REASONS = ("reachable", "split", "alignment", "nested")
"""Why a gold mention can or can't be reached, by the code in ``GoldMentions.reason``."""


@dataclass(frozen=True, eq=False)
class GoldMentions:
    """The human mentions of one set, each counted in recall's denominator.

    Attributes:
        num_sentences: sentences of the set, those without mentions too.
        sentence: ``(mentions,)`` sentence of each mention (of its start, where it is cut).
        start_token, end_token: ``(mentions,)`` half-open, -1 where it isn't on token bounds.
        label: ``(mentions,)`` index into the types.
        reason: uint8 ``(mentions,)`` index into ``REASONS``.
    """

    num_sentences: int
    sentence: Ints
    start_token: Ints
    end_token: Ints
    label: Ints
    reason: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.sentence)

    @classmethod
    def of(cls, gold: GoldSet) -> GoldMentions:
        """Returns the mentions of a gold set, all of them."""
        return cls(
            len(gold.tokens),
            gold.sentence,
            gold.start_token,
            gold.end_token,
            gold.label,
            gold.reason,
        )

    @classmethod
    def from_spans(cls, spans: SpanTable, num_sentences: int) -> GoldMentions:
        """Returns the mentions of a plain table of token spans, equal ones counted once."""
        _, first = np.unique(spans.keys(), return_index=True)
        return cls(
            num_sentences,
            spans.sentence[first],
            spans.start_token[first],
            spans.end_token[first],
            spans.label[first],
            np.zeros(len(first), np.uint8),
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """Pooled counts of one comparison, and the scores that follow from them.

    A score of 0/0 is undefined and None: precision where nothing was predicted, recall where
    there is no gold mention, F1 where there is neither. F1 is 0 where only one side is empty.

    >>> Counts(tp=0, support=3, positives=0).f1, Counts(0, 0, 0).f1
    (0.0, None)
    """

    tp: int
    support: int
    positives: int

    def __post_init__(self) -> None:
        if not 0 <= self.tp <= min(self.support, self.positives):
            raise ValueError(f"counts contradict each other: {self}")

    @property
    def precision(self) -> float | None:
        """Share 0-1 of the predicted mentions that are right."""
        return self.tp / self.positives if self.positives else None

    @property
    def recall(self) -> float | None:
        """Share 0-1 of the gold mentions that were found."""
        return self.tp / self.support if self.support else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall, 0-1."""
        return self.fbeta(1.0)

    def fbeta(self, beta: float) -> float | None:
        """Returns F-beta, 0-1; a beta above 1 weighs recall more."""
        weight = beta * beta
        total = weight * self.support + self.positives
        return (1 + weight) * self.tp / total if total else None

    def to_json(self) -> dict[str, Any]:
        """Returns scores and counts; an undefined score is None."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "tp": self.tp,
            "support": self.support,
            "positives": self.positives,
        }


@dataclass(frozen=True, eq=False)
class Scores:
    """Strict micro scores of one set of predictions.

    Attributes:
        overall: counts pooled over all types.
        per_type: the same for each type, in the types' order.
        unreachable: gold mentions that no prediction could equal, by reason.
        sentences: the counts per sentence, for the bootstrap.
        hit: bool ``(mentions,)``, True where the gold mention was found exactly.
    """

    overall: Counts
    per_type: Mapping[str, Counts]
    unreachable: Mapping[str, int]
    sentences: SentenceCounts
    hit: Bools

    def to_json(self) -> dict[str, Any]:
        """Returns the scores as they stand in result.json, without the interval."""
        overall = self.overall
        return {
            "precision": overall.precision,
            "recall": overall.recall,
            "f1": overall.f1,
            "per_type": {name: counts.to_json() for name, counts in self.per_type.items()},
            "counts": {
                "tp": overall.tp,
                "support": overall.support,
                "positives": overall.positives,
                "sentences": len(self.sentences),
            },
            "unreachable": dict(self.unreachable),
        }


def score(
    gold: GoldMentions,
    pred: SpanTable,
    types: Sequence[str],
    *,
    max_span_width: int | None = None,
    truncated: Bools | None = None,
) -> Scores:
    """Returns the strict scores of predictions against gold.

    Args:
        gold: all mentions of the set, unreachable ones too.
        pred: predicted spans; equal ones count once.
        types: names of the labels, in index order.
        max_span_width: longest mention in tokens that the model can predict; None: any.
        truncated: bool ``(mentions,)``, True where the encoder never saw all of the mention.
    """
    hit, gold_row = _match(gold, pred)
    rows = _unique_rows(pred)
    found = gold_row >= 0
    num_types = len(types)
    tp_by_type = np.bincount(pred.label[rows][found], minlength=num_types)
    positives_by_type = np.bincount(pred.label[rows], minlength=num_types)
    support_by_type = np.bincount(gold.label, minlength=num_types)
    per_type = {
        name: Counts(int(tp), int(support), int(positives))
        for name, tp, support, positives in zip(
            types, tp_by_type, support_by_type, positives_by_type, strict=True
        )
    }
    size = gold.num_sentences
    counts = SentenceCounts(
        tp=np.bincount(pred.sentence[rows][found], minlength=size).astype(np.int32),
        positives=np.bincount(pred.sentence[rows], minlength=size).astype(np.int32),
        support=np.bincount(gold.sentence, minlength=size).astype(np.int32),
    )
    overall = Counts(int(found.sum()), len(gold), len(rows))
    return Scores(overall, per_type, unreachable(gold, max_span_width, truncated), counts, hit)


def micro_f1(gold: GoldMentions, pred: SpanTable) -> float:
    """Returns the strict micro-F1, 0-1, as training scores an epoch (0.0 where undefined)."""
    hit, _ = _match(gold, pred)
    counts = Counts(int(hit.sum()), len(gold), len(_unique_rows(pred)))
    return counts.f1 or 0.0


def hits(gold: GoldMentions, pred: SpanTable) -> Bools:
    """Returns which gold mentions were found exactly, ``(mentions,)``."""
    return _match(gold, pred)[0]


def unreachable(
    gold: GoldMentions, max_span_width: int | None = None, truncated: Bools | None = None
) -> dict[str, int]:
    """Returns the number of gold mentions out of reach by reason, each mention under one reason.

    A nested mention counts as out of reach although predicting it instead of the outer one would
    be right: the decoder keeps one of two overlapping spans.
    """
    counts = {name: int((gold.reason == code).sum()) for code, name in enumerate(REASONS) if code}
    left = gold.reason == 0
    too_wide = np.zeros(len(gold), dtype=bool)
    if max_span_width is not None:
        too_wide = left & (gold.end_token - gold.start_token > max_span_width)
    counts["width"] = int(too_wide.sum())
    cut = np.zeros(len(gold), dtype=bool) if truncated is None else truncated
    counts["truncated"] = int((left & ~too_wide & cut).sum())
    return counts


def _unique_rows(spans: SpanTable) -> npt.NDArray[np.int64]:
    """Returns the ascending positions of the first of equal spans."""
    size = len(spans)
    if size < 2:
        return np.arange(size)
    columns = (spans.sentence, spans.start_token, spans.end_token, spans.label)
    changed = np.zeros(size - 1, dtype=bool)
    # A table may have been put together by hand: only a sorted one has its equals side by side.
    order = np.lexsort(columns[::-1])
    for column in columns:
        changed |= np.diff(column[order]) != 0
    return np.sort(order[np.concatenate(([True], changed))])


def _match(gold: GoldMentions, pred: SpanTable) -> tuple[Bools, npt.NDArray[np.int64]]:
    """Returns which gold mentions are predicted, ``(mentions,)``, and the gold row of each
    distinct prediction, ``(predictions,)``, -1 where it is wrong.
    """
    rows = _unique_rows(pred)
    hit = np.zeros(len(gold), dtype=bool)
    aligned = np.flatnonzero(gold.start_token >= 0)
    if not len(rows) or not len(aligned):
        return hit, np.full(len(rows), -1, np.int64)
    assert int(pred.sentence.max()) < gold.num_sentences, "a prediction outside the set"
    length = 1 + max(int(gold.end_token[aligned].max()), int(pred.end_token[rows].max()))
    labels = 1 + max(int(gold.label.max()), int(pred.label[rows].max()))
    assert gold.num_sentences * length * length * labels < 2**62

    def packed(sentence: Ints, start: Ints, end: Ints, label: Ints) -> npt.NDArray[np.int64]:
        wide = (sentence.astype(np.int64) * length + start) * length + end
        return wide * labels + label

    want = packed(
        gold.sentence[aligned],
        gold.start_token[aligned],
        gold.end_token[aligned],
        gold.label[aligned],
    )
    have = packed(
        pred.sentence[rows], pred.start_token[rows], pred.end_token[rows], pred.label[rows]
    )
    order = np.argsort(want, kind="stable")
    place = np.searchsorted(want[order], have).clip(max=len(want) - 1)
    right = want[order][place] == have
    gold_row = np.where(right, aligned[order][place], -1)
    hit[gold_row[right]] = True
    return hit, gold_row
