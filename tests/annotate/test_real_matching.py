"""Real Danish places in real Danish sentences: trie, automaton and entries agree."""

from __future__ import annotations

import json

import numpy as np
import pytest

from deidsearch.annotate.automaton import TextMatcher
from deidsearch.annotate.trie import Trie, find_matches
from deidsearch.store.dictionaries import Source, compile_dictionary
from deidsearch.text.tokens import fold_vocabulary, tokenise


@pytest.mark.slow
def test_trie_and_automaton_agree_and_each_match_equals_its_entry(shared) -> None:
    folder = shared / "data" / "dictionaries" / "da"
    dictionary = compile_dictionary(
        {
            "STREET": [Source(path=folder / "streets.csv")],
            "LOCATION": [Source(path=folder / "locations.csv")],
        }
    )
    corpus = shared / "data" / "corpora" / "danish_ddt_danplus" / "dev.jsonl"
    texts = [json.loads(line)["text"] for line in corpus.read_text("utf-8").splitlines()]
    table = tokenise(texts)
    key = fold_vocabulary(table.vocabulary)
    matches = find_matches(Trie.compile(dictionary), table, key)
    matcher = TextMatcher(dictionary)
    keys, found = key.to_pylist(), 0
    for number, text in enumerate(texts):
        first = table.offsets[number]
        rows = np.flatnonzero((matches.sentence == number) & matches.selected)
        start, end = first + matches.start_token[rows], first + matches.end_token[rows]
        spans = zip(
            table.start_char[start].tolist(),
            table.end_char[end - 1].tolist(),
            matches.identifier[rows].tolist(),
            strict=True,
        )
        hits = matcher.find(text)
        assert [(m.start_char, m.end_char, m.identifier) for m in hits] == list(spans)
        for begin, stop, row in zip(start, end, rows, strict=True):
            words = " ".join(keys[token] for token in table.token[begin:stop])
            assert words == dictionary.key[int(matches.identifier[row])].as_py()
        found += len(hits)
    assert found > 100
