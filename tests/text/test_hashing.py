"""Hashes of sentences and seeded priorities: fixed by content, blind to batches."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deidsearch.text.hashing import key_hashes, sentence_hashes, splitmix64
from deidsearch.text.tokens import fold_vocabulary, tokenise


def hashes(texts: list[str]) -> list[int]:
    tokens = tokenise(texts)
    return sentence_hashes(tokens, key_hashes(fold_vocabulary(tokens.vocabulary))).tolist()


def test_splitmix64_is_the_published_generator() -> None:
    # A plain-integer rendering of the published algorithm is the oracle.
    mask = 2**64 - 1

    def mix(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        return z ^ (z >> 31)

    golden = 0x9E3779B97F4A7C15
    start = mix((5 + golden) & mask)
    expected = [mix((start + (n + 1) * golden) & mask) for n in (0, 1, 2**40)]
    assert splitmix64([0, 1, 2**40], 5).tolist() == expected


def test_priorities_depend_on_number_and_seed_only() -> None:
    whole = splitmix64(np.arange(1000), 3)
    parts = np.concatenate([splitmix64(np.arange(0, 7), 3), splitmix64(np.arange(7, 1000), 3)])
    assert (whole == parts).all() and len(np.unique(whole)) == 1000
    assert not (whole == splitmix64(np.arange(1000), 4)).any()


def test_equal_folded_tokens_have_equal_hashes_and_others_do_not() -> None:
    texts = ["Anna  Holm.", "anna holm .", "Holm Anna.", "anna holm", "", "anna", "anna anna"]
    found = hashes(texts)
    assert found[0] == found[1]
    assert len(set(found)) == len(texts) - 1


@given(st.lists(st.text(alphabet="ab .-", max_size=12), max_size=20))
def test_hashes_agree_with_folded_token_lists(texts: list[str]) -> None:
    tokens = tokenise(texts)
    keys = fold_vocabulary(tokens.vocabulary).to_pylist()
    bounds = tokens.offsets.tolist()
    lists = [
        tuple(keys[t] for t in tokens.token[first:last])
        for first, last in zip(bounds, bounds[1:], strict=False)
    ]
    found = hashes(texts)
    alone = [hashes([text])[0] for text in texts]
    assert found == alone
    assert len(set(found)) == len(set(lists))
