"""All measures of one cell on one gold set, in the form of result.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from deidsearch.evaluate.bootstrap import (
    RESAMPLES,
    SentenceCounts,
    interval,
    paired_difference,
)
from deidsearch.evaluate.compare import shared_words, two_by_two
from deidsearch.evaluate.groups import group_scores
from deidsearch.evaluate.metrics import GoldMentions, Scores, score
from deidsearch.evaluate.operating import BETAS, at_threshold, operating_points
from deidsearch.evaluate.positions import Positions, confusion, leakage
from deidsearch.records import SpanTable
from deidsearch.text.tokens import fold_vocabulary, is_word

if TYPE_CHECKING:
    from deidsearch.dataset.gold import GoldSet


@dataclass(frozen=True, eq=False)
class GoldView:
    """What evaluation needs of a gold set, computed once for all cells.

    Attributes:
        types: names of the labels, in index order.
        mentions: the gold mentions.
        positions: where tokens and mentions lie.
        token_label: int16 ``(tokens,)`` gold label of each token.
        word: ``(tokens,)`` number of each token's folded key.
        is_word: bool ``(tokens,)``, True where the token holds a letter or digit.
        group: uint8 ``(mentions,)`` index into `groups.GROUPS`, or None without dictionaries.
    """

    types: tuple[str, ...]
    mentions: GoldMentions
    positions: Positions
    token_label: npt.NDArray[np.int16]
    word: npt.NDArray[np.int64]
    is_word: npt.NDArray[np.bool_]
    group: npt.NDArray[np.uint8] | None

    @classmethod
    def of(
        cls,
        gold: GoldSet,
        *,
        group: npt.NDArray[np.uint8] | None = None,
        fold_accents: bool = False,
    ) -> GoldView:
        """Returns the view of a gold set; ``group`` comes from `groups.mention_groups`."""
        positions = Positions.of(gold)
        folded = fold_vocabulary(gold.tokens.vocabulary, fold_accents).dictionary_encode()
        number = folded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        words = is_word(gold.tokens.vocabulary)
        return cls(
            types=tuple(gold.types),
            mentions=GoldMentions.of(gold),
            positions=positions,
            token_label=positions.gold_tokens(len(gold.types)),
            word=number[gold.tokens.token],
            is_word=np.asarray(words)[gold.tokens.token],
            group=group,
        )


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The measures of a cell on one set.

    Attributes:
        model: the block of the model, as in result.json.
        dictionary: the block of the dictionary baseline, or None.
        counts, dictionary_counts: per sentence, saved beside the result.
    """

    model: dict[str, Any]
    dictionary: dict[str, Any] | None
    counts: SentenceCounts
    dictionary_counts: SentenceCounts | None


def evaluate(
    gold: GoldView,
    pred: SpanTable,
    baseline: SpanTable | None = None,
    *,
    max_span_width: int | None = None,
    truncated: npt.NDArray[np.bool_] | None = None,
    thresholds: Sequence[dict[str, Any]] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 1,
) -> Evaluation:
    """Returns all measures of METHOD §9 for the model and for the dictionary beside it.

    Args:
        gold: view of the gold set.
        pred: the model's spans, with scores where it has them.
        baseline: the dictionary's spans on the same sentences, from this cell's own ceiling.
        max_span_width: longest mention the model can predict, in tokens.
        truncated: bool ``(mentions,)``, True where the encoder never saw all of the mention.
        thresholds: the operating points found on validation; None: this is validation, find them.
        resamples, seed: of the bootstrap.
    """
    scores = score(
        gold.mentions, pred, gold.types, max_span_width=max_span_width, truncated=truncated
    )
    model = _block(gold, pred, scores, resamples, seed)
    if pred.score is not None:
        model["operating"] = (
            operating_points(gold.mentions, pred)
            if thresholds is None
            else at_threshold(gold.mentions, pred, gold.types, thresholds)
        )
    hits = {"model": scores.hit}
    systems = [pred]
    dictionary, dictionary_counts = None, None
    if baseline is not None:
        theirs = score(gold.mentions, baseline, gold.types)
        dictionary = _block(gold, baseline, theirs, resamples, seed)
        dictionary_counts = theirs.sentences
        hits["dictionary"] = theirs.hit
        systems.append(baseline)
        difference = paired_difference(
            scores.sentences, theirs.sentences, resamples=resamples, seed=seed
        )
        model["versus_dictionary"] = {
            **two_by_two(scores.hit, theirs.hit).to_json(),
            "f1_difference": difference.to_json(),
        }
    if gold.group is not None:
        model["groups"] = group_scores(gold.group, hits)
    none = len(gold.types)
    labels = [gold.positions.pred_tokens(spans, none) for spans in systems]
    model["shared_words"] = shared_words(
        gold.word, gold.is_word, gold.token_label, labels, none
    ).to_json(tuple(hits))
    return Evaluation(model, dictionary, scores.sentences, dictionary_counts)


def _block(
    gold: GoldView, pred: SpanTable, scores: Scores, resamples: int, seed: int
) -> dict[str, Any]:
    block: dict[str, Any] = scores.to_json()
    block["fbeta"] = {f"{beta:g}": scores.overall.fbeta(beta) for beta in BETAS}
    block["interval"] = interval(scores.sentences, resamples=resamples, seed=seed)
    labels = gold.positions.pred_tokens(pred, len(gold.types))
    block["confusion"] = confusion(gold.token_label, labels, gold.types)
    block["leakage"] = leakage(gold.positions, pred)
    return block


def final_metrics(blocks: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Returns the defined scores by path ("test/f1"), as a tracker takes them.

    Args:
        blocks: name ("test", "dictionary/test") to a block of result.json.
    """
    found = {}
    for name, block in blocks.items():
        for metric in ("precision", "recall", "f1"):
            value = block.get(metric)
            if value is not None:
                found[f"{name}/{metric}"] = float(value)
    return found
