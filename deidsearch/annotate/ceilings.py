"""From ratios to tags: what each identifier counts as under each ceiling.

Source: METHOD §5 and §5b; Laursen et al. 2022, §3.3. All ceilings are resolved at once: bit i of a
mask tells what holds at the i-th ceiling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from deidsearch.annotate.matches import Bool, Int64
from deidsearch.annotate.ratios import Float64, is_above, is_below, remaining_rates

Uint64 = npt.NDArray[np.uint64]
Ceiling = float | Mapping[str, float] | None
MAX_CEILINGS = 64
NAME = "NAME"


class RatedIdentifiers(Protocol):
    """What the tags of identifiers depend on; a `Dictionary` has it."""

    @property
    def types(self) -> tuple[str, ...]: ...
    @property
    def rates(self) -> Float64: ...
    @property
    def non_identifier(self) -> npt.NDArray[Any]: ...
    @property
    def all_words_common(self) -> Bool: ...


@dataclass(frozen=True)
class Rules:
    """How matches become tags.

    Attributes:
        floor: ratio below which an identifier that is also a non-identifier is an identifier
            only; None switches this off.
        scope: "ambiguous": the ceiling acts on identifiers that are non-identifiers too;
            "all": on every identifier.
        type_dominance: METHOD §5b; see `ratios.remaining_rates`.
        multiword_ambiguous: identifiers of several words, all of them non-identifiers, count as
            non-identifiers too: all of them (True), or those with one of these types left.
        initials: which letters join the names around them (METHOD §5, postprocessing 2).
        name_type: the type whose mentions have initials.
    """

    floor: float | None = 1.0
    scope: Literal["ambiguous", "all"] = "ambiguous"
    type_dominance: float | None = None
    multiword_ambiguous: bool | frozenset[str] = False
    initials: Literal["paper", "extended", "off"] = "paper"
    name_type: str = NAME


@dataclass(frozen=True, eq=False)
class Tags:
    """What each identifier counts as under each ceiling.

    Attributes:
        types: uint64 ``(identifiers, types)``, bit i set where it has the type at ceiling i.
        non_identifier: uint64 ``(identifiers,)``, bit i set where it is tagged non-identifier.
        num_ceilings: how many bits mean something.
    """

    types: Uint64
    non_identifier: Uint64
    num_ceilings: int


def common_words(dictionary: RatedIdentifiers, rates: Float64, rules: Rules) -> Bool:
    """Returns which identifiers count as non-identifiers too, ``(identifiers,)``.

    Args:
        dictionary: the identifiers.
        rates: float64 ``(identifiers, types)``, the rates of the types that remain.
        rules: whether multi-word identifiers of common words count, and of which types.
    """
    common: Bool = np.asarray(dictionary.non_identifier) != 0
    multiword = np.asarray(dictionary.all_words_common)
    if rules.multiword_ambiguous is True:
        return common | multiword
    if rules.multiword_ambiguous:
        chosen = [name in rules.multiword_ambiguous for name in dictionary.types]
        return common | (multiword & (rates[:, chosen] > 0).any(axis=1))
    return common


def ceiling_per_type(ceiling: Ceiling, types: Sequence[str]) -> Float64:
    """Returns the ceiling of each type, ``(types,)``, infinite where there is none."""
    if ceiling is None:
        return np.full(len(types), np.inf)
    if isinstance(ceiling, Mapping):
        return np.array([ceiling.get(name, np.inf) for name in types], dtype=np.float64)
    return np.full(len(types), float(ceiling))


def tag_identifiers(
    dictionary: RatedIdentifiers,
    ratio: Float64,
    rules: Rules,
    ceilings: Sequence[Ceiling],
) -> Tags:
    """Returns the tags of every identifier under every ceiling.

    The rows of METHOD §5 in its order: dominated types go first; types whose ceiling the ratio
    exceeds go next (none left: non-identifier only); then, below the floor, the non-identifier
    goes. An identifier without a ratio keeps everything.

    Args:
        dictionary: the identifiers.
        ratio: float64 ``(identifiers,)``, NaN where an identifier was not seen; computed with the
            same type dominance.
        rules: the rules.
        ceilings: at most 64: one for all types, one per type (a type that is not named has
            none), or None for none.
    """
    if len(ceilings) > MAX_CEILINGS:
        raise ValueError(f"at most {MAX_CEILINGS} ceilings at once, got {len(ceilings)}")
    every = np.uint64((1 << len(ceilings)) - 1)
    none = np.uint64(0)
    rates = remaining_rates(np.asarray(dictionary.rates), rules.type_dominance)
    common = common_words(dictionary, rates, rules)
    types: Uint64 = np.where(rates > 0, every, none)
    non_identifier: Uint64 = np.where(common, every, none)

    # The rest concerns only what was seen and what a rule acts on.
    acts = ~np.isnan(ratio) & (common | (rules.scope == "all"))
    rows = np.flatnonzero(acts)
    seen = ratio[rows]
    kept, tagged = types[rows], non_identifier[rows]
    below = is_below(seen, rules.floor) if rules.floor is not None else np.zeros(len(rows), bool)
    for number, ceiling in enumerate(ceilings):
        bit = np.uint64(1 << number)
        left = np.zeros(len(rows), dtype=np.bool_)
        for column, limit in enumerate(ceiling_per_type(ceiling, dictionary.types)):
            kept[is_above(seen, limit), column] &= ~bit
            left |= (kept[:, column] & bit) != 0
        tagged[left & below] &= ~bit
        tagged[~left] |= bit
    types[rows], non_identifier[rows] = kept, tagged
    return Tags(types, non_identifier, len(ceilings))


def bands(
    dictionary: RatedIdentifiers,
    ratio: Float64,
    rules: Rules,
    ceilings: Sequence[Ceiling],
) -> Int64:
    """Returns for each ceiling the first one with the same outcome, ``(ceilings,)``.

    Between two ceilings at which no seen identifier's ratio lies the annotation is the same
    (METHOD §5), so it is made once. Any number of ceilings may be given.

    Words of ratio 3 and 100 under the ceilings 1, 4, 16 and 128 give 0, 1, 1, 3.
    """
    rates = remaining_rates(np.asarray(dictionary.rates), rules.type_dominance)
    acts = ~np.isnan(ratio) & (common_words(dictionary, rates, rules) | (rules.scope == "all"))
    limits = np.array([ceiling_per_type(ceiling, dictionary.types) for ceiling in ceilings])
    limits = limits.reshape(len(ceilings), len(dictionary.types))
    # Of one type, the identifiers above a ceiling are nested: as many means the same ones.
    outcome = np.zeros(limits.shape, dtype=np.int64)
    for column in range(len(dictionary.types)):
        values = ratio[acts & (rates[:, column] > 0)]
        for number, limit in enumerate(limits[:, column]):
            outcome[number, column] = int(is_above(values, limit).sum())
    seen: dict[bytes, int] = {}
    first = [seen.setdefault(row.tobytes(), number) for number, row in enumerate(outcome)]
    return np.array(first, dtype=np.int64)


@dataclass(frozen=True)
class TagRow:
    """Why one identifier is tagged as it is at one ceiling."""

    ceiling: Ceiling
    types: tuple[str, ...]
    non_identifier: bool
    reason: str

    @property
    def outcome(self) -> str:
        """One word for the whole: the type, "ambiguous" or "non-identifier"."""
        if not self.types:
            return "non-identifier"
        return "ambiguous" if self.non_identifier or len(self.types) > 1 else self.types[0]


def identifier_tags(
    dictionary: RatedIdentifiers,
    identifier: int,
    ratio: Float64,
    rules: Rules,
    ceilings: Sequence[Ceiling],
) -> list[TagRow]:
    """Returns one identifier's tags at each ceiling, each with its reason.

    Args:
        dictionary: the identifiers.
        identifier: row of the dictionary.
        ratio: float64 ``(identifiers,)``, as given to `tag_identifiers`.
        rules: the rules.
        ceilings: any number of ceilings.
    """
    one = _one(dictionary, identifier)
    value = np.asarray(ratio)[identifier : identifier + 1]
    rates = remaining_rates(one.rates, rules.type_dominance)
    common = bool(common_words(one, rates, rules)[0])
    rows = []
    for ceiling in ceilings:
        tags = tag_identifiers(one, value, rules, [ceiling])
        kept = tuple(
            name for name, mask in zip(dictionary.types, tags.types[0], strict=True) if mask
        )
        tagged = bool(tags.non_identifier[0])
        had = int((rates > 0).sum())
        reason = _reason(float(value[0]), common, tagged, len(kept), had, rules)
        rows.append(TagRow(ceiling, kept, tagged, reason))
    return rows


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows of a dictionary."""

    types: tuple[str, ...]
    rates: Float64
    non_identifier: npt.NDArray[Any]
    all_words_common: Bool


def _one(dictionary: RatedIdentifiers, identifier: int) -> _Part:
    rows = slice(identifier, identifier + 1)
    return _Part(
        dictionary.types,
        np.asarray(dictionary.rates)[rows],
        np.asarray(dictionary.non_identifier)[rows],
        np.asarray(dictionary.all_words_common)[rows],
    )


def _reason(
    ratio: float, common: bool, tagged: bool, num_kept: int, num_had: int, rules: Rules
) -> str:
    if not common and rules.scope == "ambiguous":
        return "in no non-identifier list" if num_had == 1 else "several types"
    if np.isnan(ratio):
        return "not seen in the sentences, so it has no ratio"
    if num_kept == 0:
        return "ratio above the ceiling"
    if num_kept < num_had:
        return "ratio above the ceiling of some of its types"
    if common and not tagged:
        return "ratio below the floor"
    if common:
        return "ratio not above the ceiling, and not below the floor"
    return "ratio not above the ceiling"
