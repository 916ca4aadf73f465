"""Gold and predicted mentions laid over the tokens and characters of their documents.

All documents of a set stand one after another on a single line of characters, so that a mention
cut by the sentence splitter keeps all its characters although it belongs to one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from deidsearch.records import SpanTable

if TYPE_CHECKING:
    from deidsearch.dataset.gold import GoldSet
    from deidsearch.text.tokens import TokenTable

Ints = npt.NDArray[np.integer[Any]]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Positions:
    """Where the tokens and gold mentions of a set lie.

    Attributes:
        token_offsets: int64 ``(sentences + 1,)`` token range of each sentence.
        token_start, token_end: int64 ``(tokens,)`` characters on the line of all documents.
        gold_start, gold_end: int64 ``(mentions,)`` the same for the gold mentions.
        gold_label: ``(mentions,)`` index into the types.
    """

    token_offsets: Longs
    token_start: Longs
    token_end: Longs
    gold_start: Longs
    gold_end: Longs
    gold_label: Ints

    @classmethod
    def of(cls, gold: GoldSet) -> Positions:
        """Returns the positions of a gold set."""
        lengths = np.fromiter(map(len, gold.text), np.int64, len(gold.text))
        return cls.build(
            gold.tokens,
            gold.document,
            gold.start_char,
            lengths,
            gold.sentence,
            gold.start_char_m,
            gold.end_char_m,
            gold.label,
        )

    @classmethod
    def build(
        cls,
        tokens: TokenTable,
        document: Sequence[str],
        start_char: Ints,
        length: Ints,
        sentence: Ints,
        mention_start: Ints,
        mention_end: Ints,
        label: Ints,
    ) -> Positions:
        """Returns the positions of plain columns.

        Args:
            tokens: the tokens of the sentences, characters counted within the sentence.
            document: document of each sentence.
            start_char: ``(sentences,)`` first character of each sentence in its document.
            length: ``(sentences,)`` characters of each sentence.
            sentence, mention_start, mention_end, label: the gold mentions, characters counted
                from the start of their sentence; the end may lie past the sentence's.
        """
        start_char = np.asarray(start_char, np.int64)
        numbers: dict[str, int] = {}
        number = np.fromiter(
            (numbers.setdefault(name, len(numbers)) for name in document), np.int64, len(document)
        )
        size = np.zeros(len(numbers), np.int64)
        np.maximum.at(size, number, start_char + np.asarray(length, np.int64))
        if len(sentence):
            np.maximum.at(size, number[sentence], start_char[sentence] + mention_end)
        base = np.concatenate(([0], np.cumsum(size + 1)))[:-1]
        line = base[number] + start_char
        shift = np.repeat(line, np.diff(tokens.offsets))
        return cls(
            np.asarray(tokens.offsets, np.int64),
            shift + tokens.start_char,
            shift + tokens.end_char,
            line[sentence] + mention_start,
            line[sentence] + mention_end,
            np.asarray(label),
        )

    def flat(self, spans: SpanTable) -> tuple[Longs, Longs]:
        """Returns first and last (exclusive) token of each span among all tokens of the set."""
        first = self.token_offsets[spans.sentence]
        return first + spans.start_token, first + spans.end_token

    def gold_tokens(self, num_types: int) -> npt.NDArray[np.int16]:
        """Returns each token's gold label, ``(tokens,)``; ``num_types`` means none.

        A token that a mention touches counts as its own whole, so that mentions off the token
        bounds are seen here too.
        """
        order = np.argsort(self.token_start, kind="stable")
        start, end = self.token_start[order], self.token_end[order]
        first = np.searchsorted(end, self.gold_start, "right")
        last = np.searchsorted(start, self.gold_end, "left")
        labels = np.empty(len(order), np.int16)
        labels[order] = paint(first, last, self.gold_label, len(order), num_types)
        return labels

    def pred_tokens(self, spans: SpanTable, num_types: int) -> npt.NDArray[np.int16]:
        """Returns each token's predicted label, ``(tokens,)``; ``num_types`` means none."""
        first, last = self.flat(spans)
        return paint(first, last, spans.label, len(self.token_start), num_types)


def paint(
    first: Ints, last: Ints, label: Ints, num_tokens: int, none: int
) -> npt.NDArray[np.int16]:
    """Returns the label of each token, ``(tokens,)``, from half-open ranges of tokens.

    Where ranges overlap the longest counts, then the lowest label.
    """
    labels = np.full(num_tokens, none, dtype=np.int16)
    width = np.asarray(last, np.int64) - first
    # Of writes to one place numpy keeps the last, so the longest ranges go last.
    order = np.lexsort((-np.asarray(label, np.int64), width))
    place, owner = _ranges(np.asarray(first, np.int64)[order], width[order])
    labels[place] = np.asarray(label)[order][owner]
    return labels


def confusion(gold: Ints, pred: Ints, types: Sequence[str], none: str = "none") -> dict[str, Any]:
    """Returns the token-level confusion matrix, rows gold and columns predicted.

    ``{"labels": [..., "none"], "matrix": [[...]]}``
    """
    size = len(types) + 1
    flat = np.bincount(np.asarray(gold, np.int64) * size + pred, minlength=size * size)
    return {"labels": [*types, none], "matrix": flat.reshape(size, size).tolist()}


def leakage(positions: Positions, pred: SpanTable) -> dict[str, Any]:
    """Returns how much of the gold is hidden whatever the predicted type (METHOD §9).

    Counted are the characters of tokens: a blank between two hidden words gives nothing away. A
    mention is hidden where all its characters are. Characters of overlapping mentions count
    once. Shares are 0-1, None where there is nothing to hide.
    """
    first, last = positions.flat(pred)
    size = int(max(positions.token_end.max(initial=0), positions.gold_end.max(initial=0))) + 1
    is_written = _cover(positions.token_start, positions.token_end, size)
    hidden = np.zeros(size, dtype=bool)
    if len(pred):
        hidden = _cover(positions.token_start[first], positions.token_end[last - 1], size)
    is_gold = _cover(positions.gold_start, positions.gold_end, size) & is_written
    exposed = np.concatenate(([0], np.cumsum(is_written & ~hidden)))
    is_hidden = exposed[positions.gold_end] == exposed[positions.gold_start]
    characters, mentions = int(is_gold.sum()), len(is_hidden)
    hidden_characters = int((is_gold & hidden).sum())
    hidden_mentions = int(is_hidden.sum())
    return {
        "characters": characters,
        "hidden_characters": hidden_characters,
        "character_share": hidden_characters / characters if characters else None,
        "mentions": mentions,
        "hidden_mentions": hidden_mentions,
        "mention_share": hidden_mentions / mentions if mentions else None,
    }


def _ranges(first: Longs, width: Longs) -> tuple[Longs, Longs]:
    """Returns all positions of the ranges, and the range each belongs to."""
    owner = np.repeat(np.arange(len(width)), width)
    before = np.concatenate(([0], np.cumsum(width)))[:-1]
    return np.arange(len(owner)) - before[owner] + first[owner], owner


def _cover(start: Longs, end: Longs, size: int) -> npt.NDArray[np.bool_]:
    """Returns which of ``size`` characters lie in any of the half-open ranges."""
    change = np.zeros(size + 1, np.int64)
    np.add.at(change, start, 1)
    np.add.at(change, end, -1)
    return np.cumsum(change)[:size] > 0
