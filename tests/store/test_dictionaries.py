"""Compiling and storing dictionaries, against a plain Python reading of METHOD §1, §2 and §5b."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deidsearch.errors import InputError
from deidsearch.store import dictionary_records
from deidsearch.store.database import Database
from deidsearch.store.dictionaries import (
    PLACEHOLDERS,
    Dictionary,
    Source,
    WordList,
    compile_dictionary,
    dictionary_digest,
    load_dictionary,
    save_dictionary,
)
from deidsearch.text.tokens import fold, tokenise


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Returns a function that writes a file and returns its path."""

    def write(name: str, content: str) -> Path:
        (tmp_path / name).write_text(content, encoding="utf-8")
        return tmp_path / name

    return write


def row_of(dictionary: Dictionary, key: str) -> int:
    return dictionary.key.to_pylist().index(key)


def rate_of(dictionary: Dictionary, key: str, column: int = 0) -> float:
    return float(dictionary.rates[row_of(dictionary, key), column])


def removed(dictionary: Dictionary) -> list[tuple[str, int, str]]:
    return [tuple(row.values()) for row in dictionary.removed.to_pylist()]


def remarks(dictionary: Dictionary) -> list[tuple[str, int, str]]:
    return [tuple(row.values()) for row in dictionary.remarks.to_pylist()]


# -- rates (METHOD §1.3) -----------------------------------------------------------------------


def test_rate_is_the_share_of_the_types_known_counts(make: Any) -> None:
    names = Source(make("a.csv", "identifier,count\nHansen,30\nJensen,50\n"))
    more = Source(make("b.csv", "identifier,count\nJENSEN,20\n"))
    places = Source(make("c.csv", "identifier,count\nOdense,7\nJensen,1\n"))
    found = compile_dictionary({"NAME": [names, more], "LOCATION": [places]})
    assert found.key.to_pylist() == ["hansen", "jensen", "odense"]
    assert found.rates.tolist() == [[0.3, 0.0], [0.7, 0.125], [0.0, 0.875]]
    assert found.type_mask.tolist() == [1, 3, 2]
    assert found.is_ambiguous.tolist() == [False, True, False]
    assert remarks(found) == [("b.csv", 2, "merged with an equal entry")]


def test_unknown_counts_take_the_smallest_known_rate_of_their_type(make: Any) -> None:
    text = "identifier,count\nHansen,30\nJensen,70\nSmed,\nOg,0\n"
    found = compile_dictionary({"NAME": [Source(make("a.csv", text))]})
    assert found.key.to_pylist() == ["hansen", "jensen", "smed", "og"]
    assert found.rates[:, 0].tolist() == [0.3, 0.7, 0.3, 0.3]
    assert np.isnan(found.counts[row_of(found, "smed"), 0])
    assert remarks(found) == [("a.csv", 5, "count 0, taken as unknown")]
    assert removed(found) == []


def test_without_any_count_all_rates_are_one_over_the_entries(make: Any) -> None:
    text = "identifier,count\nA Berg,1\nB Berg,2\nb berg,2\nC Berg,3\nD Berg,4\n"
    path = make("a.csv", text)
    lines = make("a.txt", "a berg\nB berg\nc berg\nd berg")
    for source in (Source(path, count=None), Source(lines)):
        assert compile_dictionary({"N": [source]}).rates.tolist() == [[0.25]] * 4


def test_known_duplicate_overrides_an_unknown_one(make: Any) -> None:
    text = "identifier,count\nHansen,\nhansen,3\nHANSEN,0\nJensen,1\n"
    found = compile_dictionary({"NAME": [Source(make("a.csv", text))]})
    assert rate_of(found, "hansen") == 0.75
    assert found.counts[:, 0].tolist() == [3.0, 1.0]


def test_scale_multiplies_before_summing(make: Any) -> None:
    own = Source(make("a.csv", "identifier,count\nOdense,6\n"))
    world = make("b.csv", "identifier,count\nFrance,2000\nNorge,\n")
    found = compile_dictionary({"L": [own, Source(world, scale=0.001)]})
    assert [rate_of(found, key) for key in ("odense", "france", "norge")] == pytest.approx(
        [0.75, 0.25, 0.25]
    )


