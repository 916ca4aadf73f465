"""Matching in one text at a time: an Aho-Corasick automaton over folded, padded tokens.

Where notes come one by one (de-identifying), a walk over arrays has nothing to gain; this finds the
same matches as the trie does (METHOD §4).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from deidsearch.annotate.matches import select_leftmost_longest
from deidsearch.errors import MissingExtraError
from deidsearch.files import atomic_dir
from deidsearch.text.tokens import fold_vocabulary, tokenise

if TYPE_CHECKING:
    from deidsearch.store.dictionaries import Dictionary

_AUTOMATON, _LENGTHS, _FOLD = "automaton.bin", "num_tokens.npy", "fold_accents.npy"
# A token that folds to nothing still takes a place; no other token folds to this.
_NOTHING = "\0"


@dataclass(frozen=True, slots=True)
class TextMatch:
    """An identifier in a text: half-open code points, and its row in the dictionary."""

    start_char: int
    end_char: int
    identifier: int


class TextMatcher:
    """Finds a dictionary's identifiers in single texts.

    Args:
        dictionary: the identifiers; None only when loading.
        fold_accents: how the dictionary was folded.

    With "hans jensen" as entry 7, ``find("Hos Hans  Jensen")`` gives ``TextMatch(4, 16, 7)``.
    """

    def __init__(self, dictionary: Dictionary, fold_accents: bool = False) -> None:
        keys = dictionary.token_key.to_pylist()
        tokens = np.asarray(dictionary.tokens).tolist()
        offsets = np.asarray(dictionary.offsets).tolist()
        automaton = _library().Automaton(_library().STORE_INTS)
        for number, (first, last) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
            if first < last:
                automaton.add_word(_padded(keys[token] for token in tokens[first:last]), number)
        # An automaton without words refuses to search.
        self._automaton: Any = automaton if len(automaton) else None
        if self._automaton is not None:
            automaton.make_automaton()
        ends = np.asarray(dictionary.offsets, dtype=np.int64)
        self._num_tokens: npt.NDArray[np.int64] = ends[1:] - ends[:-1]
        self._fold_accents = fold_accents

    def find(self, text: str, all: bool = False) -> list[TextMatch]:
        """Returns the leftmost-longest matches in a text, in order.

        Args:
            text: any text; white-space runs, line breaks included, part tokens and are alike.
            all: return every occurrence, overlapping and nested ones too.
        """
        table = tokenise([text])
        if self._automaton is None or not table.num_tokens:
            return []
        folded = fold_vocabulary(table.vocabulary, self._fold_accents).to_pylist()
        words = [folded[number] for number in table.token.tolist()]
        # Where each token's padded form ends, so that a hit's last character names its token.
        widths = [len(word or _NOTHING) + 2 for word in words]
        ends = np.cumsum(widths)
        hits = list(self._automaton.iter(_padded(words)))
        if not hits:
            return []
        last_char, identifier = np.array(hits, dtype=np.int64).T
        end = np.searchsorted(ends, last_char + 1) + 1
        start = end - self._num_tokens[identifier]
        order = np.lexsort((end, start))
        start, end, identifier = start[order], end[order], identifier[order]
        if not all:
            taken = select_leftmost_longest(start, end)
            start, end, identifier = start[taken], end[taken], identifier[taken]
        spans = zip(
            table.start_char[start].tolist(), table.end_char[end - 1].tolist(),
            identifier.tolist(), strict=True,
        )  # fmt: skip
        return [TextMatch(*span) for span in spans]

    def save(self, folder: Path | str) -> Path:
        """Returns the folder that `load` reads (the library's own format, no pickle)."""
        with atomic_dir(folder) as temporary:
            if self._automaton is not None:
                self._automaton.save(str(temporary / _AUTOMATON))
            np.save(temporary / _LENGTHS, self._num_tokens, allow_pickle=False)
            np.save(temporary / _FOLD, np.array(self._fold_accents), allow_pickle=False)
        return Path(folder)

    @classmethod
    def load(cls, folder: Path | str) -> TextMatcher:
        """Returns the matcher saved in a folder."""
        folder = Path(folder)
        self = cls.__new__(cls)
        file = folder / _AUTOMATON
        # Numbers need no reading function, but the library asks for one.
        self._automaton = _library().load(str(file), int) if file.exists() else None
        self._num_tokens = np.load(folder / _LENGTHS, allow_pickle=False)
        self._fold_accents = bool(np.load(folder / _FOLD, allow_pickle=False))
        return self


def _padded(words: Any) -> str:
    # A separator on both sides of every token, doubled between two: a match that ends where the
    # next one starts shares none with it, and no match begins or ends inside a token.
    return "".join(f" {word or _NOTHING} " for word in words)


def _library() -> Any:
    try:
        import ahocorasick
    except ImportError:
        raise MissingExtraError("pyahocorasick", "apply") from None
    return ahocorasick
