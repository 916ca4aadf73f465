"""From matches and tags to annotated sentences, under all ceilings at once.

Source: METHOD §5, postprocessing 1-3; Laursen et al. 2022, §3.3. Each match carries one mask per
type and one for the non-identifier tag; bit i tells what holds at the i-th ceiling, so that one
pass of mask operations serves every ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deidsearch.annotate.ceilings import Rules, Tags, Uint64
from deidsearch.annotate.initials import Initials, find_initials
from deidsearch.annotate.matches import Bool, Int32, Int64, Matches
from deidsearch.annotate.neighbours import resolve_neighbours, union
from deidsearch.annotate.ratios import Float64
from deidsearch.records import SpanTable
from deidsearch.text.tokens import TokenTable

if TYPE_CHECKING:
    from deidsearch.store.dictionaries import Dictionary


@dataclass(frozen=True, eq=False)
class AmbiguousSpans:
    """Matches that stay ambiguous at one ceiling, in the order of the text.

    Attributes:
        sentence, start_token, end_token: int32 ``(spans,)``.
        types: uint64 ``(spans,)``, bit t set where the match has type t.
        non_identifier: bool ``(spans,)``, True where it is tagged non-identifier too.
    """

    sentence: Int32
    start_token: Int32
    end_token: Int32
    types: Uint64
    non_identifier: Bool

    def __len__(self) -> int:
        return len(self.sentence)


@dataclass(frozen=True, eq=False)
class Annotation:
    """The annotated sentences under each of up to 64 ceilings.

    Attributes:
        types: the identifier types.
        num_sentences: sentences annotated, with and without a match.
        num_ceilings: how many bits of the masks mean something.
        has_mention: uint64 ``(sentences,)``, bit i set where a mention stands at ceiling i.
        has_ambiguous: uint64 ``(sentences,)``, bit i set where a match stays ambiguous.
        matches: the leftmost-longest matches.
        masks: uint64 ``(types, matches)``, the types of each after postprocessing.
        single: uint64 ``(types, matches)``, the same where it is the only tag.
        is_mention: uint64 ``(matches,)``, bit i set where a match is unambiguous.
        is_ambiguous: uint64 ``(matches,)``, bit i set where a match stays ambiguous.
        non_identifier: uint64 ``(matches,)``, the non-identifier tag after postprocessing.
        touches: bool ``(matches,)``, True where a match begins right behind the one before it.
        initials: the stretches of initials that became part of a name.
        rates: float64 ``(identifiers, types)``, the population rates.
    """

    types: tuple[str, ...]
    num_sentences: int
    num_ceilings: int
    has_mention: Uint64
    has_ambiguous: Uint64
    matches: Matches
    masks: Uint64
    single: Uint64
    is_mention: Uint64
    is_ambiguous: Uint64
    non_identifier: Uint64
    touches: Bool
    initials: Initials
    rates: Float64

    def mentions(self, ceiling: int) -> SpanTable:
        """Returns the unambiguous mentions at a ceiling, initials joined and neighbours merged."""
        found, initials = self.matches, self.initials
        opens, closes = self._edges
        first = np.flatnonzero(self._holds(opens, ceiling))
        last = np.flatnonzero(self._holds(closes, ceiling))
        label = self._only_type[first]
        several = np.flatnonzero(label < 0)
        label[several] = self._labels(first[several], ceiling)
        start = found.start_token[first]
        joined = np.flatnonzero(initials.mask & self._bit(ceiling))
        if len(joined) and len(first):
            # The name begins with its initials, unless it goes on a name before them.
            row = initials.match[joined]
            place = np.minimum(np.searchsorted(first, row), len(first) - 1)
            is_first = first[place] == row
            start[place[is_first]] = initials.start_token[joined[is_first]]
        return SpanTable(found.sentence[first], start, found.end_token[last], label)

    def ambiguous(self, ceiling: int) -> AmbiguousSpans:
        """Returns the matches that stay ambiguous at a ceiling."""
        rows = self._ambiguous_rows(ceiling)
        bit = self._bit(ceiling)
        types = np.zeros(len(rows), dtype=np.uint64)
        for column, mask in enumerate(self.masks):
            types |= ((mask[rows] & bit) != 0).astype(np.uint64) << np.uint64(column)
        found = self.matches
        return AmbiguousSpans(
            found.sentence[rows],
            found.start_token[rows],
            found.end_token[rows],
            types,
            (self.non_identifier[rows] & bit) != 0,
        )

    def baseline(
        self, ceiling: int, ambiguous: Literal["non_identifier", "identifier"] = "non_identifier"
    ) -> SpanTable:
        """Returns what the dictionary alone finds at a ceiling (METHOD §9).

        Args:
            ceiling: number of the ceiling.
            ambiguous: what a match that stays ambiguous counts as. "identifier": its type of
                highest population rate, ties by the order of the types; it then merges with its
                neighbours.
        """
        rows, labels = self._unambiguous(ceiling)
        if ambiguous == "identifier":
            more = self._ambiguous_rows(ceiling)
            has = (self.masks[:, more] & self._bit(ceiling)) != 0
            rates = np.where(has.T, self.rates[self.matches.identifier[more]], -1.0)
            rows = np.concatenate([rows, more])
            labels = np.concatenate([labels, rates.argmax(axis=1).astype(np.int16)])
            order = np.argsort(rows)
            rows, labels = rows[order], labels[order]
        return self._merged(ceiling, rows, labels)

    @cached_property
    def _edges(self) -> tuple[Uint64, Uint64]:
        """Where mentions open and close, uint64 ``(matches,)`` each, bit i set at ceiling i.

        A mention goes on where an unambiguous match touches one of the same type, or where its
        initials do.
        """
        opens, closes = self.is_mention.copy(), self.is_mention.copy()

        def join(left: Int64, right: Int64, where: Uint64) -> None:
            same = where & union(self.single[:, left] & self.single[:, right])
            np.bitwise_and.at(opens, right, ~same)
            np.bitwise_and.at(closes, left, ~same)

        right = np.flatnonzero(self.touches & (self.is_mention != 0))
        join(right - 1, right, self.is_mention[right])
        beside = self.initials.before >= 0
        join(self.initials.before[beside], self.initials.match[beside], self.initials.mask[beside])
        return opens, closes

    @cached_property
    def _only_type(self) -> npt.NDArray[np.int16]:
        """The type of which a match can be a mention, int16 ``(matches,)``; -1 if it hangs on the
        ceiling."""
        only = np.zeros(len(self.matches), dtype=np.int16)
        seen = self.single[0] != 0
        for column, mask in enumerate(self.single[1:], start=1):
            has = mask != 0
            only[has] = column
            only[has & seen] = -1
            seen |= has
        return only

    def _labels(self, rows: Int64, ceiling: int) -> npt.NDArray[np.int16]:
        """Returns the types of unambiguous matches at a ceiling, ``(rows,)``."""
        bit = self._bit(ceiling)
        labels = np.zeros(len(rows), dtype=np.int16)
        for column, mask in enumerate(self.single[1:], start=1):
            labels[(mask[rows] & bit) != 0] = column
        return labels

    def _holds(self, masks: Uint64, ceiling: int) -> Bool:
        """Returns where the masks have the ceiling's bit, ``(matches,)``."""
        self._bit(ceiling)  # it exists
        # Its byte alone is read: an eighth of the memory.
        byte = masks.astype("<u8", copy=False).view(np.uint8)[ceiling >> 3 :: 8]
        held: Bool = (byte & np.uint8(1 << (ceiling & 7))) != 0
        return held

    def _bit(self, ceiling: int) -> np.uint64:
        if not 0 <= ceiling < self.num_ceilings:
            raise IndexError(f"ceiling {ceiling} of {self.num_ceilings}")
        return np.uint64(1 << ceiling)

    def _unambiguous(self, ceiling: int) -> tuple[Int64, npt.NDArray[np.int16]]:
        """Returns the unambiguous matches and their types, ``(rows,)`` each."""
        rows = np.flatnonzero(self._holds(self.is_mention, ceiling))
        return rows, self._labels(rows, ceiling)

    def _ambiguous_rows(self, ceiling: int) -> Int64:
        return np.flatnonzero(self._holds(self.is_ambiguous, ceiling))

    def _merged(self, ceiling: int, rows: Int64, labels: npt.NDArray[np.int16]) -> SpanTable:
        """Returns the spans of labelled matches, with initials, neighbours merged.

        Args:
            ceiling: number of the ceiling.
            rows: ``(rows,)`` ascending matches.
            labels: int16 ``(rows,)``, their types.
        """
        found, initials = self.matches, self.initials
        opens = np.ones(len(rows), dtype=np.bool_)
        opens[1:] = (
            (rows[1:] - rows[:-1] != 1) | ~self.touches[rows[1:]] | (labels[1:] != labels[:-1])
        )
        start = found.start_token[rows]
        joined = np.flatnonzero(initials.mask & self._bit(ceiling))
        if len(joined):
            # The name begins with its initials, and may so touch another name before them.
            place = np.searchsorted(rows, initials.match[joined])
            start[place] = initials.start_token[joined]
            before = np.maximum(place - 1, 0)
            opens[place] = (
                (place == 0)
                | (found.sentence[rows[before]] != found.sentence[rows[place]])
                | (found.end_token[rows[before]] != start[place])
                | (labels[before] != labels[place])
            )
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(rows))[: len(first)] - 1
        return SpanTable(
            found.sentence[rows[first]], start[first], found.end_token[rows[last]], labels[first]
        )


