"""Model against dictionary on the same gold mentions and on the same words.

Source: METHOD §9; Laursen et al. 2022, §4.2 and appendix C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class TwoByTwo:
    """Gold mentions by who found them exactly."""

    both_right: int
    model_only: int
    dictionary_only: int
    both_wrong: int

    @property
    def p_value(self) -> float:
        """Two-sided probability under McNemar's exact test that the two differ by chance."""
        return mcnemar_exact(self.model_only, self.dictionary_only)

    def to_json(self) -> dict[str, Any]:
        """Returns the four counts and the p-value."""
        return {
            "both_right": self.both_right,
            "model_only": self.model_only,
            "dictionary_only": self.dictionary_only,
            "both_wrong": self.both_wrong,
            "p_value": self.p_value,
        }


def two_by_two(model: Bools, dictionary: Bools) -> TwoByTwo:
    """Returns the table of two systems' hits on the same gold mentions.

    Args:
        model, dictionary: bool ``(mentions,)``, True where the mention was found exactly.
    """
    assert model.shape == dictionary.shape
    return TwoByTwo(
        both_right=int((model & dictionary).sum()),
        model_only=int((model & ~dictionary).sum()),
        dictionary_only=int((~model & dictionary).sum()),
        both_wrong=int((~model & ~dictionary).sum()),
    )


def mcnemar_exact(first_only: int, second_only: int) -> float:
    """Returns the two-sided p-value of McNemar's exact test, 0-1.

    The mentions that only one system got right fall to either side like fair coins if the two
    are equally good: twice the smaller tail of Binomial(n, 1/2), at most 1. 1.0 where there is
    no such mention.

    >>> mcnemar_exact(0, 5)
    0.0625
    """
    total = first_only + second_only
    # Whole numbers all the way: the tail of 283 against 13 lies far below what floats add up.
    term = tail = 1
    for k in range(min(first_only, second_only)):
        term = term * (total - k) // (k + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << total))


@dataclass(frozen=True, eq=False)
class SharedWords:
    """Words that occur both inside and outside gold mentions, and who got them right.

    Attributes:
        word: int64 ``(words,)`` index into the keys.
        inside, outside: int64 ``(words,)`` tokens inside and outside gold mentions.
        right_inside: int64 ``(systems, words)`` tokens inside that got the mention's type.
        right_outside: int64 ``(systems, words)`` tokens outside that got no type.
    """

    word: npt.NDArray[np.int64]
    inside: npt.NDArray[np.int64]
    outside: npt.NDArray[np.int64]
    right_inside: npt.NDArray[np.int64]
    right_outside: npt.NDArray[np.int64]

    def to_json(self, systems: Sequence[str] = ("model", "dictionary")) -> dict[str, Any]:
        """Returns totals over all words; shares are 0-1, None where there is no such word.

        The words themselves are left out: they come from the notes.
        """
        inside, outside = int(self.inside.sum()), int(self.outside.sum())
        result: dict[str, Any] = {
            "words": len(self.word),
            "identifiers": inside,
            "non_identifiers": outside,
        }
        for row, name in enumerate(systems[: len(self.right_inside)]):
            result[name] = {
                "identifiers": int(self.right_inside[row].sum()) / inside if inside else None,
                "non_identifiers": (
                    int(self.right_outside[row].sum()) / outside if outside else None
                ),
            }
        return result


def shared_words(
    word: Ints, is_word: Bools, gold: Ints, systems: Sequence[Ints], none: int
) -> SharedWords:
    """Returns the words seen both as identifier and as non-identifier.

    Args:
        word: ``(tokens,)`` number of each token's folded key.
        is_word: bool ``(tokens,)``, True where the token holds a letter or digit.
        gold: ``(tokens,)`` gold label of each token.
        systems: per system the predicted label of each token, ``(tokens,)``.
        none: the label that means no mention.
    """
    word = word[is_word]
    gold = gold[is_word]
    size = int(word.max()) + 1 if len(word) else 0
    is_inside = gold != none
    inside = np.bincount(word[is_inside], minlength=size)
    outside = np.bincount(word[~is_inside], minlength=size)
    shared = np.flatnonzero((inside > 0) & (outside > 0))
    right_inside = np.zeros((len(systems), len(shared)), np.int64)
    right_outside = np.zeros_like(right_inside)
    for row, labels in enumerate(systems):
        right = labels[is_word] == gold
        right_inside[row] = np.bincount(word[is_inside & right], minlength=size)[shared]
        right_outside[row] = np.bincount(word[~is_inside & right], minlength=size)[shared]
    return SharedWords(shared, inside[shared], outside[shared], right_inside, right_outside)
