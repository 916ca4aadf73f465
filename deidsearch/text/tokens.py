"""The one tokeniser and the one folded key, for notes and for dictionary entries alike.

Source: METHOD §1.5 and §3 (Laursen et al. 2022, §3.1).

A token is a maximal run of letters, digits and combining marks; every other non-blank character
is a token by itself, except that a run of hyphens, or of underscores, is one token. The rule looks
at no context, so an entry and its occurrence in a note are always cut in the same places.
"""

from __future__ import annotations

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
# Texts are joined by this: a blank, so that no token runs over two texts.
_SEPARATOR = "\n"
# Characters cut at once: what is worked on stays in the processor's cache, and memory bounded.
_BLOCK_CHARS = 1 << 20


# The class of each code point, by pages of 256 that are filled when one of their characters occurs:
# a text uses a handful of pages, and to ask for every code point takes a quarter of a second.
_CLASSES: npt.NDArray[np.uint8] = np.full(0x110000, _SYMBOL, dtype=np.uint8)
_filled_pages: set[int] = set()


def _character_classes(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """Returns the class of each of the code points."""
    wide = codes[codes > 0xFF]
    pages = np.flatnonzero(np.bincount(wide >> 8)).tolist() if len(wide) else []
    for page in {0, *pages} - _filled_pages:
        for code in range(page << 8, (page + 1) << 8):
            _CLASSES[code] = _class_of(chr(code))
        _filled_pages.add(page)
    found: npt.NDArray[np.uint8] = _CLASSES.take(codes)
    return found


def _class_of(character: str) -> int:
    if character in _INVISIBLE_BLANK:
        return _BLANK
    if character in _INSIDE_WORDS:
        return _WORD
    if character == "-":
        return _HYPHEN
    if character == "_":
        return _UNDERSCORE
    category = unicodedata.category(character)
    if category[0] in "LNM":
        return _WORD
    return _BLANK if category[0] == "Z" or category == "Cc" else _SYMBOL


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

    Many texts are cut at once: joined, classified by code point, and cut where the class changes.
    Surfaces are dictionary-encoded by Arrow straight from the text's UTF-8 buffer.
    """
    if isinstance(texts, (pa.Array, pa.ChunkedArray)):
        texts = texts.to_pylist()
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    total = np.cumsum(lengths)
    tables, first = [], 0
    while first < len(texts):
        done = int(total[first - 1]) if first else 0
        stop = int(np.searchsorted(total, done + _BLOCK_CHARS, side="right"))
        stop = max(stop, first + 1)
        tables.append(_tokenise_block(texts[first:stop], lengths[first:stop]))
        first = stop
    if not tables:
        zero = np.empty(0, np.int32)
        return TokenTable(pa.array([], pa.string()), zero, zero, zero, np.zeros(1, np.int64))
    return concatenate(tables)


def _tokenise_block(texts: Sequence[str], lengths: npt.NDArray[np.int64]) -> TokenTable:
    joined = _SEPARATOR.join(texts)
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    text_start = np.concatenate(([0], np.cumsum(lengths + 1)))[:-1]

    classes = _character_classes(codes)
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

    token, vocabulary = _encode_surfaces(joined, codes, bounds, is_token)
    runs = np.isin(kinds[is_token], (_HYPHEN, _UNDERSCORE)) & (end - start > 1)
    if runs.any():
        token, vocabulary = _shorten_runs(token, vocabulary)
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
    is_token: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.int32], pa.StringArray]:
    """Returns the number of each token's surface, ``(tokens,)``, and the surfaces.

    The pieces between bounds (tokens and the blanks between them) tile the text, which is just
    what an Arrow string array is: a buffer and offsets. So they are encoded without a copy.
    """
    if not len(codes):
        return np.empty(0, np.int32), pa.array([], pa.string())
    try:
        raw = joined.encode("utf-8")
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8.
        is_surrogate = (codes >= 0xD800) & (codes <= 0xDFFF)
        joined = np.where(is_surrogate, np.uint32(0xFFFD), codes).tobytes().decode("utf-32-le")
        raw = joined.encode("utf-8")
    byte_bounds = bounds
    if len(raw) > len(codes):
        # A character begins at each byte that is no continuation (10xxxxxx).
        starts = np.flatnonzero((np.frombuffer(raw, np.uint8) & 0xC0) != 0x80)
        byte_bounds = np.append(starts, len(raw))[bounds]
    is_small = len(raw) < 1 << 31
    kind = pa.StringArray if is_small else pa.LargeStringArray
    byte_bounds = byte_bounds.astype(np.int32 if is_small else np.int64)
    pieces = kind.from_buffers(len(bounds) - 1, pa.py_buffer(byte_bounds), pa.py_buffer(raw))
    # Arrow's own allocator gives memory back at once, and fetching it anew takes a third as long
    # as the work.
    encoded = pc.dictionary_encode(pieces, memory_pool=pa.system_memory_pool())
    number = encoded.indices.to_numpy(zero_copy_only=False)[is_token]
    return _only_used(number, encoded.dictionary.cast(pa.string()))


def _shorten_runs(
    number: npt.NDArray[np.int32], surfaces: pa.StringArray
) -> tuple[npt.NDArray[np.int32], pa.StringArray]:
    """Returns numbers and surfaces where a run of hyphens or underscores is a single one."""
    surfaces = pc.replace_substring_regex(surfaces, "^(?:-+)$", "-")
    surfaces = pc.replace_substring_regex(surfaces, "^(?:_+)$", "_")
    merged = surfaces.dictionary_encode()
    merged_number = merged.indices.to_numpy(zero_copy_only=False)
    return _only_used(merged_number[number], merged.dictionary)


def _only_used(
    number: npt.NDArray[np.int32], surfaces: pa.StringArray
) -> tuple[npt.NDArray[np.int32], pa.StringArray]:
    """Returns numbers and surfaces without those that no token has (blanks, runs)."""
    used = np.zeros(len(surfaces), dtype=bool)
    used[number] = True
    renumber = np.cumsum(used, dtype=np.int32) - 1
    return renumber[number].astype(np.int32), surfaces.filter(pa.array(used))


def fold(text: str, fold_accents: bool = False) -> str:
    """Returns the folded key of a token: NFC, case folded, white-space runs as one blank.

    Args:
        text: a token or an entry.
        fold_accents: drop combining marks too ("garcía" -> "garcia"); æ, ø, ß stay letters.

    >>> fold("Straße"), fold("GARCÍA", fold_accents=True)
    ('strasse', 'garcia')
    """
    return " ".join(_fold_characters(text, fold_accents).split())


def _fold_characters(text: str, fold_accents: bool) -> str:
    if text.isascii():
        return text.casefold()
    # NFC before and after: folding can compose anew (İ -> i + U+0307).
    for character in _INSIDE_WORDS:
        text = text.replace(character, "")
    folded = unicodedata.normalize("NFC", text).casefold()
    folded = unicodedata.normalize("NFC", folded)
    if fold_accents:
        parts = unicodedata.normalize("NFD", folded)
        marks = {ord(c): None for c in set(parts) if unicodedata.category(c) == "Mn"}
        folded = unicodedata.normalize("NFC", parts.translate(marks))
    return folded


def fold_vocabulary(vocabulary: pa.StringArray, fold_accents: bool = False) -> pa.StringArray:
    """Returns the folded key of each surface, ``(surfaces,)``, each folded once."""
    ascii_only = _is_ascii(vocabulary)
    lowered = pc.ascii_lower(vocabulary)
    rest = np.flatnonzero(~ascii_only)
    if not len(rest):
        return lowered
    surfaces = vocabulary.take(pa.array(rest)).to_pylist()
    # No rule of folding looks over a line break, so all are folded as one text. That holds while
    # no surface has a blank of its own, as tokens don't.
    text = _fold_characters("\n".join(surfaces), fold_accents)
    folded = text.split("\n")
    if len(folded) != len(surfaces) or text.split() != [key for key in folded if key]:
        folded = [fold(surface, fold_accents) for surface in surfaces]
    return pc.replace_with_mask(lowered, pa.array(~ascii_only), pa.array(folded, pa.string()))


def is_word(vocabulary: pa.StringArray) -> npt.NDArray[np.bool_]:
    """Returns which surfaces hold a letter or digit, ``(surfaces,)``."""
    found = pc.match_substring_regex(vocabulary, "[0-9A-Za-z]").to_numpy(zero_copy_only=False)
    words: npt.NDArray[np.bool_] = found.copy()
    # Not by a regular expression: Arrow's Unicode is of another version than the tokeniser's.
    for place in np.flatnonzero(~words & ~_is_ascii(vocabulary)).tolist():
        surface = vocabulary[place].as_py()
        words[place] = any(unicodedata.category(character)[0] in "LN" for character in surface)
    return words


def _is_ascii(vocabulary: pa.StringArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.string_is_ascii(vocabulary).to_numpy(zero_copy_only=False)
    return found
