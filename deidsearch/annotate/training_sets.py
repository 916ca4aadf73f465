"""Which annotated sentences train the model.

Source: METHOD §7; Laursen et al. 2022, §3.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deidsearch.annotate.matches import Int64
from deidsearch.annotate.postprocess import Annotation
from deidsearch.files import digest
from deidsearch.records import SpanTable


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """The sentences one ceiling and one number of available sentences give.

    Attributes:
        types: the types that the mentions' labels index.
        sentence: int64 ``(chosen,)``, ascending numbers of the corpus sentences.
        mentions: their mentions; ``mentions.sentence`` is a position in ``sentence``.
        num_with_mention: chosen sentences that hold a mention.
        num_without_before: sentences without mention and ambiguity, before down-sampling.
        num_ambiguous: sentences left out because a match in them stays ambiguous.
    """

    types: tuple[str, ...]
    sentence: Int64
    mentions: SpanTable
    num_with_mention: int
    num_without_before: int
    num_ambiguous: int

    def __len__(self) -> int:
        return len(self.sentence)

    @property
    def digest_parts(self) -> tuple[Any, ...]:
        """What two training sets must share to be one: sentences, mentions and types."""
        spans = self.mentions
        return (
            list(self.types), self.sentence, spans.sentence, spans.start_token, spans.end_token,
            spans.label,
        )  # fmt: skip

    @property
    def digest(self) -> str:
        """32 hex digits that name the content."""
        return digest(*self.digest_parts)


def training_set(
    annotation: Annotation,
    ceiling: int,
    keep: npt.NDArray[np.uint64],
    num_sentences: int | None = None,
) -> TrainingSet:
    """Returns the training set of one ceiling.

    Sentences with an ambiguous match are left out. Where sentences without mention outnumber
    those with, as many of them stay, those with the lowest ``keep``: a fixed order, so that a
    larger set keeps as much of a smaller one as the rule allows.

    Args:
        annotation: of the available sentences, by ratios counted over just these.
        ceiling: number of the ceiling.
        keep: uint64 ``(sentences,)``, fixed random priority of each sentence.
        num_sentences: only the first ones; None means all annotated.
    """
    stop = annotation.num_sentences if num_sentences is None else num_sentences
    stop = min(stop, annotation.num_sentences)
    bit = np.uint64(1 << ceiling)
    has_mention = (annotation.has_mention[:stop] & bit) != 0
    ambiguous = (annotation.has_ambiguous[:stop] & bit) != 0
    with_mention = np.flatnonzero(has_mention & ~ambiguous)
    without = np.flatnonzero(~has_mention & ~ambiguous)
    chosen = without
    if len(without) > len(with_mention):
        order = np.argsort(np.asarray(keep)[without], kind="stable")
        chosen = without[order[: len(with_mention)]]
    sentence = np.sort(np.concatenate([with_mention, chosen])).astype(np.int64)
    return TrainingSet(
        annotation.types,
        sentence,
        annotation.mentions(ceiling).of_sentences(sentence),
        len(with_mention),
        len(without),
        int(ambiguous.sum()),
    )
