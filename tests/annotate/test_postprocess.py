"""Neighbours, initials, merging: readable sentences with the mentions that should come out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deidsearch.annotate.ceilings import Rules, tag_identifiers
from deidsearch.annotate.postprocess import Annotation, annotate
from deidsearch.annotate.trie import Trie, find_matches
from deidsearch.text.tokens import TokenTable, fold_vocabulary, tokenise
from tests.oracle.plain_annotation import TYPES, Entry, dictionary_of

RATE = Fraction(1, 100)
ENTRIES = [
    Entry(("anna",), {"NAME": RATE}),
    Entry(("jensen",), {"NAME": RATE}),
    Entry(("odense",), {"LOCATION": RATE}),
    Entry(("holm",), {"NAME": RATE, "STREET": 2 * RATE}),
    Entry(("vang",), {"NAME": RATE, "LOCATION": RATE}),
    Entry(("storgade",), {"STREET": RATE}),
    Entry(("bo",), {"NAME": RATE}, listed=True),  # ratio 10: ambiguous below that
    Entry(("per",), {"NAME": RATE}, listed=True),  # ratio 1000: dropped
]
RATIO = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 10.0, 1000.0])


def annotated(text: str, initials: str = "paper") -> tuple[Annotation, TokenTable]:
    table = tokenise([text])
    dictionary = dictionary_of(ENTRIES)
    key = fold_vocabulary(table.vocabulary)
    rules = Rules(initials=initials)
    tags = tag_identifiers(dictionary, RATIO, rules, [512.0])
    matches = find_matches(Trie.compile(dictionary), table, key)
    return annotate(matches, table, key, dictionary, tags, rules), table


def marked(text: str, initials: str = "paper", ambiguous: str = "non_identifier") -> str:
    """Returns the text with its mentions as ``[Anna](NAME)``."""
    annotation, table = annotated(text, initials)
    mentions = annotation.baseline(0, ambiguous)
    for row in reversed(range(len(mentions))):
        start = table.start_char[mentions.start_token[row]]
        end = table.end_char[mentions.end_token[row] - 1]
        label = TYPES[mentions.label[row]]
        text = f"{text[:start]}[{text[start:end]}]({label}){text[end:]}"
    return text


@pytest.mark.parametrize(
    "expected",
    [
        "[Anna Jensen](NAME) i [Odense](LOCATION)",
        "[Anna](NAME), [Jensen](NAME)",  # a comma stands between
        "[Anna](NAME) [Odense](LOCATION)",
        "Holm er [Odense](LOCATION)",  # ambiguous alone
        "[Anna Holm](NAME)",
        "[Holm Anna](NAME)",
        "[Anna Holm](NAME) [Storgade](STREET)",  # the left neighbour wins
        "[Storgade Holm](STREET) [Anna](NAME)",
        "[Holm Holm Anna](NAME)",  # goes on from right to left
        "[Anna Holm Vang Bo](NAME)",  # and from left to right
        "Bo Holm",
        "[Anna Bo](NAME)",
        "[Anna](NAME)-[Jensen](NAME)",
        "[Anna](NAME) per [Jensen](NAME)",  # dropped: a word like any other
        "Per Holm",
        "[Odense Vang](LOCATION) Holm",
        "",
    ],
)
def test_mentions(expected) -> None:
    plain = expected
    for name in TYPES:
        plain = plain.replace(f"]({name})", "")
    assert marked(plain.replace("[", "")) == expected


PAPER = [
    "[Anna J Jensen](NAME)",
    "[Anna j. Jensen](NAME)",
    "[Anna](NAME) J.P. [Jensen](NAME)",
    "J. [Jensen](NAME)",
    "[Anna](NAME) K [Odense](LOCATION)",
    "[Anna](NAME) 4 [Jensen](NAME)",
    "[Anna](NAME) JP [Jensen](NAME)",
    "[Anna Å. Jensen](NAME)",
    "[Anna A\u030a Jensen](NAME)",
]
EXTENDED = [
    "[Anna J Jensen](NAME)",
    "[Anna j. p Jensen](NAME)",
    "[Anna J.P. Jensen](NAME)",
    "[J. Jensen](NAME)",
    "[JP Jensen](NAME)",
    "[Chr. Jensen](NAME)",
    "[J. P. K. Jensen](NAME)",
    "X. [J. P. K. Jensen](NAME)",  # three in a row
    "[j. Jensen](NAME)",
    "y [Anna](NAME) a [Odense](LOCATION)",  # words, not initials
    "[Anna y Jensen](NAME)",  # as in the paper
    "Dr. [Jensen](NAME)",
    "Per [Jensen](NAME)",  # a word of the dictionary, though dropped here
    "[Anna](NAME) Per [Jensen](NAME)",
    "hos [Jensen](NAME)",
    "[Anna](NAME) K. [Odense](LOCATION)",
    "[Odense](LOCATION) [K. Anna](NAME)",
    "[TH Jensen](NAME) [Storgade](STREET)",
    "ABCD [Jensen](NAME)",
]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("paper", text) for text in PAPER] + [("extended", text) for text in EXTENDED],
)
def test_initials_join_names(mode, expected) -> None:
    plain = expected
    for name in TYPES:
        plain = plain.replace(f"]({name})", "")
    assert marked(plain.replace("[", ""), mode) == expected


def test_initials_can_be_switched_off_and_need_the_type_of_names() -> None:
    assert marked("Anna J. Jensen", "off") == "[Anna](NAME) J. [Jensen](NAME)"
    dictionary = dictionary_of([Entry(("anna",), {"PER": RATE})], types=["PER"])
    table = tokenise(["Anna J. Anna"])
    key = fold_vocabulary(table.vocabulary)
    for name, expected in (("NAME", 2), ("PER", 1)):
        rules = Rules(name_type=name)
        tags = tag_identifiers(dictionary, np.array([1.0]), rules, [None])
        matches = find_matches(Trie.compile(dictionary), table, key)
        result = annotate(matches, table, key, dictionary, tags, rules)
        assert len(result.mentions(0)) == expected


def test_baseline_may_take_the_most_likely_type_of_ambiguous_matches() -> None:
    text = "Holm Storgade og Vang, Bo Holm"
    assert marked(text) == "[Holm Storgade](STREET) og Vang, Bo Holm"
    assert marked(text, ambiguous="identifier") == (
        "[Holm Storgade](STREET) og [Vang](LOCATION), [Bo](NAME) [Holm](STREET)"
    )  # Vang: equal rates, the first type of the grid


def test_ambiguous_matches_are_told_with_their_types() -> None:
    annotation, _ = annotated("Holm er Bo i Odense")
    left = annotation.ambiguous(0)
    assert left.start_token.tolist() == [0, 2]
    names = [{n for t, n in enumerate(TYPES) if int(mask) >> t & 1} for mask in left.types]
    assert names == [{"NAME", "STREET"}, {"NAME"}]
    assert left.non_identifier.tolist() == [False, True]
    assert annotation.has_ambiguous.tolist() == [1] and annotation.has_mention.tolist() == [1]


def test_a_ceiling_that_is_not_there_is_refused() -> None:
    with pytest.raises(IndexError, match="ceiling 1 of 1"):
        annotated("Anna")[0].mentions(1)


def test_sentences_without_any_match_are_ordinary() -> None:
    annotation, _ = annotated("Ingen her")  # CASES R37
    assert annotation.num_sentences == 1
    assert annotation.has_mention.tolist() == annotation.has_ambiguous.tolist() == [0]
    assert len(annotation.mentions(0)) == len(annotation.ambiguous(0)) == 0
    assert len(annotation.baseline(0, "identifier")) == 0


WORDS = ["Anna", "Jensen", "Odense", "Holm", "Vang", "Storgade", "Bo", "Per", "er", "J.", "P", ","]


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), max_size=4),
    st.sampled_from(["paper", "extended", "off"]),
    st.lists(st.sampled_from([1.0, 5.0, 50.0, 5000.0]), min_size=1, max_size=12),
)
def test_mentions_are_what_the_dictionary_finds_at_each_ceiling(texts, initials, ceilings) -> None:
    # Two ways: bits of all ceilings at once, and one ceiling's matches merged one by one.
    table = tokenise(texts)
    dictionary = dictionary_of(ENTRIES)
    key = fold_vocabulary(table.vocabulary)
    rules = Rules(initials=initials)
    tags = tag_identifiers(dictionary, RATIO, rules, ceilings)
    matches = find_matches(Trie.compile(dictionary), table, key)
    annotation = annotate(matches, table, key, dictionary, tags, rules)
    for ceiling in range(len(ceilings)):
        ours, other = annotation.mentions(ceiling), annotation.baseline(ceiling)
        assert ours.keys().tolist() == other.keys().tolist()
