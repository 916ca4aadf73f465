"""METHOD §4-§7 in plain Python: one sentence, one ceiling, one rule at a time, exact fractions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from deidsearch.annotate.ceilings import Rules
from deidsearch.annotate.initials import TITLES
from deidsearch.store.dictionaries import Dictionary

TYPES = ("LOCATION", "NAME", "STREET")


@dataclass(frozen=True)
class Entry:
    """An identifier: folded words, rate per type, and whether lists of words have it."""

    words: tuple[str, ...]
    rates: Mapping[str, Fraction]
    listed: bool = False
    common_words: bool = False


def dictionary_of(entries: Sequence[Entry], types: Sequence[str] = TYPES) -> Dictionary:
    """Returns the entries as the product's columns."""
    token_key = sorted({word for entry in entries for word in entry.words})
    number = {word: place for place, word in enumerate(token_key)}
    lengths = [len(entry.words) for entry in entries]
    shape = (len(entries), len(types))
    rates = [[float(entry.rates.get(name, 0)) for name in types] for entry in entries]
    return Dictionary(
        types=tuple(types),
        sources=("words",),
        key=pa.array([" ".join(entry.words) for entry in entries], pa.string()),
        token_key=pa.array(token_key, pa.string()),
        tokens=np.array([number[word] for entry in entries for word in entry.words], np.int32),
        offsets=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        rates=np.array(rates, dtype=np.float64).reshape(shape),
        counts=np.full(shape, np.nan),
        non_identifier=np.array([entry.listed for entry in entries], dtype=np.uint64),
        all_words_common=np.array([entry.common_words for entry in entries], dtype=np.bool_),
        is_variant=np.zeros(len(entries), dtype=np.bool_),
        removed=pa.table(
            {"source": pa.array([], pa.string()), "row": pa.array([], pa.int64()),
             "reason": pa.array([], pa.string())}
        ),
        digest="test",
    )  # fmt: skip


def occurrences(words: Sequence[str], entries: Sequence[Entry]) -> list[tuple[int, int, int]]:
    """Returns (start, end, entry) of every run of whole words that equals an entry."""
    found = []
    for start in range(len(words)):
        for number, entry in enumerate(entries):
            end = start + len(entry.words)
            if tuple(words[start:end]) == entry.words:
                found.append((start, end, number))
    return sorted(found)


