"""The one tokeniser and the one folded key, for notes and for dictionary entries alike.

Source: METHOD §1.5 and §3 (Laursen et al. 2022, §3.1).

A token is a maximal run of letters, digits and combining marks; every other non-blank character
is a token by itself, except that a run of hyphens, or of underscores, is one token. The rule looks
at no context, so an entry and its occurrence in a note are always cut in the same places.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_BLANK, _WORD, _SYMBOL, _HYPHEN, _UNDERSCORE = range(5)
# Invisible characters: a byte order mark and a zero-width space part words without being seen;
# a soft hyphen and the joiners stand inside words and are dropped when folding.
_INVISIBLE_BLANK = "\ufeff\u200b\u2028\u2029"
_INSIDE_WORDS = "\u00ad\u200c\u200d\u2060"
_DROP_INSIDE = {ord(character): None for character in _INSIDE_WORDS}
# Texts are joined by this: a blank, so that no token runs over two texts.
_SEPARATOR = "\n"


@functools.cache
def _character_classes() -> npt.NDArray[np.uint8]:
    """Returns the class of each code point, ``(0x110000,)``, computed once per process."""
    classes = np.full(0x110000, _SYMBOL, dtype=np.uint8)
    category = unicodedata.category
    for code in range(0x110000):
        if 0xD800 <= code <= 0xDFFF:
            continue
        # Planes 4 to 13 are unassigned, 15 and 16 are private: symbols all of them.
        if code == 0x40000:
            break
        kind = category(chr(code))
        if kind[0] in "LNM":
            classes[code] = _WORD
        elif kind[0] == "Z" or kind == "Cc":
            classes[code] = _BLANK
    for character in _INVISIBLE_BLANK:
        classes[ord(character)] = _BLANK
    for character in _INSIDE_WORDS:
        classes[ord(character)] = _WORD
    classes[0xE0100:0xE01F0] = _WORD  # variation selectors, category Mn
    classes[ord("-")] = _HYPHEN
    classes[ord("_")] = _UNDERSCORE
    classes.setflags(write=False)
    return classes


@dataclass(frozen=True, eq=False)
class TokenTable:
    """The tokens of many sentences, columnar.

    Attributes:
        vocabulary: ``(surfaces,)`` distinct surface forms in their original case; a run of
            hyphens or underscores has the surface "-" or "_".
        token: int32 ``(tokens,)``, index into the vocabulary.
        start_char: int32 ``(tokens,)``, code points into the sentence's own original text.
        end_char: int32 ``(tokens,)``, half-open end of the same.
        offsets: int64 ``(sentences + 1,)``, token range of each sentence.
    """

    vocabulary: pa.StringArray
    token: npt.NDArray[np.int32]
    start_char: npt.NDArray[np.int32]
    end_char: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_tokens(self) -> int:
        return len(self.token)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens per sentence, ``(sentences,)``."""
        return np.diff(self.offsets)

    def take(self, sentences: npt.NDArray[Any]) -> TokenTable:
        """Returns the table of the chosen sentences in the order given, same vocabulary."""
        positions, offsets = ragged_positions(self.offsets, np.asarray(sentences))
        return TokenTable(
            self.vocabulary,
            self.token[positions],
            self.start_char[positions],
            self.end_char[positions],
            offsets,
        )

    def words(self) -> npt.NDArray[np.int64]:
        """Returns the number of tokens with a letter or digit per sentence, ``(sentences,)``."""
        flags = is_word(self.vocabulary)[self.token] if self.num_tokens else np.empty(0, bool)
        total = np.concatenate(([0], np.cumsum(flags, dtype=np.int64)))
        return total[self.offsets[1:]] - total[self.offsets[:-1]]


