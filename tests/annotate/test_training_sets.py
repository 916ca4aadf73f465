"""Training sets: no ambiguity, balanced, nested as far as the rule allows, equal by content."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from deidsearch.annotate.ceilings import Rules, tag_identifiers
from deidsearch.annotate.postprocess import Annotation, annotate
from deidsearch.annotate.training_sets import training_set
from deidsearch.annotate.trie import Trie, find_matches
from deidsearch.text.tokens import fold_vocabulary, tokenise
from tests.oracle.plain_annotation import Entry, dictionary_of

ENTRIES = [
    Entry(("anna",), {"NAME": Fraction(1, 100)}),
    Entry(("per",), {"NAME": Fraction(1, 100)}, listed=True),
]


def annotation_of(texts: list[str], ceilings: list[float | None]) -> Annotation:
    table = tokenise(texts)
    key = fold_vocabulary(table.vocabulary)
    dictionary = dictionary_of(ENTRIES)
    tags = tag_identifiers(dictionary, np.array([1.0, 10.0]), Rules(), ceilings)
    matches = find_matches(Trie.compile(dictionary), table, key)
    return annotate(matches, table, key, dictionary, tags, Rules())


TEXTS = ["ingen", "hos Anna", "per gang", "slet ingen", "Anna", "intet", "tomt", "per Anna"]


def test_ambiguous_sentences_go_and_the_rest_is_balanced() -> None:
    annotation = annotation_of(TEXTS, [512.0, 1.0])
    keep = np.arange(8, dtype=np.uint64)[::-1].copy()
    chosen = training_set(annotation, 0, keep)
    # "per Anna" is resolved by its neighbour; "per gang" stays ambiguous.
    assert chosen.sentence.tolist() == [1, 3, 4, 5, 6, 7]
    assert (chosen.num_with_mention, chosen.num_without_before, chosen.num_ambiguous) == (3, 4, 1)
    assert chosen.mentions.sentence.tolist() == [0, 2, 5]
    assert chosen.mentions.end_token.tolist() == [2, 1, 2]
    # Under a ceiling of 1 "per" is a word, so that its sentence is a negative.
    low = training_set(annotation, 1, keep)
    assert (low.num_with_mention, low.num_without_before, low.num_ambiguous) == (3, 5, 0)
    assert low.digest != chosen.digest


def test_smaller_sets_are_part_of_larger_ones() -> None:
    rng = np.random.default_rng(4)
    texts = [TEXTS[place] for place in rng.integers(0, len(TEXTS), 400)]
    keep = rng.integers(0, 2**63, 400).astype(np.uint64)
    annotation = annotation_of(texts, [512.0])
    whole = training_set(annotation, 0, keep)
    for number in (0, 1, 50, 200, 399):
        part = training_set(annotation, 0, keep, number)
        positive = set(part.sentence[np.unique(part.mentions.sentence)].tolist())
        assert positive <= set(whole.sentence.tolist())
        assert part.num_with_mention == len(positive)
        assert all(sentence < number for sentence in part.sentence)
        # Of the sentences without mention, one with a lower priority is never left out for another.
        empty = sorted(set(part.sentence.tolist()) - positive, key=lambda s: keep[s])
        clean = [s for s in range(number) if not annotation.has_mention[s] & np.uint64(1)
                 and not annotation.has_ambiguous[s] & np.uint64(1)]  # fmt: skip
        assert empty == sorted(clean, key=lambda s: keep[s])[: len(empty)]


def test_equal_content_has_an_equal_digest() -> None:
    keep = np.arange(8, dtype=np.uint64)
    first = annotation_of(TEXTS, [512.0, 11.0, 9.0])
    digests = [training_set(first, number, keep).digest for number in range(3)]
    assert digests[0] == digests[1] != digests[2]
    assert training_set(first, 0, keep, 7).digest != digests[0]


def test_nothing_to_train_on_is_an_empty_set() -> None:
    chosen = training_set(annotation_of(["ingen", "intet"], [1.0]), 0, np.zeros(2, np.uint64))
    assert len(chosen) == 0 and chosen.num_without_before == 2