def leftmost_longest(found: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Returns the matches a reader takes who always takes the longest and goes on behind it."""
    taken, place = [], 0
    while True:
        ahead = [match for match in found if match[0] >= place]
        if not ahead:
            return taken
        leftmost = min(match[0] for match in ahead)
        best = max((match for match in ahead if match[0] == leftmost), key=lambda match: match[1])
        taken.append(best)
        place = best[1]


def types_left(entry: Entry, dominance: float | None) -> dict[str, Fraction]:
    """Returns the rates of the types that no stronger one drops."""
    strongest = max(entry.rates.values())
    return {
        name: rate
        for name, rate in entry.rates.items()
        if dominance is None or rate == strongest or rate * Fraction(dominance) > strongest
    }


def ratio_of(entry: Entry, seen: int, sentences: int, dominance: float | None) -> Fraction | None:
    """Returns corpus rate by population rate, or None where the entry was not seen."""
    if not seen:
        return None
    return Fraction(seen, sentences) / sum(types_left(entry, dominance).values())


def tags_of(
    entry: Entry, ratio: Fraction | None, rules: Rules, ceiling: float | dict[str, float] | None
) -> tuple[frozenset[str], bool]:
    """Returns (types, non-identifier) by the rows of METHOD §5."""
    types = set(types_left(entry, rules.type_dominance))
    common = entry.listed
    if entry.common_words and rules.multiword_ambiguous is not False:
        common |= rules.multiword_ambiguous is True or bool(types & rules.multiword_ambiguous)
    if not common and rules.scope == "ambiguous":
        return frozenset(types), False
    if ratio is None:
        return frozenset(types), common
    for name in list(types):
        limit = ceiling.get(name) if isinstance(ceiling, dict) else ceiling
        if limit is not None and ratio > Fraction(limit):
            types.discard(name)
    if not types:
        return frozenset(), True
    if common and rules.floor is not None and ratio < Fraction(rules.floor):
        return frozenset(types), False
    return frozenset(types), common


@dataclass
class Item:
    """A match with its tags."""

    start: int
    end: int
    entry: int
    types: frozenset[str]
    common: bool

    @property
    def single(self) -> str | None:
        """The type of an unambiguous match."""
        return next(iter(self.types)) if len(self.types) == 1 and not self.common else None

    @property
    def ambiguous(self) -> bool:
        """True for a match with a type and another tag."""
        return bool(self.types) and self.single is None


@dataclass
class Annotated:
    """One sentence under one ceiling."""

    items: list[Item]
    initials: list[tuple[int, int]] = field(default_factory=list)
    name_type: str = "NAME"

    def pieces(self, of_item) -> list[tuple[int, int, str]]:
        """Returns merged (start, end, type); ``of_item`` gives an item's type or None."""
        spans = [(start, end, self.name_type) for start, end in self.initials]
        spans += [(i.start, i.end, of_item(i)) for i in self.items if of_item(i) is not None]
        merged: list[tuple[int, int, str]] = []
        for start, end, name in sorted(spans):
            if merged and merged[-1][1] == start and merged[-1][2] == name:
                merged[-1] = (merged[-1][0], end, name)
            else:
                merged.append((start, end, name))
        return merged

    def mentions(self) -> list[tuple[int, int, str]]:
        """Returns the unambiguous mentions."""
        return self.pieces(lambda item: item.single)

    def ambiguous(self) -> list[tuple[int, int, frozenset[str], bool]]:
        """Returns the matches left ambiguous."""
        return [(i.start, i.end, i.types, i.common) for i in self.items if i.ambiguous]


def resolve(items: list[Item]) -> None:
    """Reads left to right, again and again, until nothing changes (postprocessing 1)."""
    changed = True
    while changed:
        changed = False
        for place, item in enumerate(items):
            if not item.ambiguous:
                continue
            neighbours = []
            if place > 0 and items[place - 1].end == item.start:
                neighbours.append(items[place - 1])
            if place + 1 < len(items) and items[place + 1].start == item.end:
                neighbours.append(items[place + 1])
            for neighbour in neighbours:
                if neighbour.single in item.types:
                    item.types, item.common = frozenset({neighbour.single}), False
                    changed = True
                    break


def initials_before(
    item: Item, items: Sequence[Item], surfaces: Sequence[str], extended: bool, name: str
) -> int | None:
    """Returns where the initials that join this name begin, or None (postprocessing 2)."""

    def owner(token: int) -> Item | None:
        return next((other for other in items if other.start <= token < other.end), None)

    def is_typed(token: int) -> bool:
        found = owner(token)
        return found is not None and bool(found.types)

    best, edge, lone_serves = None, item.start, True
    for _ in range(3 if extended else 1):
        has_stop = edge > 0 and surfaces[edge - 1] == "."
        letters = edge - 1 - has_stop
        if letters < 0 or is_typed(letters):
            break
        word = surfaces[letters]
        if not re.fullmatch(r"[^\W\d_]{1,3}", word):
            break
        if len(word) > 1 and (
            not extended or owner(letters) or not word[0].isupper() or word.casefold() in TITLES
        ):
            break
        edge = letters
        lone_serves = lone_serves and (word[0].isupper() or has_stop)
        beside = any(other.end == edge and other.single == name for other in items)
        if beside or (extended and lone_serves):
            best = edge
    return best


def annotate_sentence(
    surfaces: Sequence[str],
    words: Sequence[str],
    entries: Sequence[Entry],
    ratios: Sequence[Fraction | None],
    rules: Rules,
    ceiling: float | dict[str, float] | None,
) -> Annotated:
    """Returns one sentence's annotation under one ceiling."""
    items = [
        Item(start, end, number, *tags_of(entries[number], ratios[number], rules, ceiling))
        for start, end, number in leftmost_longest(occurrences(words, entries))
    ]
    resolve(items)
    result = Annotated(items, name_type=rules.name_type)
    if rules.initials != "off":
        for item in items:
            if item.single == rules.name_type:
                start = initials_before(
                    item, items, surfaces, rules.initials == "extended", rules.name_type
                )
                if start is not None:
                    result.initials.append((start, item.start))
    return result


def best_type(item: Item, entries: Sequence[Entry], types: Sequence[str]) -> str | None:
    """Returns the type of highest population rate, ties by the order of the types."""
    if not item.types:
        return None
    return max(
        (name for name in types if name in item.types),
        key=lambda name: (entries[item.entry].rates[name], -list(types).index(name)),
    )


# Words that make names, words, initials and punctuation meet as often as possible.
WORDS = ["anna", "jensen", "per", "og", "ib", "vej", "by", "j", "th", ".", "-"]
SURFACES = ["Anna", "anna", "JENSEN", "jensen", "Per", "per", "og", "Ib", "vej", "by", "By"]
SURFACES += ["J", "j", "P", "y", "Th", "th", "KLM", "Dr", "Æ", ".", "-", "4", "nu"]

# Small numbers, so that ties and equal rates are common; tenths are no binary fractions.
rates = st.sampled_from([Fraction(n, d) for n in (1, 2, 3, 6) for d in (10, 20, 40)])
ceilings = st.one_of(
    st.none(),
    st.sampled_from([0.5, 1.0, 2.0, 3.0, 4.0, 10.0]),
    st.dictionaries(st.sampled_from(TYPES), st.sampled_from([0.5, 1.0, 2.0, 3.0, 5.0])),
)
rule_sets = st.builds(
    Rules,
    floor=st.sampled_from([None, 0.5, 1.0, 2.0]),
    scope=st.sampled_from(["ambiguous", "all"]),
    type_dominance=st.sampled_from([None, 1.0, 2.0, 3.0]),
    multiword_ambiguous=st.one_of(st.booleans(), st.frozensets(st.sampled_from(TYPES))),
    initials=st.sampled_from(["paper", "extended", "off"]),
)


@st.composite
def entry_lists(draw, words: Sequence[str] = tuple(WORDS)) -> list[Entry]:
    """Returns entries with distinct words; none is a single letter, as after cleaning."""
    sequence = st.lists(st.sampled_from(list(words)), min_size=1, max_size=3).map(tuple)
    keys = draw(st.lists(sequence, min_size=1, max_size=10, unique=True))
    entries = []
    for key in keys:
        if len(key) == 1 and len(key[0]) == 1:
            continue
        kept = draw(st.dictionaries(st.sampled_from(TYPES), rates, min_size=1, max_size=3))
        common = len(key) > 1 and draw(st.booleans())
        entries.append(Entry(key, kept, listed=draw(st.booleans()), common_words=common))
    return entries


sentence_lists = st.lists(
    st.lists(st.sampled_from(SURFACES), max_size=9).map(tuple), min_size=1, max_size=6
)
