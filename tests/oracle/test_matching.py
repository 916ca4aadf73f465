"""The trie and the automaton against a naive scan."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deidsearch.annotate import trie as trie_module
from deidsearch.annotate.automaton import TextMatcher
from deidsearch.annotate.matches import select_leftmost_longest
from deidsearch.annotate.trie import Trie, find_matches
from deidsearch.text.tokens import fold, fold_vocabulary, tokenise
from tests.oracle.plain_annotation import (
    Entry,
    dictionary_of,
    entry_lists,
    leftmost_longest,
    occurrences,
    sentence_lists,
)


def folded(sentence) -> list[str]:
    return [fold(surface) for surface in sentence]


def rows(matches, sentence: int, only_selected: bool) -> list[tuple[int, int, int]]:
    chosen = matches.sentence == sentence
    if only_selected:
        chosen = chosen & matches.selected
    columns = (matches.start_token, matches.end_token, matches.identifier)
    return list(zip(*(column[chosen].tolist() for column in columns), strict=True))


@settings(max_examples=100, deadline=None)
@given(entry_lists(), sentence_lists, st.sampled_from([1, 3, 1 << 20]))
def test_trie_finds_what_a_naive_scan_finds(entries, sentences, block) -> None:
    table = tokenise([" ".join(sentence) for sentence in sentences])
    trie = Trie.compile(dictionary_of(entries))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trie_module, "_BLOCK_TOKENS", block)
        matches = find_matches(trie, table, fold_vocabulary(table.vocabulary))
    assert matches.num_sentences == len(sentences)
    for number, sentence in enumerate(sentences):
        expected = occurrences(folded(sentence), entries)
        assert rows(matches, number, False) == expected
        assert rows(matches, number, True) == leftmost_longest(expected)


@settings(max_examples=100, deadline=None)
@given(entry_lists(), st.lists(st.sampled_from(["Anna", "jensen", "per", "-", ".", "og"])))
def test_automaton_finds_what_a_naive_scan_finds(entries, sentence) -> None:
    text = "\n".join(sentence)
    matcher = TextMatcher(dictionary_of(entries))
    expected = occurrences(folded(sentence), entries)
    start = np.cumsum([0] + [len(word) + 1 for word in sentence])

    def in_text(found):
        return [(start[b], start[e - 1] + len(sentence[e - 1]), k) for b, e, k in found]

    every = [(m.start_char, m.end_char, m.identifier) for m in matcher.find(text, all=True)]
    taken = [(m.start_char, m.end_char, m.identifier) for m in matcher.find(text)]
    assert every == in_text(expected)
    assert taken == in_text(leftmost_longest(expected))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text(max_size=8), min_size=1, max_size=8), st.lists(st.text(), max_size=4))
def test_any_text_gives_the_same_from_trie_and_automaton(keys, texts) -> None:
    words = [tuple(folded_words(key)) for key in keys]
    entries = [Entry(word, {"NAME": Fraction(1, 2)}) for word in dict.fromkeys(words) if any(word)]
    texts = [*texts, " ".join(keys)]
    dictionary = dictionary_of(entries)
    table = tokenise(texts)
    matches = find_matches(Trie.compile(dictionary), table, fold_vocabulary(table.vocabulary))
    matcher = TextMatcher(dictionary)
    for number, text in enumerate(texts):
        first = table.offsets[number]
        expected = [
            (table.start_char[first + start], table.end_char[first + end - 1], identifier)
            for start, end, identifier in rows(matches, number, True)
        ]
        found = [(m.start_char, m.end_char, m.identifier) for m in matcher.find(text)]
        assert found == expected
        for match in matcher.find(text, all=True):
            # The matched text equals the entry after the declared folding (CASES R32).
            matched = text[match.start_char : match.end_char]
            assert tuple(folded_words(matched)) == entries[match.identifier].words


def folded_words(text: str) -> list[str]:
    table = tokenise([text])
    keys = fold_vocabulary(table.vocabulary).to_pylist()
    return [keys[number] for number in table.token]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), unique=True))
def test_leftmost_longest_equals_a_reader(spans) -> None:
    spans = sorted((start, start + length, 0) for start, length in spans)
    start = np.array([span[0] for span in spans], dtype=np.int64)
    end = np.array([span[1] for span in spans], dtype=np.int64)
    taken = select_leftmost_longest(start, end)
    assert [span for span, is_taken in zip(spans, taken, strict=True) if is_taken] == (
        leftmost_longest(spans)
    )