def test_removed_rows_are_no_part_of_the_sum(make: Any) -> None:
    text = "identifier,count\n000,12058\nEj Efternavn,432\nX,9\n,731\n106,5\nHans,3\nBo,1\n"
    found = compile_dictionary({"NAME": [Source(make("a.csv", text))]})
    assert found.rates[:, 0].tolist() == [0.75, 0.25]
    assert sorted(removed(found), key=lambda row: row[1]) == [
        ("a.csv", 2, "placeholder"),
        ("a.csv", 3, "placeholder"),
        ("a.csv", 4, "single letter"),
        ("a.csv", 5, "empty"),
        ("a.csv", 6, "no letter"),
    ]


# -- non-identifiers (METHOD §2) ---------------------------------------------------------------


def test_each_list_that_has_an_identifier_is_kept_apart(make: Any) -> None:
    names = Source(make("a.txt", "Bo\nHans\nJuni\nDr. Hus\n"))
    lists = [
        WordList("words", make("w.txt", "bo\nJUNI\n")),
        WordList("clinic", make("c.txt", "juni\ndr.  hus\n")),
    ]
    found = compile_dictionary({"NAME": [names]}, lists)
    assert found.sources == ("words", "clinic")
    assert found.non_identifier.tolist() == [1, 0, 3, 2]


def test_single_words_of_terms_count_only_where_split(make: Any) -> None:
    names = {"NAME": [Source(make("a.txt", "Ring\nSmed-Bo\nBlå Ring\n"))]}
    path = make("w.txt", "gul ring\nsmed-bo\nblå\n")
    whole = compile_dictionary(names, [WordList("w", path)])
    assert whole.non_identifier.tolist() == [0, 1, 0]
    assert whole.all_words_common.tolist() == [False, False, False]
    split = compile_dictionary(names, [WordList("w", path, split=True)])
    assert split.non_identifier.tolist() == [1, 1, 0]
    assert split.all_words_common.tolist() == [False, True, True]


def test_words_may_be_common_in_different_lists_and_marks_are_no_words(make: Any) -> None:
    text = "del cuadro\nAnne-Marie\nla.\ncalle mayor 3\n"
    lists = [
        WordList("a", make("w.txt", "del\nla\nanne\ncalle\nmayor\n")),
        WordList("b", make("v.txt", "cuadro\n")),
    ]
    found = compile_dictionary({"N": [Source(make("a.txt", text))]}, lists)
    assert found.all_words_common.tolist() == [True, False, False, False]


def test_capitalised_entries_of_a_list_can_be_skipped(make: Any) -> None:
    names = {"NAME": [Source(make("a.txt", "Bo\nHans\n"))]}
    path = make("w.txt", "bo\nHans\n'Hans\n")
    assert compile_dictionary(names, [WordList("w", path)]).non_identifier.tolist() == [1, 1]
    only = WordList("w", path, lowercase_entries_only=True)
    found = compile_dictionary(names, [only])
    assert found.non_identifier.tolist() == [1, 0]
    reason = "capitalised (lowercase_entries_only)"
    assert removed(found) == [("w", 2, reason), ("w", 3, reason)]


# -- variants (METHOD §5b) ---------------------------------------------------------------------


def test_variants_are_identifiers_of_their_own_with_their_entrys_rate(make: Any) -> None:
    names = Source(make("a.csv", "identifier,count\nKeld,3\nBo,1\n"), suffixes=["s"])
    words = [WordList("w", make("w.txt", "bos\n"))]
    found = compile_dictionary({"NAME": [names]}, words)
    assert found.key.to_pylist() == ["keld", "bo", "kelds", "bos"]
    assert found.rates[:, 0].tolist() == [0.75, 0.25, 0.75, 0.25]
    assert found.is_variant.tolist() == [False, False, True, True]
    assert found.non_identifier.tolist() == [0, 0, 0, 1]


def test_listed_entry_of_the_same_type_wins_over_a_variant(make: Any) -> None:
    names = Source(make("a.csv", "identifier,count\nKeld,3\nKelds,1\n"), suffixes=["s"])
    places = Source(make("b.csv", "identifier,count\nKelds,5\n"))
    found = compile_dictionary({"NAME": [names], "L": [places]})
    assert rate_of(found, "kelds") == 0.25
    assert found.key.to_pylist() == ["keld", "kelds", "keldss"]
    assert found.is_variant.tolist() == [False, False, True]


