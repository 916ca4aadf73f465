"""Ambiguous matches that take the type of an unambiguous neighbour (METHOD §5, postprocessing 1).

Masks are uint64 with one bit per ceiling, so that all ceilings are resolved together.
"""

from __future__ import annotations

import numpy as np

from deidsearch.annotate.ceilings import Uint64
from deidsearch.annotate.matches import Bool, Int64


def union(masks: Uint64) -> Uint64:
    """Returns the union of the types' masks, uint64 ``(matches,)``."""
    result = np.zeros(masks.shape[1], dtype=np.uint64)
    for mask in masks:
        result |= mask
    return result


def unambiguous(masks: Uint64, tagged: Uint64) -> Uint64:
    """Returns the masks of each type where a match has it alone, ``(types, matches)``.

    Args:
        masks: uint64 ``(types, matches)``.
        tagged: uint64 ``(matches,)``, the non-identifier tag.
    """
    one, several = np.zeros_like(tagged), tagged.copy()
    for mask in masks:
        several |= one & mask
        one |= mask
    return masks & ~several


def resolve_neighbours(masks: Uint64, tagged: Uint64, touches: Bool) -> Uint64:
    """Gives ambiguous matches the type of an unambiguous neighbour, in place (postprocessing 1).

    Reading left to right, an ambiguous match takes the type of its left neighbour if that is
    unambiguous and of one of its types, else of its right one; this repeats until nothing changes.
    After the first reading nothing changes but matches whose right neighbour was just resolved:
    their left one would have served before. So one reading back from right to left does the rest.

    Args:
        masks: uint64 ``(types, matches)``, changed.
        tagged: uint64 ``(matches,)``, changed.
        touches: bool ``(matches,)``, True where a match touches the one before it.

    Returns:
        uint64 ``(types, matches)``, the masks where a match is unambiguous in the end.
    """
    single = unambiguous(masks, tagged)
    open_mask = union(masks) & ~union(single)
    touches_right = np.append(touches[1:], False)
    todo = np.flatnonzero((open_mask != 0) & (touches | touches_right[: len(touches)]))
    if not len(todo):
        return single
    # Only neighbours in the list depend on each other: the k-th of every chain goes at once.
    follows = np.append(False, (np.diff(todo) == 1) & touches[todo[1:]])
    chain_start = np.flatnonzero(~follows)
    chain = np.cumsum(~follows) - 1
    turns = _by_value(np.arange(len(todo)) - chain_start[chain])

    def resolve(rows: Int64, sides: tuple[tuple[Bool, int], ...]) -> None:
        ambiguous = open_mask[rows]
        taken = np.zeros((len(masks), len(rows)), dtype=np.uint64)
        for touching, step in sides:
            near = touching[rows]
            # Where nothing touches, the row itself stands in: it is masked out.
            offer = single[:, np.where(near, rows + step, rows)] & masks[:, rows]
            offer &= np.where(near, ambiguous, np.uint64(0))
            taken |= offer
            ambiguous &= ~union(offer)
        done = union(taken)
        masks[:, rows] = (masks[:, rows] & ~done) | taken
        tagged[rows] &= ~done
        single[:, rows] |= taken
        open_mask[rows] = ambiguous

    for turn in turns:
        resolve(todo[turn], ((touches, -1), (touches_right, 1)))
    for turn in reversed(turns):
        resolve(todo[turn], ((touches_right, 1),))
    return single


def _by_value(values: Int64) -> list[Int64]:
    """Returns the positions of value 0, of value 1 and so on."""
    order = np.argsort(values, kind="stable")
    return np.split(order, np.cumsum(np.bincount(values))[:-1])
