"""The occurrences of identifiers in sentences, columnar, and which of them are annotated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deidsearch.files import load_arrays, save_arrays

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_COLUMNS = ("sentence", "start_token", "end_token", "identifier", "selected")


@dataclass(frozen=True, eq=False)
class Matches:
    """Every occurrence of every identifier, sorted by (sentence, start_token, end_token).

    Attributes:
        sentence: int32 ``(matches,)``, position of the sentence in its token table.
        start_token: int32 ``(matches,)``, first token within the sentence.
        end_token: int32 ``(matches,)``, one past the last token.
        identifier: int32 ``(matches,)``, row of the dictionary.
        selected: bool ``(matches,)``, True for the leftmost-longest matches, which do not overlap
            and are the ones annotated; the others are only counted.
        num_sentences: sentences searched, with and without a match.
    """

    sentence: Int32
    start_token: Int32
    end_token: Int32
    identifier: Int32
    selected: Bool
    num_sentences: int

    def __len__(self) -> int:
        return len(self.sentence)

    def until(self, num_sentences: int) -> Matches:
        """Returns the matches of the first sentences, without a copy.

        Args:
            num_sentences: how many sentences; more than there are means all.
        """
        num_sentences = min(max(int(num_sentences), 0), self.num_sentences)
        # A needle of the column's own type: any other has the whole column converted.
        stop = int(np.searchsorted(self.sentence, np.int32(num_sentences)))
        return Matches(
            self.sentence[:stop],
            self.start_token[:stop],
            self.end_token[:stop],
            self.identifier[:stop],
            self.selected[:stop],
            num_sentences,
        )

    def take(self, index: npt.NDArray[Any]) -> Matches:
        """Returns the rows of a boolean mask or of ascending positions, same sentences."""
        return Matches(
            self.sentence[index],
            self.start_token[index],
            self.end_token[index],
            self.identifier[index],
            self.selected[index],
            self.num_sentences,
        )

    def save(self, folder: Path | str) -> Path:
        """Returns the folder, which holds one array file per column."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        return save_arrays(folder, num_sentences=np.array([self.num_sentences]), **columns)

    @classmethod
    def load(cls, folder: Path | str, mmap: bool = True) -> Matches:
        """Returns the matches saved in a folder, mapped read-only unless ``mmap`` is false."""
        arrays = load_arrays(folder, mmap=mmap)
        columns = {name: arrays[name] for name in _COLUMNS}
        return cls(**columns, num_sentences=int(arrays["num_sentences"][0]))


def join_matches(parts: Sequence[Matches]) -> Matches:
    """Returns the matches of consecutive blocks of sentences as one table."""
    if len(parts) == 1:
        return parts[0]
    first, shifted = 0, [np.empty(0, np.int32)]
    for part in parts:
        shifted.append(part.sentence + np.int32(first))
        first += part.num_sentences
    return Matches(
        np.concatenate(shifted),
        np.concatenate([np.empty(0, np.int32), *(part.start_token for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.end_token for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.identifier for part in parts)]),
        np.concatenate([np.empty(0, np.bool_), *(part.selected for part in parts)]),
        first,
    )


def select_leftmost_longest(start: Int64, end: Int64) -> Bool:
    """Returns which matches a reader from left to right takes, ``(matches,)``.

    At each place the longest match is taken and reading goes on at its end.

    Args:
        start: int64 ``(matches,)`` positions in all the text, ascending; among equal ones the
            ends ascend. Matches of different sentences must not overlap.
        end: int64 ``(matches,)``, half-open.

    >>> select_leftmost_longest(np.array([0, 0, 1, 2]), np.array([1, 2, 3, 3])).tolist()
    [False, True, False, True]
    """
    selected = np.zeros(len(start), dtype=np.bool_)
    if not len(start):
        return selected
    longest = np.flatnonzero(np.append(start[1:] != start[:-1], True))
    start, end = start[longest], end[longest]
    reach = np.maximum.accumulate(end)
    # Whatever starts at or behind everything before it is surely reached, and opens a cluster.
    opens = np.append(True, start[1:] >= reach[:-1])
    taken = opens.copy()
    # Inside a cluster the reader jumps from match to match: all clusters jump at once.
    cluster_end = np.append(np.flatnonzero(opens)[1:], len(start))
    sizes = np.diff(np.append(np.flatnonzero(opens), len(start)))
    frontier = np.flatnonzero(opens)[sizes > 1]
    limit = cluster_end[sizes > 1]
    while len(frontier):
        frontier = np.searchsorted(start, end[frontier])
        inside = frontier < limit
        frontier, limit = frontier[inside], limit[inside]
        taken[frontier] = True
    selected[longest[taken]] = True
    return selected