def test_variant_of_one_type_may_be_listed_in_another(make: Any) -> None:
    names = Source(make("a.csv", "identifier,count\nKeld,3\nBo,1\n"), suffixes=["s"])
    places = Source(make("b.csv", "identifier,count\nKelds,5\nOdense,5\n"))
    found = compile_dictionary({"NAME": [names], "L": [places]})
    row = row_of(found, "kelds")
    assert found.rates[row].tolist() == [0.75, 0.5]
    assert not found.is_variant[row]


def test_only_the_sources_that_say_so_have_variants(make: Any) -> None:
    plain = Source(make("a.csv", "identifier,count\nKeld,3\n"))
    with_s = Source(make("b.csv", "identifier,count\nBo,1\n"), suffixes=["s"])
    found = compile_dictionary({"NAME": [plain, with_s]})
    assert found.key.to_pylist() == ["keld", "bo", "bos"]


def test_rates_of_entries_with_one_variant_in_common_add_up(make: Any) -> None:
    text = "identifier,count\nCalle Mayor,1\nCalleja Mayor,2\nSol,5\n"
    variants = {"calle": ["c/", "C /"], "calleja": ["c/"]}
    found = compile_dictionary({"S": [Source(make("a.csv", text), variants=variants)]})
    assert rate_of(found, "c / mayor") == pytest.approx(3 / 8)
    assert found.counts[row_of(found, "c / mayor"), 0] == 3


def test_variants_of_unknown_entries_have_the_smallest_rate_too(make: Any) -> None:
    text = "identifier,count\nAvenida Sol,\nLuna,1\nTierra,3\n"
    source = Source(make("a.csv", text), variants={"avenida": ["av.", "avda."]})
    found = compile_dictionary({"S": [source]}, placeholders=())
    assert rate_of(found, "av . sol") == rate_of(found, "avda . sol") == 0.25


# -- faults ------------------------------------------------------------------------------------


def test_faults_of_all_files_come_in_one_report(make: Any, tmp_path: Path) -> None:  # CASES R31
    types = {
        "NAME": [Source(make("a.csv", "identifier,count\nHans;3\n")), Source(tmp_path / "no.csv")],
        "STREET": [Source(make("b.csv", "identifier,count\nX Vej,some\n"))],
    }
    with pytest.raises(InputError) as raised:
        compile_dictionary({**types, "NAME": types["NAME"][:1]})
    assert [line.split(": ")[0] for line in str(raised.value).splitlines()] == [
        "a.csv, line 2",
        "b.csv, line 2",
    ]
    assert "Hans" not in str(raised.value)
    with pytest.raises(InputError, match="there is no readable file 'no.csv'"):
        compile_dictionary(types)


def test_empty_files_types_and_lists_are_faults(make: Any) -> None:
    names = {"NAME": [Source(make("a.txt", "Hans\n"))]}
    with pytest.raises(InputError, match=r"^e.csv: the file has no entry\.$"):
        compile_dictionary({"NAME": [Source(make("e.csv", "identifier,count\n"))]})
    with pytest.raises(InputError, match="no entry of the type 'NAME' is left after cleaning"):
        compile_dictionary({"NAME": [Source(make("f.txt", "X\n000\n"))]})
    with pytest.raises(InputError, match="the type 'NAME' has no file"):
        compile_dictionary({"NAME": []})
    with pytest.raises(InputError, match="there is no identifier type"):
        compile_dictionary({})
    with pytest.raises(InputError, match="no term of the list 'w' is left"):
        compile_dictionary(names, [WordList("w", make("w.txt", "\n"))])
    words = make("v.txt", "og\n")
    with pytest.raises(InputError, match="two non-identifier lists are called 'w'"):
        compile_dictionary(names, [WordList("w", words), WordList("w", words)])
    with pytest.raises(InputError, match="there are 65 non-identifier lists"):
        compile_dictionary(names, [WordList(str(number), words) for number in range(65)])
    with pytest.raises(InputError, match="scale must be above 0"):
        compile_dictionary({"NAME": [Source(make("a.txt", "Hans\n"), scale=0)]})


# -- store -------------------------------------------------------------------------------------


