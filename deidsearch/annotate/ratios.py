"""The sentence ratio: how much oftener a word stands in the notes than people bear it.

Source: METHOD §4; Laursen et al. 2022, §3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from deidsearch.annotate.matches import Bool, Int64, Matches

if TYPE_CHECKING:
    from deidsearch.store.dictionaries import Dictionary

Float64 = npt.NDArray[np.float64]

# Rates are rounded sums of rounded quotients. A difference of this share is rounding, and rounding
# must not decide whether a word lies above its ceiling: 0.1 + 0.2 counts as 0.3.
_ROUNDING = 1e-14


def is_above(ratio: Float64, limit: float | Float64) -> Bool:
    """Returns where a ratio lies above a limit; one equal to it does not, nor does NaN."""
    above: Bool = ratio > np.asarray(limit) * (1 + _ROUNDING)
    return above


def is_below(ratio: Float64, limit: float | Float64) -> Bool:
    """Returns where a ratio lies below a limit; one equal to it does not, nor does NaN."""
    below: Bool = ratio < np.asarray(limit) * (1 - _ROUNDING)
    return below


def count_occurrences(matches: Matches, num_identifiers: int) -> Int64:
    """Returns how often each identifier occurs, int64 ``(identifiers,)``.

    Every occurrence counts, overlapping and nested ones too: "jensen" inside "anne jensen".
    """
    counts: Int64 = np.bincount(matches.identifier, minlength=num_identifiers).astype(np.int64)
    return counts


def remaining_rates(rates: Float64, type_dominance: float | None) -> Float64:
    """Returns the rates with 0 for each type that a far stronger one drops (METHOD §5b).

    Args:
        rates: float64 ``(identifiers, types)``, 0 where an identifier does not have the type.
        type_dominance: D. A type goes where ``rate * D <= strongest rate`` unless it is a
            strongest one itself. None drops nothing.
    """
    if type_dominance is None:
        return rates
    strongest = rates.max(axis=1, initial=0.0, keepdims=True)
    weak = ~is_above(rates * type_dominance, strongest) & is_below(rates, strongest)
    return np.where(weak, 0.0, rates)


def sentence_ratios(
    dictionary: Dictionary,
    occurrences: Int64,
    num_sentences: int,
    type_dominance: float | None = None,
) -> Float64:
    """Returns each identifier's ratio, float64 ``(identifiers,)``, NaN where it was not seen.

    ``ratio = (occurrences / num_sentences) / population rate``, where the population rate is the
    sum of the rates of the types that remain. Above 1: seen more often than people bear it.

    Args:
        dictionary: the identifiers with their population rates.
        occurrences: int64 ``(identifiers,)``, counted over exactly ``num_sentences``.
        num_sentences: the available sentences.
        type_dominance: METHOD §5b; see `remaining_rates`.
    """
    ratio = np.full(len(occurrences), np.nan)
    seen = np.flatnonzero(occurrences)
    if num_sentences <= 0 or not len(seen):
        return ratio
    rates = remaining_rates(np.asarray(dictionary.rates)[seen], type_dominance)
    # Column by column: the sum of a row does not depend on numpy's order of addition.
    population = np.zeros(len(seen))
    for column in rates.T:
        population += column
    ratio[seen] = occurrences[seen] / num_sentences / population
    return ratio