def annotate(
    matches: Matches,
    tokens: TokenTable,
    key: pa.StringArray,
    dictionary: Dictionary,
    tags: Tags,
    rules: Rules,
) -> Annotation:
    """Returns the annotation of the sentences under every ceiling of the tags.

    Args:
        matches: the matches of the first ``matches.num_sentences`` sentences of the table.
        tokens: the sentences.
        key: ``(surfaces,)`` folded key of each surface.
        dictionary: the identifiers matched.
        tags: their tags under each ceiling.
        rules: the rules, for the initials.
    """
    chosen = matches.take(np.flatnonzero(matches.selected))
    masks = np.ascontiguousarray(tags.types[chosen.identifier].T)
    tagged = tags.non_identifier[chosen.identifier]
    touches = _touches_left(chosen)
    single = resolve_neighbours(masks, tagged, touches)
    is_mention = union(single)
    is_ambiguous = union(masks) & ~is_mention

    initials = Initials.none()
    if rules.initials != "off" and rules.name_type in dictionary.types:
        initials = find_initials(
            chosen,
            tokens,
            key,
            is_mention | is_ambiguous,
            single[dictionary.types.index(rules.name_type)],
            dictionary.types.index(rules.name_type),
            extended=rules.initials == "extended",
        )
    return Annotation(
        types=dictionary.types,
        num_sentences=matches.num_sentences,
        num_ceilings=tags.num_ceilings,
        has_mention=_per_sentence(is_mention, chosen),
        has_ambiguous=_per_sentence(is_ambiguous, chosen),
        matches=chosen,
        masks=masks,
        single=single,
        is_mention=is_mention,
        is_ambiguous=is_ambiguous,
        non_identifier=tagged,
        touches=touches,
        initials=initials,
        rates=np.asarray(dictionary.rates),
    )


def _touches_left(found: Matches) -> Bool:
    """Returns where a match begins right behind the one before it, ``(matches,)``."""
    touches = np.zeros(len(found), dtype=np.bool_)
    touches[1:] = (found.sentence[1:] == found.sentence[:-1]) & (
        found.start_token[1:] == found.end_token[:-1]
    )
    return touches


def _per_sentence(masks: Uint64, found: Matches) -> Uint64:
    """Returns the union of the masks of each sentence's matches, ``(sentences,)``."""
    result = np.zeros(found.num_sentences, dtype=np.uint64)
    if len(found):
        first = np.flatnonzero(np.append(True, found.sentence[1:] != found.sentence[:-1]))
        result[found.sentence[first]] = np.bitwise_or.reduceat(masks, first)
    return result
