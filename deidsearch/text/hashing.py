"""Numbers that stand for sentences: equal text gives equal ones, on any machine, in any batch."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deidsearch.text.tokens import TokenTable

Hashes = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_BASE = np.uint64(0xD6E8FEB86659FD93)  # odd, so its powers never vanish modulo 2**64


def splitmix64(numbers: npt.ArrayLike, seed: int) -> Hashes:
    """Returns one pseudo-random number per number, ``(numbers,)``: fixed by number and seed alone.

    Source: Steele, Lea, Flood 2014, the SplitMix64 generator at any of its positions. For one
    seed it is a bijection, so that numbers that differ have priorities that differ.
    """
    with np.errstate(over="ignore"):
        start = _mix(np.asarray([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64) + _GOLDEN)
        return _mix(start + (np.asarray(numbers).astype(np.uint64) + np.uint64(1)) * _GOLDEN)


def _mix(state: Hashes) -> Hashes:
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


def key_hashes(keys: pa.StringArray) -> Hashes:
    """Returns a 64-bit hash per string, ``(keys,)``, the same in every process."""
    blake = hashlib.blake2b
    raw = b"".join(blake(key.encode(), digest_size=8).digest() for key in keys.to_pylist())
    return np.frombuffer(raw, dtype="<u8").astype(np.uint64)


def sentence_hashes(tokens: TokenTable, hashes: Hashes) -> Hashes:
    """Returns a 64-bit hash of each sentence's tokens in order, ``(sentences,)``.

    Args:
        tokens: the sentences.
        hashes: ``(surfaces,)`` hash of each surface's folded key: sentences with equal folded
            tokens are duplicates, whatever their blanks.
    """
    lengths = tokens.lengths
    with np.errstate(over="ignore"):
        longest = int(lengths.max(initial=0))
        powers = np.cumprod(np.full(longest + 1, _BASE, dtype=np.uint64), dtype=np.uint64)
        place = np.arange(tokens.num_tokens) - np.repeat(tokens.offsets[:-1], lengths)
        # A polynomial in the base, so the order of tokens counts; summed by running totals.
        terms = hashes[tokens.token] * powers[place]
        total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)))
        sums = total[tokens.offsets[1:]] - total[tokens.offsets[:-1]]
        return _mix(sums ^ (lengths.astype(np.uint64) * _GOLDEN))
