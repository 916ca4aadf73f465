"""The real dictionaries: dirt, sizes and rates as their SOURCE.md states them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from deidsearch.store.database import Database
from deidsearch.store.dictionaries import (
    Dictionary,
    Source,
    WordList,
    compile_dictionary,
    load_dictionary,
    save_dictionary,
)


@pytest.fixture(scope="module")
def danish(shared: Path) -> Dictionary:
    folder = shared / "data" / "dictionaries" / "da"
    types = {
        "NAME": [Source(folder / "names_first.csv"), Source(folder / "names_last.csv.gz")],
        "STREET": [Source(folder / "streets.csv")],
        "LOCATION": [
            Source(folder / "locations.csv"),
            Source(folder / "countries.csv", scale=0.001),
        ],
    }
    words = folder / "non_identifiers"
    lists = [
        WordList("general", words / "general.txt.gz", lowercase_entries_only=True),
        WordList("diseases", words / "diseases.txt"),
    ]
    return compile_dictionary(types, lists)


def row_of(dictionary: Dictionary, key: str) -> int:
    return dictionary.key.index(key).as_py()


def test_danish_dirt_is_counted_and_left_out(danish: Dictionary) -> None:
    rows = Counter((row["source"], row["reason"]) for row in danish.removed.to_pylist())
    assert rows["names_first.csv", "single letter"] == 23
    assert rows["names_first.csv", "empty"] == 1
    assert rows["general", "capitalised (lowercase_entries_only)"] >= 15_851
    keys = set(danish.key.to_pylist())
    assert not keys & {"000", "ej efternavn", "", "x", "ø"}
    assert {"barn", "anne - marie", "10 . februar vej", "rene '", "rené", "h & m"} <= keys


def test_danish_rates_sum_to_one_over_known_counts(danish: Dictionary) -> None:
    known = ~np.isnan(danish.counts)
    for column in range(len(danish.types)):
        assert danish.rates[known[:, column], column].sum() == pytest.approx(1.0)
        lacking = (danish.rates[:, column] > 0) & ~known[:, column]
        smallest = danish.rates[known[:, column], column].min()
        assert (danish.rates[lacking, column] == smallest).all()


def test_danish_words_that_are_names_too(danish: Dictionary) -> None:
    names = danish.types.index("NAME")
    row = row_of(danish, "og")
    assert danish.rates[row, names] > 0 and danish.non_identifier[row] & 1
    assert danish.non_identifier[row_of(danish, "jensen")] == 0
    assert ((danish.rates > 0).sum(axis=1) > 1).sum() > 3_500


def test_half_a_million_identifiers_come_back_from_the_store(
    danish: Dictionary, tmp_path: Path
) -> None:  # CASES R35
    assert len(danish) > 465_000
    with Database(tmp_path / "s.duckdb", tmp_path / "tmp") as database:
        save_dictionary(database, danish)
        loaded = load_dictionary(database, danish.digest)
    assert loaded is not None and loaded.key.equals(danish.key)
    np.testing.assert_array_equal(loaded.rates, danish.rates)
    np.testing.assert_array_equal(loaded.tokens, danish.tokens)
    np.testing.assert_array_equal(loaded.non_identifier, danish.non_identifier)


def test_spanish_capitals_without_accents_meet_accented_text(shared: Path) -> None:
    folder = shared / "data" / "dictionaries" / "es"
    streets = Source(
        folder / "streets.csv", variants={"calle": ["c/", "c."], "avenida": ["av.", "avda."]}
    )
    found = compile_dictionary(
        {
            "NAME": [Source(folder / "names_last.csv")],
            "STREET": [streets],
            "LOCATION": [Source(folder / "locations.csv")],
        },
        [WordList("general", folder / "non_identifiers" / "general.txt")],
        fold_accents=True,
    )
    keys = set(found.key.to_pylist())
    # ñ is an n with an accent, so it is folded too.
    assert {"garcia", "de la cruz", "calle de goya", "c / de goya", "coruna , a"} <= keys
    reasons = Counter(row["reason"] for row in found.removed.to_pylist())
    assert reasons["can never match (damaged text)"] == 24
    assert reasons["no letter"] >= 2 and reasons["single letter"] >= 1
    assert found.all_words_common[row_of(found, "calle mayor")]
    variants = found.is_variant.sum()
    assert variants > 50_000
    assert all(rate > 0 for rate in found.rates[found.is_variant, found.types.index("STREET")])