def ragged_positions(
    offsets: npt.NDArray[np.int64], rows: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the flat positions of the chosen rows of a ragged array, and their new offsets.

    Args:
        offsets: int64 ``(rows + 1,)``.
        rows: ``(chosen,)`` positions, or a boolean mask over the rows.
    """
    if rows.dtype == bool:
        rows = np.flatnonzero(rows)
    rows = rows.astype(np.int64, copy=False)
    starts = offsets[rows]
    lengths = offsets[rows + 1] - starts
    new = np.concatenate(([0], np.cumsum(lengths)))
    positions = np.arange(new[-1], dtype=np.int64) + np.repeat(starts - new[:-1], lengths)
    return positions, new


def concatenate(tables: Sequence[TokenTable]) -> TokenTable:
    """Returns one table with the sentences of all, over one merged vocabulary."""
    if len(tables) == 1:
        return tables[0]
    if not tables:
        return tokenise([])
    # Dictionary-encoding the joined vocabularies gives each surface its merged number.
    joined = pa.concat_arrays([table.vocabulary for table in tables]).dictionary_encode()
    merged = joined.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    parts, first = [], 0
    for table in tables:
        size = len(table.vocabulary)
        parts.append(merged[first : first + size][table.token])
        first += size
    lengths = np.concatenate([table.lengths for table in tables])
    return TokenTable(
        joined.dictionary,
        np.concatenate(parts),
        np.concatenate([table.start_char for table in tables]),
        np.concatenate([table.end_char for table in tables]),
        np.concatenate(([0], np.cumsum(lengths))),
    )


def tokenise(texts: Sequence[str] | pa.Array | pa.ChunkedArray) -> TokenTable:
    """Returns the tokens of the texts, one sentence per text.

    Args:
        texts: ``(sentences,)`` strings; lone surrogates are read as U+FFFD.

    All texts are cut at once: joined, classified by code point, and cut where the class changes.
    Surfaces are dictionary-encoded by Arrow straight from the text's UTF-8 buffer.
    """
    if isinstance(texts, (pa.Array, pa.ChunkedArray)):
        texts = texts.to_pylist()
    if not len(texts):
        zero = np.empty(0, np.int32)
        return TokenTable(pa.array([], pa.string()), zero, zero, zero, np.zeros(1, np.int64))
    joined = _SEPARATOR.join(texts)
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    text_start = np.concatenate(([0], np.cumsum(lengths + 1)))[:-1]

    classes = _character_classes()[codes]
    edge = np.empty(len(codes) + 1, dtype=bool)
    edge[0] = edge[-1] = True
    # A symbol is always a token by itself, so there is an edge on either side of it.
    np.not_equal(classes[1:], classes[:-1], out=edge[1:-1])
    edge[:-1] |= classes == _SYMBOL
    bounds = np.flatnonzero(edge)
    kinds = classes[bounds[:-1]] if len(codes) else classes
    is_token = kinds != _BLANK
    start = bounds[:-1][is_token]
    end = bounds[1:][is_token]

    token, vocabulary = _encode_surfaces(joined, codes, bounds, kinds, is_token)
    offsets = np.concatenate((np.searchsorted(start, text_start), [len(start)])).astype(np.int64)
    shift = np.repeat(text_start, np.diff(offsets))
    return TokenTable(
        vocabulary,
        token,
        (start - shift).astype(np.int32),
        (end - shift).astype(np.int32),
        offsets,
    )


def _encode_surfaces(
    joined: str,
    codes: npt.NDArray[np.uint32],
    bounds: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    is_token: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.int32], pa.StringArray]:
    """Returns the number of each token's surface, ``(tokens,)``, and the surfaces.

    The pieces between bounds (tokens and the blanks between them) tile the text, which is just
    what an Arrow string array is: a buffer and offsets. So they are encoded without a copy.
    """
    if not len(codes):
        return np.empty(0, np.int32), pa.array([], pa.string())
    # "surrogatepass" would make invalid UTF-8; "replace" writes one byte for a lone surrogate.
    surrogate = (codes >= 0xD800) & (codes <= 0xDFFF)
    if surrogate.any():
        codes = np.where(surrogate, np.uint32(0xFFFD), codes)
        joined = codes.tobytes().decode("utf-32-le")
    raw = joined.encode("utf-8")
    if len(raw) == len(codes):
        byte_bounds = bounds
    else:
        width = np.ones(len(codes) + 1, dtype=np.uint8)
        width[0] = 0
        tail = width[1:]
        tail += codes > 0x7F
        tail += codes > 0x7FF
        tail += codes > 0xFFFF
        byte_bounds = np.cumsum(width, dtype=np.int64)[bounds]
    pieces = pa.LargeStringArray.from_buffers(
        len(bounds) - 1, pa.py_buffer(byte_bounds.astype(np.int64)), pa.py_buffer(raw)
    )
    encoded = pieces.dictionary_encode()
    number = encoded.indices.to_numpy(zero_copy_only=False)[is_token]
    surfaces = encoded.dictionary.cast(pa.string())
    # Runs of hyphens and of underscores all carry the surface of a single one; numbers of blanks
    # and of runs fall out of use, so the vocabulary is numbered anew.
    surfaces = pc.replace_substring_regex(surfaces, "^(?:-+)$", "-")
    surfaces = pc.replace_substring_regex(surfaces, "^(?:_+)$", "_")
    merged = surfaces.dictionary_encode()
    number = merged.indices.to_numpy(zero_copy_only=False)[number]
    used = np.zeros(len(merged.dictionary), dtype=bool)
    used[number] = True
    renumber = np.cumsum(used, dtype=np.int32) - 1
    return renumber[number].astype(np.int32), merged.dictionary.filter(pa.array(used))


def fold(text: str, fold_accents: bool = False) -> str:
    """Returns the folded key of a token: NFC, case folded, white-space runs as one blank.

    Args:
        text: a token or an entry.
        fold_accents: drop combining marks too ("garcía" -> "garcia"); æ, ø, ß stay letters.

    >>> fold("Straße"), fold("GARCÍA", fold_accents=True)
    ('strasse', 'garcia')
    """
    if text.isascii():
        folded = text.casefold()
    else:
        # NFC before and after: folding can compose anew (İ -> i + U+0307).
        folded = unicodedata.normalize("NFC", text.translate(_DROP_INSIDE)).casefold()
        folded = unicodedata.normalize("NFC", folded)
        if fold_accents:
            parts = unicodedata.normalize("NFD", folded)
            folded = "".join(c for c in parts if unicodedata.category(c) != "Mn")
            folded = unicodedata.normalize("NFC", folded)
    return " ".join(folded.split())


def fold_vocabulary(vocabulary: pa.StringArray, fold_accents: bool = False) -> pa.StringArray:
    """Returns the folded key of each surface, ``(surfaces,)``, each folded once."""
    ascii_only = pc.string_is_ascii(vocabulary).to_numpy(zero_copy_only=False)
    lowered = pc.ascii_lower(vocabulary)
    rest = np.flatnonzero(~ascii_only)
    if not len(rest):
        return lowered
    folded = [fold(text, fold_accents) for text in vocabulary.take(pa.array(rest)).to_pylist()]
    return pc.replace_with_mask(lowered, pa.array(~ascii_only), pa.array(folded, pa.string()))


def is_word(vocabulary: pa.StringArray) -> npt.NDArray[np.bool_]:
    """Returns which surfaces hold a letter or digit, ``(surfaces,)``."""
    return pc.match_substring_regex(vocabulary, r"[\pL\pN]").to_numpy(zero_copy_only=False)
