"""Sharded matching equals the walk in one process, over real Ray; shards may be repeated."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from deidsearch.annotate import shards
from deidsearch.annotate.matches import Matches
from deidsearch.annotate.trie import Trie, find_matches
from deidsearch.files import save_arrays
from deidsearch.text.tokens import fold_vocabulary, tokenise
from tests.annotate.test_trie import NAMES, entries_of
from tests.oracle.plain_annotation import dictionary_of

TEXTS = ["Anne-Marie Jensen", "", "ingen", "O'Brien i Vestre Stationsvej", "anne jensen"] * 7


@pytest.fixture
def corpus():
    table = tokenise(TEXTS)
    return Trie.compile(dictionary_of(entries_of(*NAMES))), table, fold_vocabulary(table.vocabulary)


def assert_same(one: Matches, other: Matches) -> None:
    assert one.num_sentences == other.num_sentences
    for name in ("sentence", "start_token", "end_token", "identifier", "selected"):
        assert (getattr(one, name) == getattr(other, name)).all()


def test_small_corpora_never_start_ray(corpus, tmp_path, monkeypatch) -> None:
    def refuse(*_args) -> None:
        raise AssertionError("Ray was started")

    monkeypatch.setattr(shards, "_run_actors", refuse)
    assert_same(shards.match_corpus(*corpus, folder=tmp_path), find_matches(*corpus))


def test_a_repeated_shard_leaves_the_same(corpus, tmp_path) -> None:
    trie, table, key = corpus
    number = shards.number_tokens(trie, table, key)
    save_arrays(tmp_path / "input" / "0", number=number, offsets=table.offsets)
    for _ in range(2):
        assert shards.match_shard(trie, tmp_path, "0") == "0"
        assert_same(Matches.load(tmp_path / "output" / "0"), find_matches(*corpus))
    assert sorted(file.name for file in (tmp_path / "output").iterdir()) == ["0"]


@pytest.mark.ray
@pytest.mark.slow
def test_actors_find_what_one_process_finds(corpus, tmp_path) -> None:
    ray = pytest.importorskip("ray")
    found = shards.match_corpus(*corpus, folder=tmp_path / "work", threshold=10, num_actors=2)
    assert_same(found, find_matches(*corpus))
    assert not ray.is_initialized()
    assert list((tmp_path / "work").iterdir()) == []
    assert (tmp_path / "work").stat().st_mode & 0o777 == 0o700
    trie, table, key = corpus
    none = table.take(np.empty(0, np.int64))
    folder = trie.save(tmp_path / "trie")
    empty = shards.find_matches_sharded(folder, none, key, folder=tmp_path / "none", num_actors=2)
    assert len(empty) == empty.num_sentences == 0


def test_ray_is_local_unless_an_address_is_given() -> None:
    for function in (shards.match_corpus, shards.find_matches_sharded):
        assert inspect.signature(function).parameters["address"].default == "local"
