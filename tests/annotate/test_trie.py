"""Bulk matching: whole tokens, any case, any white space; saved and loaded; cut to a prefix."""

from __future__ import annotations

import stat
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from deidsearch.annotate.automaton import TextMatcher
from deidsearch.annotate.matches import Matches, join_matches
from deidsearch.annotate.trie import Trie, find_matches
from deidsearch.text.tokens import TokenTable, fold, fold_vocabulary, tokenise
from tests.oracle.plain_annotation import Entry, dictionary_of

NAMES = ("anne", "anne-marie", "jensen", "anne jensen", "de la cruz", "o'brien", "dr. tværgade")
NAMES += ("vestre stationsvej", "c/ mayor", "straße", "i̇zmir")


def entries_of(*names: str) -> list[Entry]:
    tables = [tokenise([name]) for name in names]
    words = [tuple(fold(table.vocabulary[t].as_py()) for t in table.token) for table in tables]
    return [Entry(key, {"NAME": Fraction(1, 10)}) for key in words]


def search(texts: list[str], *names: str) -> tuple[Matches, TokenTable]:
    table = tokenise(texts)
    trie = Trie.compile(dictionary_of(entries_of(*names)))
    return find_matches(trie, table, fold_vocabulary(table.vocabulary)), table


def found(text: str, *names: str) -> list[str]:
    """Returns the annotated pieces of a text."""
    matches, table = search([text], *names)
    chosen = matches.take(matches.selected)
    start = table.start_char[chosen.start_token]
    end = table.end_char[chosen.end_token - 1]
    return [text[b:e] for b, e in zip(start.tolist(), end.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Anne-Marie bor her", ["Anne-Marie"]),  # CASES R03
        ("ANNE - MARIE", ["ANNE - MARIE"]),
        ("anne--marie", ["anne--marie"]),  # a run of hyphens is one
        ("María de la Cruz", ["de la Cruz"]),
        ("mr O'Brien's", ["O'Brien"]),
        ("Dr. Tværgade 4", ["Dr. Tværgade"]),
        ("vestre\nstationsvej, VESTRE \t STATIONSVEJ", ["vestre\nstationsvej",
                                                        "VESTRE \t STATIONSVEJ"]),  # R34, R08
        ("C/Mayor 3", ["C/Mayor"]),
        ("annex Jensens jensen.", ["jensen"]),  # whole tokens only
        ("STRASSE straße Straße", ["STRASSE", "straße", "Straße"]),
        ("fra İzmir til", ["İzmir"]),  # R02: its lower case is longer
        ("i\u0307zmir", ["i\u0307zmir"]),
        ("", []),
        (" \n ", []),
        ("😀jensen😀", ["jensen"]),
    ],
)  # fmt: skip
def test_entries_match_whole_tokens_in_any_case_and_spacing(text, expected) -> None:
    assert found(text, *NAMES) == expected
    matcher = TextMatcher(dictionary_of(entries_of(*NAMES)))
    assert [text[m.start_char : m.end_char] for m in matcher.find(text)] == expected


def test_every_occurrence_is_there_but_only_leftmost_longest_is_selected() -> None:
    matches, _ = search(["Anne Jensen Jensen"], "anne", "jensen", "anne jensen")
    rows = zip(
        matches.start_token.tolist(), matches.end_token.tolist(), matches.selected.tolist(),
        strict=True,
    )  # fmt: skip
    assert list(rows) == [(0, 1, False), (0, 2, True), (1, 2, False), (2, 3, True)]


def test_no_match_runs_over_two_sentences() -> None:
    matches, _ = search(["hos Anne", "Jensen", "", "Anne"], "anne jensen", "jensen")
    assert matches.sentence.tolist() == [1]


def test_prefix_equals_a_search_of_the_prefix() -> None:
    texts = ["Anne", "nej", "Jensen anne jensen", "", "jensen"]
    every, _ = search(texts, "anne", "jensen", "anne jensen")
    for number in range(len(texts) + 2):
        alone, _ = search(texts[:number], "anne", "jensen", "anne jensen")
        part = every.until(number)
        assert part.num_sentences == alone.num_sentences
        for name in ("sentence", "start_token", "end_token", "identifier", "selected"):
            assert (getattr(part, name) == getattr(alone, name)).all()
    joined = join_matches([every.until(2), search(texts[2:], "anne", "jensen", "anne jensen")[0]])
    assert (joined.sentence == every.sentence).all() and joined.num_sentences == len(texts)


def test_saved_trie_and_matches_are_private_and_the_same(tmp_path) -> None:
    table = tokenise(["Anne Jensen og O'Brien", "ingen"])
    key = fold_vocabulary(table.vocabulary)
    trie = Trie.compile(dictionary_of(entries_of(*NAMES)))
    folder = trie.save(tmp_path / "trie")
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in folder.iterdir())
    matches = find_matches(trie, table, key)
    matches.save(tmp_path / "matches")
    loaded = Trie.load(folder)
    assert loaded.digest == trie.digest and loaded.token_key.equals(trie.token_key)
    for other in (find_matches(loaded, table, key), Matches.load(tmp_path / "matches")):
        assert other.num_sentences == 2
        assert (other.identifier == matches.identifier).all()
        assert (other.selected == matches.selected).all()


def test_nothing_to_find_and_nothing_to_search() -> None:
    matches, _ = search([], "anne")
    assert len(matches) == 0 and matches.num_sentences == 0
    matches, _ = search(["", "hej"], "anne")
    assert len(matches) == 0 and matches.num_sentences == 2
    assert TextMatcher(dictionary_of([])).find("Anne") == []
    trie = Trie.compile(dictionary_of([]))
    table = tokenise(["Anne"])
    assert len(find_matches(trie, table, fold_vocabulary(table.vocabulary))) == 0


def test_key_of_another_vocabulary_is_refused() -> None:
    table = tokenise(["Anne Jensen"])
    trie = Trie.compile(dictionary_of(entries_of("anne")))
    with pytest.raises(ValueError, match="1 keys for a vocabulary of 2"):
        find_matches(trie, table, pa.array(["anne"]))


def test_saved_automaton_finds_the_same(tmp_path) -> None:
    text = "Hos Anne-Marie de la Cruz, vestre\r\nstationsvej"
    matcher = TextMatcher(dictionary_of(entries_of(*NAMES)))
    loaded = TextMatcher.load(matcher.save(tmp_path / "matcher"))
    assert loaded.find(text) == matcher.find(text) != []
    assert loaded.find(text, all=True) == matcher.find(text, all=True)
    empty = TextMatcher.load(TextMatcher(dictionary_of([])).save(tmp_path / "empty"))
    assert empty.find(text) == []


def test_automaton_folds_accents_as_the_dictionary_did() -> None:
    matcher = TextMatcher(dictionary_of(entries_of("garcia")), fold_accents=True)
    assert [m.end_char for m in matcher.find("GARCÍA")] == [6]


def test_long_text_of_one_repeated_name_is_matched_in_steps_that_grow_with_it() -> None:
    matches, _ = search(["anne " * 5001], "anne anne")
    assert len(matches) == 5000 and int(matches.selected.sum()) == 2500
    assert np.diff(matches.start_token[matches.selected]).tolist() == [2] * 2499
