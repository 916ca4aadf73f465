"""Gold mentions by what the dictionaries know of them.

Source: METHOD §9. A dictionary can't find what it doesn't list, and is unsure of what it lists as
a common word too; the model is worth its training where it is right on these two groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deidsearch.evaluate.positions import Positions
from deidsearch.text.tokens import TokenTable

Bools = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]

GROUPS = ("unambiguous", "ambiguous", "unlisted")
UNAMBIGUOUS, AMBIGUOUS, UNLISTED = range(3)


def mention_groups(
    positions: Positions,
    tokens: TokenTable,
    key: pa.StringArray,
    identifiers: pa.StringArray,
    ambiguous: Bools,
) -> npt.NDArray[np.uint8]:
    """Returns the group of each gold mention, ``(mentions,)`` index into ``GROUPS``.

    A mention is listed where it can be cut from left to right into the longest identifiers of
    any type ("anne jensen" is listed if both names are). Single letters and full stops between
    them ("anne m. jensen") need no entry. It is ambiguous if any of the identifiers is.

    Args:
        positions: where the tokens and mentions lie.
        tokens: the tokens of the set's sentences.
        key: ``(surfaces,)`` folded key of each surface of the tokens' vocabulary.
        identifiers: ``(identifiers,)`` keys of the dictionary, tokens joined by one blank.
        ambiguous: bool ``(identifiers,)``, True where it has several types or is a
            non-identifier too.
    """
    order = np.argsort(positions.token_start, kind="stable")
    first = np.searchsorted(positions.token_end[order], positions.gold_start, "right")
    last = np.searchsorted(positions.token_start[order], positions.gold_end, "left")
    words = key.take(pa.array(tokens.token[order])).to_pylist() if len(order) else []
    mentions = [words[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    # All runs of tokens of all mentions are looked up in one go; mentions are short.
    runs = sorted({run for mention in mentions for run in _runs(mention)})
    found = pc.index_in(pa.array(runs, pa.string()), identifiers.cast(pa.string()))
    listed = {
        run: bool(ambiguous[row])
        for run, row in zip(runs, found.to_pylist(), strict=True)
        if row is not None
    }
    return np.array([_group(mention, listed) for mention in mentions], dtype=np.uint8)


def _runs(mention: list[str]) -> list[str]:
    size = len(mention)
    return [" ".join(mention[a:b]) for a in range(size) for b in range(a + 1, size + 1)]


def _group(mention: list[str], listed: Mapping[str, bool]) -> int:
    """Returns the group of one mention, given which runs of tokens are listed (and ambiguous)."""
    place, is_ambiguous, num_found = 0, False, 0
    while place < len(mention):
        for end in range(len(mention), place, -1):
            is_entry_ambiguous = listed.get(" ".join(mention[place:end]))
            if is_entry_ambiguous is not None:
                is_ambiguous |= is_entry_ambiguous
                num_found += 1
                place = end
                break
        else:
            if not (mention[place] == "." or (len(mention[place]) == 1 and num_found)):
                return UNLISTED
            place += 1
    if not num_found:
        return UNLISTED
    return AMBIGUOUS if is_ambiguous else UNAMBIGUOUS


def group_scores(
    group: npt.NDArray[np.uint8], hits: Mapping[str, Bools]
) -> dict[str, dict[str, Any]]:
    """Returns per group its number of gold mentions and each system's recall on them.

    ``{"ambiguous": {"support": 40, "model": {"tp": 31, "recall": 0.775}, ...}, ...}``; recall is
    None where a group is empty.

    Args:
        group: ``(mentions,)`` index into ``GROUPS``.
        hits: per system bool ``(mentions,)``, True where the mention was found exactly.
    """
    result: dict[str, dict[str, Any]] = {}
    for code, name in enumerate(GROUPS):
        members = group == code
        support = int(members.sum())
        row: dict[str, Any] = {"support": support}
        for system, hit in hits.items():
            tp = int((hit & members).sum())
            row[system] = {"tp": tp, "recall": tp / support if support else None}
        result[name] = row
    return result
