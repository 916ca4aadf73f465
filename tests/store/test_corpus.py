"""Corpora: the permutation, filters, exclusion, batches, and what happens to what can't be read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deidsearch.errors import InputError
from deidsearch.store import corpus as corpus_module
from deidsearch.store.corpus import (
    CorpusSource,
    corpus_digest,
    load_corpus,
    load_sentences,
    texts,
    unreadable_rows,
)
from deidsearch.store.database import Database
from deidsearch.text.hashing import key_hashes, sentence_hashes
from deidsearch.text.tokens import fold_vocabulary, tokenise


@pytest.fixture
def db(tmp_path: Path):
    with Database(tmp_path / "store.duckdb", tmp_path / "tmp") as database:
        yield database


def notes(tmp_path: Path, *records: object, name: str = "notes.jsonl") -> CorpusSource:
    path = tmp_path / name
    path.write_text(
        "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), "utf-8"
    )
    return CorpusSource(path)


def plain(count: int) -> list[dict[str, str]]:
    names = ["Anna", "Åse", "Bo", "Carl", "dorte"]
    return [
        {"id": f"d{n}", "text": f"{names[n % 5]} nr {n} bor i Odense. Han er rask {n % 7}.\n\nSlut"}
        for n in range(count)
    ]


def all_texts(db: Database, digest: str) -> list[str]:
    count = len(load_sentences(db, digest))
    return texts(db, digest, np.arange(count)).column("text").to_pylist()


def test_sentences_point_into_their_documents(tmp_path: Path, db: Database) -> None:
    documents = {
        "a": "\ufeffÅse 😀 bor på Vestre\r\nStationsvej. Hun er rask.",
        "b": "",
        "c": "Ja. \x00 Nej!\u2028Farvel",
    }
    records = [{"id": key, "text": text} for key, text in documents.items()]
    info = load_corpus(db, [notes(tmp_path, *records)], min_words=1)
    stored = load_sentences(db, info.digest)
    rows = texts(db, info.digest, np.arange(len(stored))).to_pylist()
    assert (info.num_documents, info.num_sentences, info.num_unreadable) == (3, len(stored), 0)
    vocabulary = stored.tokens.vocabulary.to_pylist()
    for place, row in enumerate(rows):
        source = documents[row["document"]]
        assert row["text"] == source[row["start_char"] : row["end_char"]]
        first, last = stored.tokens.offsets[place : place + 2]
        for token in range(first, last):
            start, end = stored.tokens.start_char[token], stored.tokens.end_char[token]
            assert row["text"][start:end] == vocabulary[stored.tokens.token[token]]
    assert stored.key.to_pylist() == [surface.casefold() for surface in vocabulary]


def test_word_limits_are_inclusive_and_count_words_only(tmp_path: Path, db: Database) -> None:
    records = [{"id": str(n), "text": " , ".join(["ord"] * n)} for n in range(1, 7)]
    info = load_corpus(db, [notes(tmp_path, *records)], min_words=2, max_words=4)
    lengths = sorted(text.count("ord") for text in all_texts(db, info.digest))
    assert lengths == [2, 3, 4]
    assert (info.num_split, info.num_outside_word_limits) == (6, 3)


def test_batches_do_not_change_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = notes(tmp_path, *plain(300))
    outcomes = []
    for name, size in (("one", 4_000_000), ("many", 500)):
        monkeypatch.setattr(corpus_module, "BATCH_CHARACTERS", size)
        with Database(tmp_path / f"{name}.duckdb", tmp_path / "tmp") as db:
            done: list[int] = []
            info = load_corpus(db, [source], min_words=1, sample=200, progress=done.append)
            stored = load_sentences(db, info.digest)
            surfaces = np.array(stored.tokens.vocabulary.to_pylist(), dtype=object)
            outcomes.append(
                (info, all_texts(db, info.digest), surfaces[stored.tokens.token], stored.keep)
            )
            assert sum(done) == 300
    one, many = outcomes
    assert one[0] == many[0] and one[1] == many[1]
    assert (one[2] == many[2]).all() and (one[3] == many[3]).all()


def test_a_sample_is_the_first_part_of_the_same_permutation(tmp_path: Path, db: Database) -> None:
    source = notes(tmp_path, *plain(200))
    whole = load_corpus(db, [source], min_words=1, seed=5)
    small = load_corpus(db, [source], min_words=1, seed=5, sample=50)
    large = load_corpus(db, [source], min_words=1, seed=5, sample=10_000)
    other = load_corpus(db, [source], min_words=1, seed=6)
    assert (whole.num_sentences, small.num_sentences, large.num_sentences) == (600, 50, 600)
    order = all_texts(db, whole.digest)
    assert all_texts(db, small.digest) == order[:50]
    assert all_texts(db, large.digest) == order
    assert all_texts(db, other.digest) != order
    assert sorted(all_texts(db, other.digest)) == sorted(order)
    first = load_sentences(db, whole.digest, limit=50)
    assert (first.keep == load_sentences(db, small.digest).keep).all()
    # The two priorities of a sentence know nothing of each other.
    keep = load_sentences(db, whole.digest).keep
    assert abs(np.corrcoef(np.argsort(np.argsort(keep)), np.arange(len(keep)))[0, 1]) < 0.15


def test_a_word_limit_leaves_the_order_of_the_others_alone(tmp_path: Path, db: Database) -> None:
    source = notes(tmp_path, *plain(100))
    loose = load_corpus(db, [source], min_words=1)
    tight = load_corpus(db, [source], min_words=4)
    kept = [text for text in all_texts(db, loose.digest) if text != "Slut"]
    assert all_texts(db, tight.digest) == kept


def test_gold_sentences_and_their_duplicates_are_left_out(tmp_path: Path, db: Database) -> None:
    records = [
        {"id": "a", "text": "Anna  bor i ODENSE ."},
        {"id": "b", "text": "Bo bor i Odense."},
        {"id": "c", "text": "Bo bor i Odense."},
    ]
    gold = tokenise(["anna bor i odense."])
    exclude = sentence_hashes(gold, key_hashes(fold_vocabulary(gold.vocabulary))).tolist()
    info = load_corpus(db, [notes(tmp_path, *records)], min_words=1, exclude=set(exclude))
    assert all_texts(db, info.digest) == ["Bo bor i Odense."] * 2
    assert info.num_excluded == 1


def test_texts_come_in_the_order_asked_for(tmp_path: Path, db: Database) -> None:
    info = load_corpus(db, [notes(tmp_path, *plain(20))], min_words=1)
    order = all_texts(db, info.digest)
    found = texts(db, info.digest, [7, 3, 7])
    assert found.column("text").to_pylist() == [order[7], order[3], order[7]]
    assert found.column("sentence").to_pylist() == [7, 3, 7]


def test_a_loaded_corpus_is_not_read_again_but_a_changed_one_is(
    tmp_path: Path, db: Database
) -> None:
    source = notes(tmp_path, *plain(5))
    first = load_corpus(db, [source], min_words=1)
    calls: list[int] = []
    assert load_corpus(db, [source], min_words=1, progress=calls.append) == first
    assert calls == []
    assert corpus_digest([source], min_words=1) == first.digest
    notes(tmp_path, *plain(6))
    second = load_corpus(db, [source], min_words=1)
    assert second.digest != first.digest and second.num_sentences == 18
    # Both lie in the store, side by side.
    assert (len(load_sentences(db, first.digest)), len(load_sentences(db, second.digest))) == (
        15,
        18,
    )


def test_a_load_that_is_cut_off_leaves_nothing(tmp_path: Path, db: Database) -> None:
    source = notes(tmp_path, *plain(5))

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_corpus(db, [source], min_words=1, progress=stop)
    for table in ("sentences", "vocabulary", "corpora"):
        assert db.query(f"SELECT count(*) AS n FROM {table}").column("n")[0].as_py() == 0
    assert load_corpus(db, [source], min_words=1).num_sentences == 15


def test_unreadable_lines_are_listed_and_the_others_read(tmp_path: Path, db: Database) -> None:
    source = notes(
        tmp_path,
        {"id": "a", "text": "Anna bor her."},
        "{Anna",
        {"id": "b"},
        {"id": "c", "text": 4},
        {"id": "d", "text": None},
        {"text": "Bo bor her \ud83d."},
        [],
    )
    with open(source.path, "ab") as file:
        file.write('{"id": "e", "text": "Åse"}\n'.encode("latin-1"))
    info = load_corpus(db, [source], min_words=1)
    assert (info.num_documents, info.num_sentences, info.num_unreadable) == (3, 2, 5)
    listed = db.query("SELECT file, line, reason FROM unreadable_rows ORDER BY line").to_pylist()
    assert [(row["file"], row["line"], row["reason"]) for row in listed] == [
        ("notes.jsonl", 2, "not JSON"),
        ("notes.jsonl", 3, "the key 'text' is missing"),
        ("notes.jsonl", 4, "'text' is a number, not a string"),
        ("notes.jsonl", 7, "expected a JSON object, got a list"),
        ("notes.jsonl", 8, "bytes that are not UTF-8"),
    ]
    found = texts(db, info.digest, range(2))
    assert sorted(zip(found["document"].to_pylist(), found["text"].to_pylist(), strict=True)) == [
        ("a", "Anna bor her."),
        ("notes.jsonl:6", "Bo bor her \ufffd."),
    ]


def test_nothing_readable_is_an_error_that_names_the_rows(tmp_path: Path, db: Database) -> None:
    with pytest.raises(InputError) as caught:
        load_corpus(db, [notes(tmp_path, {"note": "Anna"}, {"note": "Bo"})])
    assert str(caught.value).splitlines() == [
        "notes.jsonl:1: cannot be read: the key 'text' is missing.",
        "notes.jsonl:2: cannot be read: the key 'text' is missing.",
    ]
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match="the corpus holds no document. Check corpus.path"):
        load_corpus(db, [CorpusSource(tmp_path / "empty.jsonl")])


def test_csv_rows_may_hold_line_breaks_and_bad_ones_are_left_out_whole(
    tmp_path: Path, db: Database
) -> None:
    path = tmp_path / "notes.csv.gz"
    rows = (
        "\ufeffnote_id;ward;note\r\n"
        '1;A;"Anna bor\r\nher, og ""Bo""; der."\r\n'
        "2;A\r\n"
        "\r\n"
        "3;B;Carl\r\n"
        '4;B;"Dorte"x\r\n'
        "5;B;\r\n"
        '6;B;"Egon\r\n7;B;Frede\r\n'
    )
    path.write_bytes(gzip.compress(rows.encode()))
    source = CorpusSource(path, text="note", id="note_id", separator=";")
    info = load_corpus(db, [source], min_words=1)
    found = texts(db, info.digest, range(info.num_sentences)).to_pylist()
    assert sorted((row["document"], row["text"]) for row in found) == [
        ("1", 'Anna bor\r\nher, og "Bo"; der.'),
        ("3", "Carl"),
    ]
    listed = db.query("SELECT line, reason FROM unreadable_rows ORDER BY line").to_pylist()
    assert [(row["line"], row["reason"]) for row in listed] == [
        (4, "2 fields, the header has 3"),
        (7, "quotation marks inside a field are not doubled"),
        (9, "a quotation mark opens a field that does not end"),
    ]
    assert info.num_documents == 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"text": "noet"}, "notes.csv: there is no column 'noet'. Did you mean 'note'?"),
        ({"text": "note", "id": "nr"}, "notes.csv: there is no column 'nr'. Choose from"),
        ({}, "there is no column 'text'. Set corpus.text to the column of the text: key, note."),
        ({"text": "note", "encoding": "klingon"}, "there is no encoding 'klingon'"),
        ({"text": "note", "encoding": "a\0b"}, "there is no encoding"),
        ({"text": "note", "encoding": "utf-16-le"}, "it is UTF-8; read as utf-16-le its letters"),
        ({"text": "note", "encoding": "latin-1"}, "it is UTF-8; read as iso8859-1 its letters"),
        ({"text": "note", "separator": ";;"}, "the separator ';;' is not one character"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_stored(
    tmp_path: Path, db: Database, source: dict[str, str], message: str
) -> None:
    (tmp_path / "notes.csv").write_text("key,note\n1,Åse bor her\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_corpus(db, [CorpusSource(tmp_path / "notes.csv", **source)])
    assert message in str(caught.value) and "Åse" not in str(caught.value)
    assert db.query("SELECT count(*) AS n FROM corpora").column("n")[0].as_py() == 0


def test_other_encodings_are_read_when_named(tmp_path: Path, db: Database) -> None:
    (tmp_path / "a.tsv").write_bytes("note\nÅse bor her\n".encode("latin-1"))
    (tmp_path / "b.tsv").write_bytes("note\nÆble på bordet\n".encode("utf-16"))
    sources = [
        CorpusSource(tmp_path / "a.tsv", encoding="latin-1"),
        CorpusSource(tmp_path / "b.tsv", encoding="utf-16"),
    ]
    info = load_corpus(db, sources, min_words=1)
    assert sorted(all_texts(db, info.digest)) == ["Åse bor her", "Æble på bordet"]


def test_folders_globs_and_text_files_by_unit(tmp_path: Path, db: Database) -> None:
    folder = tmp_path / "notes"
    (folder / "b").mkdir(parents=True)
    (folder / "1.txt").write_text("Anna bor her. Bo bor der.\n", "utf-8")
    (folder / "b/2.txt").write_text("Carl\r\n\r\nDorte\r\n", "utf-8", newline="")
    (folder / "b/2.ann").write_text("T1 ...")
    documents = load_corpus(db, [CorpusSource(folder)], min_words=1)
    rows = texts(db, documents.digest, range(documents.num_sentences)).to_pylist()
    assert sorted((row["document"], row["text"]) for row in rows) == [
        ("1.txt", "Anna bor her."),
        ("1.txt", "Bo bor der."),
        ("b/2.txt", "Carl"),
        ("b/2.txt", "Dorte"),
    ]
    lines = load_corpus(db, [CorpusSource(f"{folder}/*.txt", unit="sentence")], min_words=1)
    rows = texts(db, lines.digest, range(lines.num_sentences)).to_pylist()
    assert [(row["document"], row["text"]) for row in rows] == [
        ("1.txt:1", "Anna bor her. Bo bor der.")
    ]
    with pytest.raises(InputError, match="there is no file for the corpus"):
        load_corpus(db, [CorpusSource(tmp_path / "none*.txt")])
    with pytest.raises(InputError, match="2.ann: the ending names no known format"):
        load_corpus(db, [CorpusSource(folder / "b/2.ann")])


def test_parquet_is_streamed_and_a_damaged_file_is_told(tmp_path: Path, db: Database) -> None:
    rows = {"id": list(range(5000)), "text": [None, "Anna bor her."] * 2500}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    info = load_corpus(db, [CorpusSource(str(tmp_path / "*.parquet"))], min_words=1)
    assert (info.num_documents, info.num_sentences, info.num_unreadable) == (5000, 2500, 0)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=r"b\.parquet: it is not a whole Parquet file"):
        load_corpus(db, [CorpusSource(str(tmp_path / "*.parquet"))], min_words=1)
    with pytest.raises(InputError, match=r"the column 'id' holds int64, not text"):
        load_corpus(db, [CorpusSource(tmp_path / "a.parquet", text="id")])


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.gz", "a.txt.gz"])
def test_a_cut_gzip_file_is_an_error_and_leaves_nothing(
    tmp_path: Path, db: Database, name: str
) -> None:
    lines = "text\n" if "csv" in name else ""
    lines += "".join(json.dumps(record) + "\n" for record in plain(2000)).replace('"', "'")
    if "jsonl" in name:
        lines = lines.replace("'", '"')
    packed = gzip.compress(lines.replace(",", "" if "csv" in name else ",").encode())
    (tmp_path / name).write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match=f"{name}.*compressed data end early"):
        load_corpus(db, [CorpusSource(tmp_path / name)], min_words=1)
    for table in ("sentences", "vocabulary", "corpora", "unreadable_rows"):
        assert db.query(f"SELECT count(*) AS n FROM {table}").column("n")[0].as_py() == 0


def test_a_corpus_of_another_encoding_is_not_read_by_half(tmp_path: Path, db: Database) -> None:
    rows = [f"note {number} om Søren" if number % 3 else "plain" for number in range(30)]
    (tmp_path / "a.csv").write_bytes("\n".join(["text", *rows]).encode("latin-1"))
    with pytest.raises(InputError) as caught:
        load_corpus(db, [CorpusSource(tmp_path / "a.csv")], min_words=1)
    told = str(caught.value)
    assert told.startswith("a.csv, line 3: the text is not UTF-8 (this and 19 other rows)")
    assert "corpus.encoding" in told and "Søren" not in told
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text("Søren bor her. ", "utf-8")
    (folder / "5.txt").write_bytes("Søren".encode("latin-1"))
    assert load_corpus(db, [CorpusSource(folder)], min_words=1).num_unreadable == 1


def test_one_bad_string_of_a_parquet_file_is_one_row(tmp_path: Path, db: Database) -> None:
    raw = pa.array([*(f"Åse {n} bor her.".encode() for n in range(50)), b"\xff\xfe"], pa.binary())
    text = pa.StringArray.from_buffers(len(raw), raw.buffers()[1], raw.buffers()[2])
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet")
    info = load_corpus(db, [CorpusSource(tmp_path / "a.parquet")], min_words=1)
    assert (info.num_documents, info.num_unreadable) == (50, 1)
    assert unreadable_rows(db, info.digest, 3) == [("a.parquet", 51, "bytes that are not UTF-8")]
