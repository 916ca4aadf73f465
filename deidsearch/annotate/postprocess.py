"""From matches and tags to annotated sentences, under all ceilings at once.

Source: METHOD §5, postprocessing 1-3; Laursen et al. 2022, §3.3. Each match carries one mask per
type and one for the non-identifier tag; bit i tells what holds at the i-th ceiling, so that one
pass of mask operations serves every ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deidsearch.annotate.ceilings import Rules, Tags, Uint64
from deidsearch.annotate.initials import Initials, find_initials
from deidsearch.annotate.matches import Bool, Int32, Int64, Matches
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
        masks: uint64 ``(matches, types)``, the types of each after postprocessing.
        non_identifier: uint64 ``(matches,)``, the non-identifier tag after postprocessing.
        initials: the stretches of initials that became part of a name.
        preferred: int16 ``(matches, types)``, the types in order of falling population rate.
    """

    types: tuple[str, ...]
    num_sentences: int
    num_ceilings: int
    has_mention: Uint64
    has_ambiguous: Uint64
    matches: Matches
    masks: Uint64
    non_identifier: Uint64
    initials: Initials
    preferred: npt.NDArray[np.int16]

    def mentions(self, ceiling: int) -> SpanTable:
        """Returns the unambiguous mentions at a ceiling, initials joined and neighbours merged."""
        has, tagged = self._tags(ceiling)
        single = (has.sum(axis=1) == 1) & ~tagged
        return self._merged(ceiling, np.where(single, has.argmax(axis=1), -1))

    def ambiguous(self, ceiling: int) -> AmbiguousSpans:
        """Returns the matches that stay ambiguous at a ceiling."""
        has, tagged = self._tags(ceiling)
        count = has.sum(axis=1)
        rows = np.flatnonzero((count > 1) | ((count == 1) & tagged))
        types = np.zeros(len(rows), dtype=np.uint64)
        for column in range(len(self.types)):
            types |= has[rows, column].astype(np.uint64) << np.uint64(column)
        found = self.matches
        return AmbiguousSpans(
            found.sentence[rows], found.start_token[rows], found.end_token[rows], types,
            tagged[rows],
        )  # fmt: skip

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
        if ambiguous == "non_identifier":
            return self.mentions(ceiling)
        has, _ = self._tags(ceiling)
        by_rate = np.take_along_axis(has, self.preferred.astype(np.int64), axis=1)
        best = np.take_along_axis(
            self.preferred.astype(np.int64), by_rate.argmax(axis=1)[:, None], axis=1
        )[:, 0]
        return self._merged(ceiling, np.where(has.any(axis=1), best, -1))

    def _tags(self, ceiling: int) -> tuple[Bool, Bool]:
        if not 0 <= ceiling < self.num_ceilings:
            raise IndexError(f"ceiling {ceiling} of {self.num_ceilings}")
        bit = np.uint64(1 << ceiling)
        return (self.masks & bit) != 0, (self.non_identifier & bit) != 0

    def _merged(self, ceiling: int, label: npt.NDArray[np.integer]) -> SpanTable:
        """Returns the spans of labelled matches (-1: none) and initials, neighbours merged."""
        found, initials = self.matches, self.initials
        rows = np.flatnonzero(label >= 0)
        joined = np.flatnonzero(initials.mask & np.uint64(1 << ceiling))
        owner = initials.match[joined]
        sentence = np.concatenate([found.sentence[rows], found.sentence[owner]])
        start = np.concatenate([found.start_token[rows], initials.start_token[joined]])
        end = np.concatenate([found.end_token[rows], found.start_token[owner]])
        kind = np.concatenate([label[rows], np.full(len(joined), initials.label)])
        if len(joined):
            order = np.lexsort((start, sentence))
            sentence, start, end, kind = sentence[order], start[order], end[order], kind[order]
        opens = np.ones(len(kind), dtype=np.bool_)
        opens[1:] = (
            (sentence[1:] != sentence[:-1]) | (start[1:] != end[:-1]) | (kind[1:] != kind[:-1])
        )
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(kind)) - 1 if len(first) else first
        return SpanTable(
            sentence[first], start[first], end[last], kind[first].astype(np.int16), None
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
    masks = tags.types[chosen.identifier]
    tagged = tags.non_identifier[chosen.identifier]
    touches = _touches_left(chosen)
    resolve_neighbours(masks, tagged, touches)
    single = unambiguous(masks, tagged)

    initials = Initials.none()
    if rules.initials != "off" and rules.name_type in dictionary.types:
        initials = find_initials(
            chosen, tokens, key, masks, single, dictionary.types.index(rules.name_type),
            extended=rules.initials == "extended",
        )  # fmt: skip

    any_type = np.bitwise_or.reduce(masks, axis=1)
    is_mention = np.bitwise_or.reduce(single, axis=1)
    # Stable and negated: of equal rates the type that comes first in the grid is preferred.
    rates = np.asarray(dictionary.rates)
    used, place = np.unique(chosen.identifier, return_inverse=True)
    preferred = np.argsort(-rates[used], axis=1, kind="stable").astype(np.int16)[place]
    return Annotation(
        types=dictionary.types,
        num_sentences=matches.num_sentences,
        num_ceilings=tags.num_ceilings,
        has_mention=_per_sentence(is_mention, chosen),
        has_ambiguous=_per_sentence(any_type & ~is_mention, chosen),
        matches=chosen,
        masks=masks,
        non_identifier=tagged,
        initials=initials,
        preferred=preferred,
    )


def unambiguous(masks: Uint64, tagged: Uint64) -> Uint64:
    """Returns the masks of each type where a match has it alone, ``(matches, types)``.

    Args:
        masks: uint64 ``(matches, types)``.
        tagged: uint64 ``(matches,)``, the non-identifier tag.
    """
    one, several = np.zeros_like(tagged), np.zeros_like(tagged)
    for column in masks.T:
        several |= one & column
        one |= column
    return masks & ~(several | tagged)[:, None]


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


def resolve_neighbours(masks: Uint64, tagged: Uint64, touches: Bool) -> None:
    """Gives ambiguous matches the type of an unambiguous neighbour, in place (postprocessing 1).

    Reading left to right, an ambiguous match takes the type of its left neighbour if that is
    unambiguous and of one of its types, else of its right one; this repeats until nothing changes.
    After the first reading nothing changes but matches whose right neighbour was just resolved:
    their left one would have served before. So one reading back from right to left does the rest.

    Args:
        masks: uint64 ``(matches, types)``, changed.
        tagged: uint64 ``(matches,)``, changed.
        touches: bool ``(matches,)``, True where a match touches the one before it.
    """
    num_matches = len(tagged)
    if not num_matches:
        return
    single = unambiguous(masks, tagged)
    open_mask = np.bitwise_or.reduce(masks, axis=1) & ~np.bitwise_or.reduce(single, axis=1)
    touches_right = np.append(touches[1:], False)
    todo = np.flatnonzero((open_mask != 0) & (touches | touches_right))
    if not len(todo):
        return
    # Only neighbours in the list depend on each other: the k-th of every chain goes at once.
    follows = np.append(False, (np.diff(todo) == 1) & touches[todo[1:]])
    chain_start = np.flatnonzero(~follows)
    chain = np.cumsum(~follows) - 1
    depth = np.arange(len(todo)) - chain_start[chain]
    turns = _by_value(depth)

    def resolve(rows: Int64, left: bool, right: bool) -> None:
        ambiguous = open_mask[rows]
        taken = np.zeros((len(rows), masks.shape[1]), dtype=np.uint64)
        for use, touching, step in ((left, touches, -1), (right, touches_right, 1)):
            if not use:
                continue
            near = touching[rows]
            # Where nothing touches, the row itself stands in: it is ambiguous, so gives nothing.
            neighbour = single[np.where(near, rows + step, rows)]
            offer = neighbour & masks[rows] & ambiguous[:, None]
            offer[~near] = 0
            taken |= offer
            ambiguous = ambiguous & ~np.bitwise_or.reduce(offer, axis=1)
        done = np.bitwise_or.reduce(taken, axis=1)
        masks[rows] = (masks[rows] & ~done[:, None]) | taken
        tagged[rows] &= ~done
        single[rows] |= taken
        open_mask[rows] = ambiguous

    for turn in turns:
        resolve(todo[turn], left=True, right=True)
    for turn in reversed(turns):
        resolve(todo[turn], left=False, right=True)


def _by_value(values: Int64) -> list[Int64]:
    """Returns the positions of value 0, of value 1 and so on."""
    order = np.argsort(values, kind="stable")
    return np.split(order, np.cumsum(np.bincount(values))[:-1])
