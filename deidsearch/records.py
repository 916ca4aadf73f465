"""The small frozen records that the parts of deidsearch hand to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A labelled stretch of a text: half-open, in Unicode code points of the original text."""

    start: int
    end: int
    label: str
    score: float | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"a span needs 0 <= start < end, got {self.start} and {self.end}")


@dataclass(frozen=True, slots=True)
class Document:
    """One text as its source gave it, with its spans and its other fields untouched."""

    id: str
    text: str
    spans: tuple[Span, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, span in enumerate(self.spans):
            if span.end > len(self.text):
                raise ValueError(
                    f"span {number} ends at character {span.end}, text has {len(self.text)}"
                )


@dataclass(frozen=True, slots=True, eq=False)
class SpanTable:
    """Token spans of many sentences, columnar, sorted by (sentence, start, end, label).

    Attributes:
        sentence: int32 ``(spans,)``, position of the sentence in its table.
        start_token: int32 ``(spans,)``, first token within the sentence.
        end_token: int32 ``(spans,)``, one past the last token.
        label: int16 ``(spans,)``, index into the types.
        score: float32 ``(spans,)``, share 0-1, or None where spans have none.
    """

    sentence: IntArray
    start_token: IntArray
    end_token: IntArray
    label: IntArray
    score: npt.NDArray[np.float32] | None = None

    @classmethod
    def build(
        cls,
        sentence: npt.ArrayLike,
        start_token: npt.ArrayLike,
        end_token: npt.ArrayLike,
        label: npt.ArrayLike,
        score: npt.ArrayLike | None = None,
    ) -> SpanTable:
        """Returns the table of these columns, sorted."""
        sentence = np.asarray(sentence, dtype=np.int32)
        start_token = np.asarray(start_token, dtype=np.int32)
        end_token = np.asarray(end_token, dtype=np.int32)
        label = np.asarray(label, dtype=np.int16)
        assert sentence.shape == start_token.shape == end_token.shape == label.shape
        order = np.lexsort((label, end_token, start_token, sentence))
        scores = None if score is None else np.asarray(score, dtype=np.float32)[order]
        return cls(sentence[order], start_token[order], end_token[order], label[order], scores)

    @classmethod
    def empty(cls) -> SpanTable:
        """Returns a table without spans."""
        return cls.build([], [], [], [])

    def __len__(self) -> int:
        return len(self.sentence)

    def take(self, index: npt.NDArray[Any]) -> SpanTable:
        """Returns the rows of a boolean mask or of ascending positions."""
        score = None if self.score is None else self.score[index]
        return SpanTable(
            self.sentence[index],
            self.start_token[index],
            self.end_token[index],
            self.label[index],
            score,
        )

    def of_sentences(self, sentences: npt.NDArray[Any]) -> SpanTable:
        """Returns the spans of the listed sentences, renumbered by position in the list.

        Args:
            sentences: ``(chosen,)`` distinct sentence numbers, in any order.
        """
        sentences = np.asarray(sentences, dtype=np.int64)
        if not len(self) or not len(sentences):
            return SpanTable.empty()
        position = np.full(max(int(sentences.max()), int(self.sentence.max())) + 1, -1, np.int64)
        position[sentences] = np.arange(len(sentences))
        renumbered = position[self.sentence]
        keep = renumbered >= 0
        kept = self.take(keep)
        return SpanTable.build(
            renumbered[keep], kept.start_token, kept.end_token, kept.label, kept.score
        )

    def keys(self) -> npt.NDArray[np.void]:
        """Returns one comparable value per span, of sentence, start, end and label.

        Equal spans of two tables have equal keys: strict scores are set operations on them.
        """
        rows = np.empty(
            len(self), dtype=[("s", np.int32), ("b", np.int32), ("e", np.int32), ("l", np.int32)]
        )
        rows["s"], rows["b"] = self.sentence, self.start_token
        rows["e"], rows["l"] = self.end_token, self.label
        return rows

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Returns the columns by name, as they are saved."""
        columns: dict[str, npt.NDArray[Any]] = {
            "sentence": self.sentence,
            "start_token": self.start_token,
            "end_token": self.end_token,
            "label": self.label,
        }
        if self.score is not None:
            columns["score"] = self.score
        return columns