def assert_same(left: Dictionary, right: Dictionary) -> None:
    for name in (item.name for item in dataclasses.fields(Dictionary)):
        a, b = getattr(left, name), getattr(right, name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, name
            np.testing.assert_array_equal(a, b)
        elif isinstance(a, pa.Table):
            order = [("source", "ascending"), ("row", "ascending"), ("reason", "ascending")]
            assert a.sort_by(order).equals(b.sort_by(order)), name
        elif isinstance(a, pa.Array):
            assert a.equals(b), name
        else:
            assert a == b, name


def test_several_dictionaries_lie_in_one_store(make: Any, tmp_path: Path) -> None:
    text = "identifier,count\nKeld,3\nBo,\nX,2\nOg,0\nÆbelø Å,4\n"
    path = make("w.txt", "bo\nå\næbelø\n")
    words = [WordList(f"w{number}", path) for number in range(64)]
    small = compile_dictionary({"N": [Source(make("a.csv", text))]})
    types = {"N": [Source(make("a.csv", text), suffixes=["s"])], "Ø": [Source(make("b.txt", "Bo"))]}
    large = compile_dictionary(types, words, fold_accents=True)
    assert large.non_identifier.max() == 2**64 - 1
    with Database(tmp_path / "s.duckdb", tmp_path / "tmp") as database:
        assert load_dictionary(database, small.digest) is None
        for dictionary in (small, large, small):
            save_dictionary(database, dictionary)
    with Database(tmp_path / "s.duckdb", tmp_path / "tmp", read_only=True) as database:
        for dictionary in (small, large):
            loaded = load_dictionary(database, dictionary.digest)
            assert loaded is not None
            assert_same(loaded, dictionary)
        assert load_dictionary(database, "0" * 32) is None
        count = "SELECT count(*) AS n FROM identifiers WHERE dictionary = ?"
        assert database.query(count, [small.digest]).column("n")[0].as_py() == len(small)


def test_a_save_that_breaks_leaves_no_half_dictionary(make: Any, tmp_path: Path) -> None:
    found = compile_dictionary({"N": [Source(make("a.txt", "Keld\nBo\n"))]})
    broken = dataclasses.replace(found, is_variant=found.is_variant[:1])
    with Database(tmp_path / "s.duckdb", tmp_path / "tmp") as database:
        with pytest.raises((pa.ArrowException, ValueError)):
            save_dictionary(database, broken)
        assert load_dictionary(database, found.digest) is None
        save_dictionary(database, found)
        assert load_dictionary(database, found.digest) is not None


def test_digest_names_content_and_settings_not_the_folder(make: Any, tmp_path: Path) -> None:
    path = make("a.csv", "identifier,count\nKeld,3\n")
    words = WordList("w", make("w.txt", "og\n"))
    base = dictionary_digest({"N": [Source(path)]}, [words])
    (tmp_path / "moved").mkdir()
    moved = tmp_path / "moved" / "a.csv"
    moved.write_bytes(path.read_bytes())
    assert dictionary_digest({"N": [Source(moved)]}, [words]) == base
    assert compile_dictionary({"N": [Source(path)]}, [words]).digest == base
    others = [
        dictionary_digest({"N": [Source(path, **change)]}, [words])
        for change in (
            {"count": None}, {"scale": 2.0}, {"encoding": "latin-1"}, {"suffixes": ["s"]},
            {"variants": {"a": ["b"], "c": ["d"]}}, {"variants": {"c": ["d"], "a": ["b"]}},
            {"separator": ";"}, {"identifier": "identifier"},
        )
    ]  # fmt: skip
    others += [
        dictionary_digest({"M": [Source(path)]}, [words]),
        dictionary_digest({"N": [Source(path)]}, []),
        dictionary_digest({"N": [Source(path)]}, [dataclasses.replace(words, split=True)]),
        dictionary_digest({"N": [Source(path)]}, [words], fold_accents=True),
        dictionary_digest({"N": [Source(path)]}, [words], placeholders=PLACEHOLDERS[1:]),
    ]
    path.write_text("identifier,count\nKeld,4\n")
    others.append(dictionary_digest({"N": [Source(path)]}, [words]))
    assert len({base, *others}) == 1 + len(others)


def test_digest_changes_with_the_code(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    types = {"N": [Source(make("a.txt", "Keld\n"))]}
    before = dictionary_digest(types)
    monkeypatch.setattr(dictionary_records, "DICTIONARY_VERSION", 999)
    assert dictionary_digest(types) != before


# -- the same in plain Python ------------------------------------------------------------------


def plain_key(text: str) -> str:
    table = tokenise([text])
    return " ".join(fold(table.vocabulary[number].as_py()) for number in table.token.tolist())


def plain_rates(
    rows: Sequence[tuple[str, float | None, bool]],
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the rates of listed entries and of variants with the suffix "s"."""
    counts: dict[str, float | None] = {}
    with_suffix: set[str] = set()
    for text, count, suffixed in rows:
        key = plain_key(text)
        letters = [sign for sign in text if sign.isalpha()]
        if not letters or (len(letters) == 1 and not any(sign.isdigit() for sign in text)):
            continue
        if suffixed:
            with_suffix.add(key)
        counts.setdefault(key, None)
        if count:
            counts[key] = (counts[key] or 0.0) + count
    known = [count for count in counts.values() if count is not None]
    if known:
        smallest = min(known) / sum(known)
        rates = {
            key: smallest if count is None else count / sum(known) for key, count in counts.items()
        }
    else:
        rates = dict.fromkeys(counts, 1 / len(counts)) if counts else {}
    made: dict[str, float] = {}
    for key in sorted(with_suffix):
        variant = plain_key(key + "s")
        if key[-1].isalnum() and variant not in rates:
            made[variant] = made.get(variant, 0.0) + rates[key]
    return rates, made


WORDS = st.sampled_from(
    ["bo", "Bo", "BO", "bos", "hans", "Ø", "ø.", "3", "anne", "-", "r2", "straße"]
)
ENTRIES = st.tuples(
    st.lists(WORDS, max_size=3).map(" ".join),
    st.one_of(st.none(), st.integers(0, 50).map(float)),
)
TERMS = st.lists(st.lists(WORDS, min_size=1, max_size=2).map(" ".join), min_size=1, max_size=6)


@given(
    st.lists(st.lists(ENTRIES, min_size=1, max_size=6), min_size=2, max_size=2),
    st.lists(ENTRIES, min_size=1, max_size=6),
    st.lists(TERMS, max_size=2),
)
@settings(max_examples=60, deadline=None)
def test_compiled_dictionary_equals_the_plain_reading(
    tmp_path_factory: pytest.TempPathFactory,
    names: list[list[tuple[str, float | None]]],
    places: list[tuple[str, float | None]],
    lists: list[list[str]],
) -> None:
    folder = tmp_path_factory.mktemp("plain")

    def source(name: str, rows: list[tuple[str, float | None]], suffixes: list[str]) -> Source:
        columns = {
            "identifier": pa.array([text for text, _ in rows], pa.string()),
            "count": pa.array([count for _, count in rows], pa.float64()),
        }
        pq.write_table(pa.table(columns), folder / name)
        return Source(folder / name, suffixes=suffixes)

    types = {
        "NAME": [source("a.parquet", names[0], ["s"]), source("b.parquet", names[1], [])],
        "LOCATION": [source("c.parquet", places, [])],
    }
    words = []
    for number, terms in enumerate(lists):
        (folder / f"{number}.txt").write_text("\n".join(terms), encoding="utf-8")
        words.append(WordList(str(number), folder / f"{number}.txt"))
    expected: dict[str, Mapping[str, float]] = {}
    listed: set[str] = set()
    plain = {
        "NAME": plain_rates(
            [(*row, True) for row in names[0]] + [(*row, False) for row in names[1]]
        ),
        "LOCATION": plain_rates([(*row, False) for row in places]),
    }
    for kind, (rates, made) in plain.items():
        listed |= set(rates)
        for key, rate in {**rates, **made}.items():
            expected[key] = {**expected.get(key, {}), kind: rate}
    if not plain["NAME"][0] or not plain["LOCATION"][0]:
        with pytest.raises(InputError, match="is left after cleaning"):
            compile_dictionary(types, words, placeholders=())
        return
    found = compile_dictionary(types, words, placeholders=())
    assert sorted(found.key.to_pylist()) == sorted(expected)
    terms_of = [{plain_key(term) for term in terms} for terms in lists]
    common = set().union(*terms_of)
    token_keys = found.token_key.to_pylist()
    for row, key in enumerate(found.key.to_pylist()):
        assert found.rates[row].tolist() == pytest.approx(
            [expected[key].get(kind, 0.0) for kind in types]
        )
        bits = sum(1 << number for number, terms in enumerate(terms_of) if key in terms)
        assert int(found.non_identifier[row]) == bits
        tokens = key.split(" ")
        own = [token for token in tokens if any(sign.isalnum() for sign in token)]
        assert bool(found.all_words_common[row]) == (len(own) > 1 and set(own) <= common)
        assert bool(found.is_variant[row]) == (key not in listed)
        numbers = found.tokens[found.offsets[row] : found.offsets[row + 1]]
        assert [token_keys[number] for number in numbers] == tokens
