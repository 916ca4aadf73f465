"""Windows over sentences longer than the encoder: each span is whole in the one that owns it.

Source: PURE.md, "length". Windows overlap by a quarter of their pieces, and by the longest span at
least; the middle of the overlap parts the spans, so that each has text on either side of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deidsearch.dataset.pieces import EncodedSentences, Int32, Int64
from deidsearch.records import SpanTable

_NUM_SPECIAL = 2


@dataclass(frozen=True, eq=False)
class Windows:
    """What the encoder reads at once: a sentence, or a part of a long one.

    Attributes:
        sentence: int64 ``(rows,)``, ascending.
        start_token, end_token: int32 ``(rows,)``, half-open, tokens within the sentence.
        own_start, own_end: int32 ``(rows,)``, spans that start in this range are the row's.
        row_offsets: int64 ``(sentences + 1,)``, rows of each sentence; one without tokens has none.
        max_span_width: tokens of the longest span the plan was made for.
    """

    sentence: Int64
    start_token: Int32
    end_token: Int32
    own_start: Int32
    own_end: Int32
    row_offsets: Int64
    max_span_width: int

    def __len__(self) -> int:
        return len(self.sentence)

    @property
    def num_windowed(self) -> int:
        """Sentences that were too long for one window."""
        return int((np.diff(self.row_offsets) > 1).sum())

    def is_reachable(self, spans: SpanTable) -> npt.NDArray[np.bool_]:
        """Returns which spans a model can see and predict, ``(spans,)``.

        The others are wider than ``max_span_width``, or longer than a whole window.
        """
        rows = self._row_of(spans.sentence, spans.start_token)
        fits = spans.end_token <= self.end_token[rows] if len(self) else np.zeros(len(spans), bool)
        return fits & (spans.end_token - spans.start_token <= self.max_span_width)

    def _row_of(self, sentence: npt.NDArray[Any], start_token: npt.NDArray[Any]) -> Int64:
        """Returns the row that owns the spans starting at these tokens, ``(spans,)``."""
        if not len(self):
            return np.zeros(len(sentence), np.int64)
        # One number orders rows by (sentence, first owned token).
        stride = int(max(self.own_end.max(), start_token.max(initial=0))) + 1
        keys = self.sentence * stride + self.own_start
        wanted = sentence.astype(np.int64) * stride + start_token
        return np.maximum(np.searchsorted(keys, wanted, side="right") - 1, 0)


def plan_windows(encoded: EncodedSentences, max_pieces: int, max_span_width: int) -> Windows:
    """Returns the rows that the encoder reads, in the order of the sentences.

    Args:
        encoded: the sentences.
        max_pieces: pieces of the encoder's window, the two special ones included.
        max_span_width: tokens of the longest span.
    """
    capacity = max_pieces - _NUM_SPECIAL
    num_tokens = np.diff(encoded.token_offsets)
    is_long = encoded.lengths > capacity
    num_rows = (num_tokens > 0).astype(np.int64)
    parts = {}
    for sentence in np.flatnonzero(is_long):
        tokens = slice(encoded.token_offsets[sentence], encoded.token_offsets[sentence + 1])
        rows = _split(
            np.asarray(encoded.first_piece[tokens]),
            np.asarray(encoded.last_piece[tokens]),
            capacity,
            max_span_width,
        )
        parts[int(sentence)] = rows
        num_rows[sentence] = len(rows)
    row_offsets = np.concatenate(([0], np.cumsum(num_rows)))
    row_sentence = np.repeat(np.arange(len(encoded)), num_rows)
    columns = np.zeros((4, len(row_sentence)), dtype=np.int32)
    columns[1] = columns[3] = num_tokens[row_sentence]
    for number, rows in parts.items():
        columns[:, row_offsets[number] : row_offsets[number + 1]] = np.array(rows).T
    start, end, own_start, own_end = columns
    return Windows(row_sentence, start, end, own_start, own_end, row_offsets, max_span_width)


def _split(
    first_piece: npt.NDArray[Any], last_piece: npt.NDArray[Any], capacity: int, max_span_width: int
) -> list[tuple[int, int, int, int]]:
    """Returns the windows of one sentence: start, end, first owned token, end of the owned."""
    num_tokens = len(first_piece)
    rows = []
    start = own_start = 0
    while True:
        end = int(np.searchsorted(last_piece, first_piece[start] + capacity))
        if end >= num_tokens:
            rows.append((start, num_tokens, own_start, num_tokens))
            return rows
        overlap = int(np.searchsorted(first_piece, last_piece[end - 1] + 1 - capacity // 4))
        # Words of many pieces can leave a window narrower than a span: go on by a token at least.
        following = max(min(overlap, end - max_span_width), start + 1)
        last_whole = max(end - max_span_width + 1, following)
        own_end = (following + last_whole) // 2
        rows.append((start, end, own_start, own_end))
        start, own_start = following, own_end
