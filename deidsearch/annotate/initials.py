"""Initials that join the names around them (METHOD §5, postprocessing 2; CASES R04)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deidsearch.annotate.ceilings import Uint64
from deidsearch.annotate.matches import Int32, Int64, Matches
from deidsearch.text.tokens import TokenTable

_LETTER, _SHORT, _UPPER, _STOP = 1, 2, 4, 8
_MAX_UNITS = 3
# Forms of address of two or three letters: they stand before names and are none.
TITLES = frozenset("dr dra hr fr fru frk mr mrs ms sr sra don dña dna lic ing mag st".split())


@dataclass(frozen=True, eq=False)
class Initials:
    """Stretches of initials that run up to a name match and become part of its mention.

    Attributes:
        match: int64 ``(stretches,)``, the match the stretch ends at.
        before: int64 ``(stretches,)``, the match that ends where the stretch begins, or -1.
        start_token: int32 ``(stretches,)``, its first token within the sentence.
        mask: uint64 ``(stretches,)``, bit i set where it is part of the name at ceiling i.
        label: index of the type whose initials these are.
    """

    match: Int64
    before: Int64
    start_token: Int32
    mask: Uint64
    label: int

    @classmethod
    def none(cls) -> Initials:
        """Returns no stretches."""
        none = np.empty(0, np.int64)
        return cls(none, none, np.empty(0, np.int32), np.empty(0, np.uint64), 0)


def _kinds(tokens: TokenTable, key: pa.StringArray) -> npt.NDArray[np.uint8]:
    """Returns what each surface can be in a stretch of initials, as flags, ``(surfaces,)``."""
    surfaces = tokens.vocabulary

    def flag(pattern: str, value: int) -> npt.NDArray[np.uint8]:
        found = pc.match_substring_regex(surfaces, pattern).to_numpy(zero_copy_only=False)
        flags: npt.NDArray[np.uint8] = found.astype(np.uint8) * np.uint8(value)
        return flags

    kinds = flag(r"^\pL\pM*$", _LETTER) | flag(r"^(?:\p{Lu}|\p{Lt})", _UPPER)
    kinds |= flag(r"^\.$", _STOP)
    title = pc.is_in(key, value_set=pa.array(sorted(TITLES))).to_numpy(zero_copy_only=False)
    short = flag(r"^(?:\p{Lu}|\p{Lt})\pM*(?:\pL\pM*){1,2}$", _SHORT)
    return kinds | np.where(title, np.uint8(0), short)


def find_initials(
    found: Matches,
    tokens: TokenTable,
    key: pa.StringArray,
    typed: Uint64,
    name: Uint64,
    label: int,
    extended: bool,
) -> Initials:
    """Returns the stretches of initials before name matches.

    "paper": one single letter, with or without a full stop, between two names. "extended": up to
    three in a row, between two names or before one. Words of two or three letters serve if they
    begin with a capital in the original text and are in no match of their own ("Per", "Dr" do
    not). Before a single name a lone letter serves if it is a capital or has a full stop, since
    "a" and "y" are words.

    Args:
        found: the leftmost-longest matches.
        tokens: the sentences.
        key: ``(surfaces,)`` folded keys.
        typed: uint64 ``(matches,)``, set where a match has a type; its tokens are no initials.
        name: uint64 ``(matches,)``, set where a match is a name and nothing else.
        label: index of the type of names.
        extended: as above.
    """
    rows = np.flatnonzero((name != 0) & (found.start_token > 0))
    if not len(rows):
        return Initials.none()
    kind = _kinds(tokens, key)
    wanted = _LETTER | _STOP | (_SHORT if extended else 0)
    before = tokens.offsets[found.sentence[rows]] + found.start_token[rows] - 1
    rows = rows[(kind[tokens.token[before]] & wanted) != 0]
    if not len(rows):
        return Initials.none()

    match_start = tokens.offsets[found.sentence] + found.start_token
    match_end = tokens.offsets[found.sentence] + found.end_token

    def owner(position: Int64) -> tuple[Int64, npt.NDArray[np.bool_]]:
        index = np.maximum(np.searchsorted(match_start, position, side="right") - 1, 0)
        return index, (match_start[index] <= position) & (position < match_end[index])

    sentence_start = tokens.offsets[found.sentence[rows]]
    edge = match_start[rows]
    loose, strict = name[rows], name[rows]
    reached = []
    for _ in range(_MAX_UNITS if extended else 1):
        # One unit to the left: an optional full stop, then the letters.
        last = np.maximum(edge - 1, 0)
        stop = (edge - 1 >= sentence_start) & ((kind[tokens.token[last]] & _STOP) != 0)
        letters = np.maximum(edge - 1 - stop, 0)
        flags = kind[tokens.token[letters]]
        index, covered = owner(letters)
        is_letter = (flags & _LETTER) != 0
        fits = is_letter | (((flags & _SHORT) != 0) & ~covered if extended else False)
        fits &= edge - 1 - stop >= sentence_start
        blocked = np.where(covered, typed[index], np.uint64(0))
        free = np.where(fits, ~blocked, np.uint64(0))
        loose &= free
        strict &= np.where(((flags & _UPPER) != 0) | stop, free, np.uint64(0))
        edge = np.where(fits, letters, edge)
        # Between two names: another one ends where the stretch begins.
        left = np.maximum(np.searchsorted(match_start, edge, side="left") - 1, 0)
        beside = (match_end[left] == edge) & (edge > sentence_start)
        joined = loose & np.where(beside, name[left], np.uint64(0))
        mask = joined | strict if extended else joined
        reached.append((edge - sentence_start, np.where(beside, left, -1), mask))

    matches, befores, starts, result = [], [], [], []
    longer = np.zeros(len(rows), dtype=np.uint64)
    for start, neighbour, mask in reversed(reached):
        # At each ceiling the longest stretch holds.
        rest = mask & ~longer
        longer |= mask
        some = rest != 0
        matches.append(rows[some])
        befores.append(neighbour[some])
        starts.append(start[some].astype(np.int32))
        result.append(rest[some])
    return Initials(
        np.concatenate(matches),
        np.concatenate(befores),
        np.concatenate(starts),
        np.concatenate(result),
        label,
    )
