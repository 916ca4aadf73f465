"""Batches: which sentences make a step, and the arrays that the model reads.

A step is always ``batch_size`` sentences (PURE.md, "padding"). Its rows are cut into slices of
like length under a budget of pieces; the gradients of the summed loss add up to the step's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deidsearch.dataset.pieces import EncodedSentences, Int64
from deidsearch.dataset.windows import Windows, plan_windows
from deidsearch.records import SpanTable
from deidsearch.text.tokens import ragged_positions

# Steps whose sentences are sorted by length together: few enough that groups differ from epoch to
# epoch, enough that a group's sentences are nearly of one length.
SORTED_STEPS = 32
# Groups of like length in a step.
GROUPS = 4
# What one more slice costs on a CPU, in pieces computed. On a GPU its launches cost far more.
SLICE_COST = 32


@dataclass(frozen=True, eq=False)
class Batch:
    """What the model reads at once.

    Attributes:
        piece: int64 ``(rows, pieces)``, padded on the right.
        length: int64 ``(rows,)``, pieces of each row, special ones included.
        first: int64 ``(spans,)``, place of each span's first piece in the flattened rows.
        last: int64 ``(spans,)``, place of its last piece (inclusive).
        width: int64 ``(spans,)``, tokens of each span, 1 at least.
        label: int64 ``(spans,)``, 0 is none, type t is t + 1; None where there are no labels.
        sentence, start_token, end_token: ``(spans,)``, the spans themselves.
    """

    piece: Int64
    length: Int64
    first: Int64
    last: Int64
    width: Int64
    label: Int64 | None
    sentence: Int64
    start_token: Int64
    end_token: Int64

    @property
    def num_spans(self) -> int:
        return len(self.first)

    @property
    def is_padded(self) -> bool:
        """Whether any row has padding."""
        return bool((self.length < self.piece.shape[1]).any())


class SpanBatches:
    """Batches over encoded sentences, with or without labels.

    Args:
        encoded: the sentences.
        max_pieces: pieces of the encoder's window.
        max_span_width: tokens of the longest span.
        mentions: labelled spans of the sentences. Of two labels on one span the first counts.
    """

    def __init__(
        self,
        encoded: EncodedSentences,
        *,
        max_pieces: int,
        max_span_width: int,
        mentions: SpanTable | None = None,
    ) -> None:
        self.encoded = encoded
        self.windows: Windows = plan_windows(encoded, max_pieces, max_span_width)
        self.max_span_width = max_span_width
        # Row lengths as the encoder sees them, special pieces included.
        windows = self.windows
        base = encoded.token_offsets[windows.sentence]
        self._row_start = encoded.first_piece[base + windows.start_token].astype(np.int64)
        row_end = encoded.last_piece[base + windows.end_token - 1].astype(np.int64) + 1
        self.row_length = row_end - self._row_start + 2
        self._keys: Int64 | None = None
        self.counts: dict[str, int] = {
            "sentences": len(encoded),
            "windowed_sentences": windows.num_windowed,
            "cut_words": encoded.num_cut,
        }
        if mentions is not None:
            self._set_mentions(mentions)

    def _set_mentions(self, mentions: SpanTable) -> None:
        width = mentions.end_token - mentions.start_token
        reachable = self.windows.is_reachable(mentions)
        wide = width > self.max_span_width
        kept = mentions.take(reachable)
        keys = self._span_keys(kept.sentence, kept.start_token, kept.end_token - kept.start_token)
        # The table is sorted, so np.unique takes the first label of a span.
        self._keys, first = np.unique(keys, return_index=True)
        self._labels = kept.label[first].astype(np.int64) + 1
        self.counts |= {
            "mentions": len(mentions),
            "mentions_too_wide": int(wide.sum()),
            "mentions_truncated": int((~reachable & ~wide).sum()),
            "mentions_on_one_span": len(keys) - len(self._keys),
        }

    def _span_keys(
        self, sentence: npt.NDArray[Any], start: npt.NDArray[Any], width: npt.NDArray[Any]
    ) -> Int64:
        token = self.encoded.token_offsets[sentence] + start
        return token * self.max_span_width + (width - 1)

    def steps(self, batch_size: int, seed: int, epoch: int) -> list[Int64]:
        """Returns the sentences of each step of an epoch; each comes once, empty ones never.

        The order depends on seed and epoch alone. Shuffled sentences are sorted by length within
        some steps' worth of them and cut into groups of like length; a step takes its groups at
        random, so that it holds short and long sentences as a random batch does. (The loss is
        summed: steps of short sentences alone would hardly move weights beside those of long
        ones.)
        """
        generator = np.random.default_rng([seed, epoch])
        with_rows = np.flatnonzero(np.diff(self.windows.row_offsets) > 0)
        order = generator.permutation(with_rows)
        lengths = self.encoded.lengths
        group = max(1, batch_size // GROUPS)
        size = batch_size * SORTED_STEPS
        steps = []
        for start in range(0, len(order), size):
            chunk = order[start : start + size]
            chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
            groups = [chunk[at : at + group] for at in range(0, len(chunk), group)]
            mixed = np.concatenate([groups[at] for at in generator.permutation(len(groups))])
            steps += [mixed[at : at + batch_size] for at in range(0, len(mixed), batch_size)]
        return [steps[at] for at in generator.permutation(len(steps))]

    def slices(
        self, sentences: Int64, token_budget: int, slice_cost: int = SLICE_COST
    ) -> list[Int64]:
        """Returns the rows of these sentences, cut into slices that are computed at once.

        Args:
            sentences: of a step.
            token_budget: pieces of a slice, padding included.
            slice_cost: pieces of padding that are borne before another slice is begun.
        """
        rows, _ = ragged_positions(self.windows.row_offsets, sentences)
        return self._cut(rows, token_budget, slice_cost)

    def all_slices(self, token_budget: int) -> Iterator[Int64]:
        """Yields all rows in slices of like length, the longest first."""
        # A budget that is too large shows at once, on the largest slice.
        yield from reversed(self._cut(np.arange(len(self.windows)), token_budget, SLICE_COST))

    def _cut(self, rows: Int64, token_budget: int, slice_cost: int) -> list[Int64]:
        rows = rows[np.argsort(self.row_length[rows], kind="stable")]
        lengths = self.row_length[rows].tolist()
        slices, start = [], 0
        filled = 0  # pieces of the slice that are text
        for at, length in enumerate(lengths):
            size = (at - start + 1) * length
            padding = size - filled - length
            # Lengths ascend, so one more row pads all rows before it.
            if at > start and (size > token_budget or padding > slice_cost + size // 16):
                slices.append(rows[start:at])
                start, filled = at, 0
            filled += length
        if len(rows):
            slices.append(rows[start:])
        return slices

    def batch(self, rows: Int64) -> Batch:
        """Returns the arrays of these rows."""
        encoded, windows = self.encoded, self.windows
        sentence = windows.sentence[rows]
        length = self.row_length[rows]
        piece = self._pieces(rows, sentence, length)

        # Each owned token begins spans of every width that ends within the row.
        start = windows.own_start[rows].astype(np.int64)
        num_own = windows.own_end[rows] - start
        row = np.repeat(np.arange(len(rows)), num_own)
        within = np.arange(len(row)) - np.repeat(np.cumsum(num_own) - num_own, num_own)
        token = start[row] + within
        num_widths = np.minimum(windows.end_token[rows][row] - token, self.max_span_width)
        index = np.repeat(np.arange(len(token)), num_widths)
        width = np.arange(len(index)) - np.repeat(np.cumsum(num_widths) - num_widths, num_widths)
        width += 1
        row, token = row[index], token[index]

        flat = encoded.token_offsets[sentence][row] + token
        # Place in the flattened rows: row start, after the special piece, less the window's start.
        place = (np.arange(len(rows)) * piece.shape[1] + 1 - self._row_start[rows])[row]
        label = None
        if self._keys is not None:
            label = self._label(flat * self.max_span_width + (width - 1))
        return Batch(
            piece=piece,
            length=length,
            first=place + encoded.first_piece[flat],
            last=place + encoded.last_piece[flat + width - 1],
            width=width,
            label=label,
            sentence=sentence[row],
            start_token=token,
            end_token=token + width,
        )

    def _pieces(self, rows: Int64, sentence: Int64, length: Int64) -> Int64:
        encoded, special = self.encoded, self.encoded.special
        piece = np.full((len(rows), int(length.max())), special.padding, dtype=np.int64)
        piece[:, 0] = special.first
        piece[np.arange(len(rows)), length - 1] = special.last
        source = encoded.piece_offsets[sentence] + self._row_start[rows]
        column = np.arange(piece.shape[1] - 2)
        is_text = column < (length - 2)[:, None]
        piece[:, 1:-1][is_text] = encoded.piece[(source[:, None] + column)[is_text]]
        return piece

    def _label(self, keys: Int64) -> Int64:
        assert self._keys is not None
        if not len(self._keys):
            return np.zeros(len(keys), np.int64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._labels[at], 0)

    def used_pieces(self) -> Int64:
        """Returns the distinct pieces that the rows hold, special ones included, ascending."""
        special = self.encoded.special
        return np.union1d(self.encoded.piece, [special.first, special.last, special.padding])
