"""Sentences as the encoder's pieces: each distinct word is cut into pieces once.

Source: PURE.md, "pieces" (Zhong & Chen 2021, §3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deidsearch.files import load_arrays, save_arrays
from deidsearch.text.tokens import TokenTable, ragged_positions

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

_BATCH = 20_000  # words handed to the tokenizer at once


@dataclass(frozen=True, slots=True)
class SpecialPieces:
    """Numbers of the pieces that stand for no text."""

    first: int  # [CLS], <s>
    last: int  # [SEP], </s>
    padding: int
    unknown: int


@dataclass(frozen=True, eq=False)
class EncodedSentences:
    """Sentences as pieces, without the special pieces around them.

    Attributes:
        piece: int32 ``(pieces,)``, numbers in the encoder's vocabulary.
        piece_offsets: int64 ``(sentences + 1,)``, piece range of each sentence.
        first_piece: int32 ``(tokens,)``, first piece of each token, within its sentence.
        last_piece: int32 ``(tokens,)``, last piece of each token (inclusive), within its sentence.
        token_offsets: int64 ``(sentences + 1,)``, token range of each sentence.
        special: the pieces that are put around and after each sentence.
        num_cut: tokens with more pieces than fit into one window; the rest of them was cut off.
    """

    piece: Int32
    piece_offsets: Int64
    first_piece: Int32
    last_piece: Int32
    token_offsets: Int64
    special: SpecialPieces
    num_cut: int = 0

    def __len__(self) -> int:
        return len(self.token_offsets) - 1

    @property
    def num_tokens(self) -> int:
        return len(self.first_piece)

    @property
    def num_pieces(self) -> int:
        return len(self.piece)

    @property
    def lengths(self) -> Int64:
        """Pieces per sentence without special ones, ``(sentences,)``."""
        return np.diff(self.piece_offsets)

    def take(self, sentences: npt.NDArray[Any]) -> EncodedSentences:
        """Returns the chosen sentences in the order given.

        Args:
            sentences: ``(chosen,)`` positions, or a boolean mask.
        """
        sentences = np.asarray(sentences)
        pieces, piece_offsets = ragged_positions(self.piece_offsets, sentences)
        tokens, token_offsets = ragged_positions(self.token_offsets, sentences)
        return EncodedSentences(
            self.piece[pieces],
            piece_offsets,
            self.first_piece[tokens],
            self.last_piece[tokens],
            token_offsets,
            self.special,
            self.num_cut,
        )

    def save(self, folder: Path | str) -> Path:
        """Returns the folder, which holds the arrays whole or is absent."""
        special = self.special
        facts = [special.first, special.last, special.padding, special.unknown, self.num_cut]
        return save_arrays(
            folder,
            piece=self.piece,
            piece_offsets=self.piece_offsets,
            first_piece=self.first_piece,
            last_piece=self.last_piece,
            token_offsets=self.token_offsets,
            facts=np.array(facts, dtype=np.int64),
        )

    @classmethod
    def load(cls, folder: Path | str, mmap: bool = True) -> EncodedSentences:
        """Returns the sentences of a folder, their arrays mapped read-only by default."""
        arrays = load_arrays(folder, mmap)
        first, last, padding, unknown, num_cut = arrays.pop("facts").tolist()
        return cls(**arrays, special=SpecialPieces(first, last, padding, unknown), num_cut=num_cut)


def special_pieces(tokenizer: Any) -> SpecialPieces:
    """Returns the special pieces of a transformers tokenizer.

    Raises:
        ValueError: it lacks one that is needed.
    """
    first = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    last = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    numbers = {
        "first (cls or bos)": first,
        "last (sep or eos)": last,
        "padding": tokenizer.pad_token_id,
        "unknown": tokenizer.unk_token_id,
    }
    missing = [name for name, number in numbers.items() if number is None]
    if missing:
        raise ValueError(f"the tokenizer has no special piece: {', '.join(missing)}")
    return SpecialPieces(*numbers.values())


def encode_vocabulary(
    vocabulary: pa.StringArray | Sequence[str], tokenizer: Any, *, lowercase: bool = False
) -> tuple[Int32, Int64]:
    """Returns the pieces of each surface by itself, ``(pieces,)``, and their offsets.

    A surface that yields no piece (a lone joiner, say) gets the unknown piece, so that every token
    has a first and a last piece of its own. A special piece never comes out of text.

    Args:
        vocabulary: ``(surfaces,)`` distinct words.
        tokenizer: of transformers.
        lowercase: lower-case what the tokenizer sees (METHOD §3).
    """
    words = vocabulary.to_pylist() if isinstance(vocabulary, pa.Array) else list(vocabulary)
    if lowercase:
        words = [word.lower() for word in words]
    special = special_pieces(tokenizer)
    lengths = np.empty(len(words), dtype=np.int64)
    parts = []
    for start in range(0, len(words), _BATCH):
        rows = tokenizer(
            words[start : start + _BATCH],
            add_special_tokens=False,
            # A tokenizer file may switch these on for all calls.
            padding=False,
            truncation=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )["input_ids"]
        rows = [row or [special.unknown] for row in rows]
        lengths[start : start + len(rows)] = [len(row) for row in rows]
        parts.append(np.fromiter((p for row in rows for p in row), dtype=np.int32))
    pieces = np.concatenate(parts) if parts else np.empty(0, np.int32)
    # "<s>" as a word would come out as the piece that begins a sentence.
    forbidden = np.setdiff1d(np.array(tokenizer.all_special_ids), [special.unknown])
    pieces[np.isin(pieces, forbidden)] = special.unknown
    return pieces, np.concatenate(([0], np.cumsum(lengths)))


def encode_sentences(
    tokens: TokenTable, tokenizer: Any, *, lowercase: bool = False, max_pieces: int = 512
) -> EncodedSentences:
    """Returns the sentences as pieces.

    Args:
        tokens: the sentences' tokens.
        tokenizer: of transformers.
        lowercase: lower-case what the tokenizer sees.
        max_pieces: pieces of the encoder's window, the two special ones included. A word with
            more is cut to what fits, and counted.
    """
    assert max_pieces > 2, "a window must hold the special pieces and one more"
    flat, offsets = encode_vocabulary(tokens.vocabulary, tokenizer, lowercase=lowercase)
    most = max_pieces - 2
    lengths = np.diff(offsets)
    too_long = lengths > most
    num_cut = 0
    if too_long.any():
        num_cut = int(too_long[tokens.token].sum())
        within = np.arange(len(flat)) - np.repeat(offsets[:-1], lengths)
        flat = flat[within < most]
        lengths = np.minimum(lengths, most)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
    positions, ends = ragged_positions(offsets, tokens.token)
    piece_offsets = ends[tokens.offsets]
    base = np.repeat(piece_offsets[:-1], tokens.lengths)
    return EncodedSentences(
        flat[positions],
        piece_offsets,
        (ends[:-1] - base).astype(np.int32),
        (ends[1:] - 1 - base).astype(np.int32),
        tokens.offsets.astype(np.int64, copy=False),
        special_pieces(tokenizer),
        num_cut,
    )
