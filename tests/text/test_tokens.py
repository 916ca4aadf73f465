"""The tokeniser cuts by character class alone and its offsets point into the original text."""

from __future__ import annotations

import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deidsearch.text.tokens import concatenate, fold, fold_vocabulary, is_word, tokenise

NASTY = (
    "aA1éÉøßİıſΣς\u0301\u0327 -_--__.,;:/'\""
    "\t\n\r\x0b\x85\u2028\xa0\ufeff\u200b\u00ad😀👨‍👩½²٣中﷽\x00\x07"
)
texts = st.lists(st.one_of(st.text(alphabet=NASTY, max_size=30), st.text(max_size=20)), max_size=6)


def surfaces(table):
    names = table.vocabulary.to_pylist()
    return [
        [names[number] for number in table.token[start:end]]
        for start, end in zip(table.offsets[:-1], table.offsets[1:], strict=True)
    ]


def naive(text: str) -> list[tuple[int, int]]:
    """The rule of METHOD §1.5 one character at a time."""
    tokens: list[tuple[int, int]] = []
    kind_before = "blank"
    for position, character in enumerate(text):
        category = unicodedata.category(character)
        if character in "\u00ad\u200c\u200d\u2060" or category[0] in "LNM":
            kind = "word"
        elif category[0] == "Z" or category == "Cc" or character in "\ufeff\u200b":
            kind = "blank"
        elif character in "-_":
            kind = character
        else:
            kind = "symbol"
        if kind != "blank":
            if kind == kind_before and kind != "symbol":
                tokens[-1] = (tokens[-1][0], position + 1)
            else:
                tokens.append((position, position + 1))
        kind_before = kind
    return tokens


@given(texts)
def test_tokens_equal_a_walk_over_the_characters(sentences):
    table = tokenise(sentences)
    assert len(table) == len(sentences)
    for number, text in enumerate(sentences):
        rows = slice(table.offsets[number], table.offsets[number + 1])
        found = list(zip(table.start_char[rows], table.end_char[rows], strict=True))
        assert found == naive(text)
        for (start, end), surface in zip(found, surfaces(table)[number], strict=True):
            original = text[start:end]
            if set(original) in ({"-"}, {"_"}):
                original = original[0]
            assert surface == original.encode("utf-8", "replace").decode() or "\ufffd" in surface


@given(texts)
def test_a_sentence_is_cut_alike_alone_and_among_others(sentences):
    table = tokenise(sentences)
    alone = concatenate([tokenise([text]) for text in sentences])
    assert surfaces(alone) == surfaces(table)
    assert (alone.start_char == table.start_char).all()
    taken = table.take(np.arange(len(sentences))[::-1])
    assert surfaces(taken) == surfaces(table)[::-1]
    assert table.words().tolist() == [
        sum(any(unicodedata.category(c)[0] in "LN" for c in token) for token in row)
        for row in surfaces(table)
    ]


@given(texts)
def test_each_surface_is_folded_as_it_is_alone(sentences):
    vocabulary = tokenise(sentences).vocabulary
    for accents in (False, True):
        keys = fold_vocabulary(vocabulary, accents).to_pylist()
        assert keys == [fold(surface, accents) for surface in vocabulary.to_pylist()]


@given(st.text(max_size=20))
def test_folding_twice_changes_nothing_more(text):
    for accents in (False, True):
        once = fold(text, accents)
        assert fold(once, accents) == once


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("anne-marie", ["anne", "-", "marie"]),
        ("c/ Mayor", ["c", "/", "Mayor"]),
        ("J. O'Brien", ["J", ".", "O", "'", "Brien"]),
        ("10mg x2", ["10mg", "x2"]),
        ("navn:____ --- slut", ["navn", ":", "_", "-", "slut"]),
        ("\ufeffAnna\u00a0Bo", ["Anna", "Bo"]),
        ("Køben\u00adhavn", ["Køben\u00adhavn"]),
        ("", []),
        (" \r\n ", []),
    ],
)
def test_examples(text, tokens):
    assert surfaces(tokenise([text])) == [tokens]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("KØGE", "køge"), ("Straße", "STRASSE"), ("e\u0301t", "ét"), ("ΣΟΦΟΣ", "σοφος"),
        ("İstanbul", "İSTANBUL"), ("Køben\u00adhavn", "københavn"),
    ],
)  # fmt: skip
def test_spellings_that_are_one_word_share_a_key(first, second):
    assert fold(first) == fold(second)


def test_accents_fold_only_when_asked():
    assert fold("GARCÍA") == "garcía"
    assert fold("GARCÍA", fold_accents=True) == fold("garcia", fold_accents=True) == "garcia"
    assert fold("Ñoño", fold_accents=True) == "nono"
    assert fold("Ærø", fold_accents=True) == "ærø"


def test_a_word_has_a_letter_or_digit():
    assert is_word(pa.array(["a", "7", ".", "-", "é", "\u0301", "中"])).tolist() == [
        True, True, False, False, True, False, True,
    ]  # fmt: skip


def test_lone_surrogates_do_not_stop_a_corpus():
    table = tokenise(["a \ud800 b", "c"])
    assert table.start_char.tolist() == [0, 2, 4, 0]
