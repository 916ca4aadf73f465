"""Reading lists: formats, encodings, and faults that name file, line and the way out."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deidsearch.errors import InputError
from deidsearch.store.delimited import SHOWN_FAULTS
from deidsearch.store.tables import read_source, read_word_list


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def rows_of(path: Path, **options: Any) -> list[tuple[str, float | None, int]]:
    rows = read_source(path, **options)
    counts = [None if math.isnan(count) else count for count in rows.count.tolist()]
    return list(zip(rows.text.to_pylist(), counts, rows.row.tolist(), strict=True))


def fault(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as raised:
        read_source(path, **options)
    assert str(path.parent) not in str(raised.value)
    return str(raised.value)


EXPECTED = [("Søren", 12.0, 2), ("Anne-Marie", None, 3), ("Von, Å", 3.5, 4)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'identifier,count\nSøren,12\nAnne-Marie,\n"Von, Å",3.5\n'),
        ("a.CSV", 'count,identifier\n12,Søren\n ,Anne-Marie\n3.5,"Von, Å"'),
        ("a.csv", '\ufeffIdentifier,Count\r\nSøren, 12 \r\nAnne-Marie,\r\n"Von, Å",3.5\r\n'),
        ("a.csv", 'identifier,count\rSøren,12\rAnne-Marie,\r"Von, Å",3.5\r'),
        ("a.csv.gz", 'identifier,x,count\nSøren,,12\nAnne-Marie,,\n"Von, Å",,3.5\n'),
        ("a.tsv", "identifier\tcount\nSøren\t12\nAnne-Marie\t\nVon, Å\t3.5\n"),
    ],
)
def test_same_rows_from_every_kind_of_table(tmp_path: Path, name: str, content: str) -> None:
    assert rows_of(write(tmp_path, name, content)) == EXPECTED


def test_txt_has_one_entry_a_line_without_counts(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", 'Søren, "Hr"\r\n\r\nØ\u2028x\n')
    assert rows_of(path) == [('Søren, "Hr"', None, 1), ("", None, 2), ("Ø\u2028x", None, 3)]
    assert rows_of(write(tmp_path, "b.txt.gz", "Søren")) == [("Søren", None, 1)]


def test_txt_with_a_separator_is_a_table(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "navn;antal\nSøren;12\n")
    found = rows_of(path, separator=";", column="navn", count="antal")
    assert found == [("Søren", 12.0, 2)]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string()])
def test_parquet_with_any_kind_of_count(tmp_path: Path, kind: pa.DataType) -> None:
    counts = pa.array([12, None], pa.int64()).cast(kind)
    text = pa.array(["Søren", None]).dictionary_encode()
    table = pa.table({"x": [1, 2], "identifier": text, "count": counts})
    pq.write_table(table, tmp_path / "a.parquet")
    assert rows_of(tmp_path / "a.parquet") == [("Søren", 12.0, 1), ("", None, 2)]


def test_quoted_line_break_keeps_the_lines_of_later_rows(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'identifier,count\n"vestre\nstationsvej",1\n\nB,2\n')
    assert rows_of(path) == [("vestre\nstationsvej", 1.0, 2), ("", None, 4), ("B", 2.0, 5)]


def test_counts_can_be_ignored_or_be_absent(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "identifier,count\nA,5\n")
    assert rows_of(path, count=None) == [("A", None, 2)]
    assert rows_of(write(tmp_path, "b.csv", "navn\nA\n")) == [("A", None, 2)]


def test_word_list_takes_the_first_column(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "term,identifier\nfeber,x\n")
    assert read_word_list(path).text.to_pylist() == ["feber"]
    assert read_word_list(path, column="identifier").text.to_pylist() == ["x"]


def test_row_with_another_separator_is_named(tmp_path: Path) -> None:  # CASES R31
    path = write(tmp_path, "a.csv", "identifier,count\nA,5\nB;6\nC,7,8\n")
    assert fault(path) == (
        'a.csv, line 3: the row has 1 field, the header has 2. The separator here is ","; quote a '
        "field that holds one.\n"
        'a.csv, line 4: the row has 3 fields, the header has 2. The separator here is ","; quote a '
        "field that holds one."
    )


def test_wrong_separator_of_the_whole_file_is_named(tmp_path: Path) -> None:  # CASES R31
    path = write(tmp_path, "a.csv", "identifier;count\nA;5\n")
    assert fault(path) == (
        'a.csv, line 1: its one column looks like several, separated by ";". Set separator: ";".'
    )
    assert 'Set separator: ",".' in fault(write(tmp_path, "a.tsv", "identifier,count\nA,5\n"))
    assert 'Set separator: "tab".' in fault(write(tmp_path, "b.csv", "identifier\tcount\nA\t5\n"))
    assert fault(write(tmp_path, "a.txt", "identifier,count\nA,5\n")) == (
        'a.txt, line 1: the first line is the header of a table. Set separator: ",".'
    )
    assert "is not one character" in fault(path, separator=";;")
    assert rows_of(path, separator=";") == [("A", 5.0, 2)]


def test_bad_counts_are_all_named_and_no_value_is_shown(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "identifier,count\nA,5\nB,many\nC,-1\nD,nan\nE,1e999\nF\n")
    told = fault(path)
    assert [line.split(": ")[0] for line in told.splitlines()] == [
        f"a.csv, line {line}" for line in (7, 3, 4, 5, 6)
    ]
    assert "the count is not a number" in told and "the count is negative" in told
    assert "many" not in told


def test_first_faults_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "identifier,count\n" + "A,x\n" * (SHOWN_FAULTS + 7))
    lines = fault(path).splitlines()
    assert len(lines) == SHOWN_FAULTS + 1
    assert lines[-1] == "... and 7 more faults like these."


def test_open_quotation_mark_is_a_fault_not_one_huge_entry(tmp_path: Path) -> None:
    told = fault(write(tmp_path, "a.csv", 'identifier,count\nA,1\n"B,2\nC,3\n'))
    assert told.startswith("a.csv, line 3: its quotation marks are not in pairs.")
    told = fault(write(tmp_path, "a.csv", 'identifier,count\n"B" x,2\nC,3\nD,4,5\n'))
    assert [line[:13] for line in told.splitlines()] == ["a.csv, line 2", "a.csv, line 4"]


def test_missing_column_names_the_columns_and_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "navn,antal\nA,5\n")
    assert fault(path, column="naven") == (
        "a.csv: there is no column 'naven'; the columns are: navn, antal. Did you mean 'navn'?"
    )
    assert "Did you mean 'antal'? Without counts set count: null." in fault(path, count="antall")
    pq.write_table(pa.table({"navn": ["A"]}), tmp_path / "a.parquet")
    assert "the columns are: navn" in fault(tmp_path / "a.parquet", column="name")
    assert "has no columns" in fault(write(tmp_path, "a.txt", "A\n"), column="navn")


def test_first_row_of_data_is_not_taken_for_a_header(tmp_path: Path) -> None:
    told = fault(write(tmp_path, "a.csv", "Jensen,258203\nHansen,216007\n"))
    assert told.startswith("a.csv, line 1: the first line holds a number, so it is no header.")
    assert "Jensen" not in told
    assert "has no header" in fault(write(tmp_path, "b.csv", ""))


def test_latin1_is_noticed_and_can_be_set(tmp_path: Path) -> None:  # CASES R58
    path = write(tmp_path, "a.csv", "identifier,count\nOle,1\nSøren,12\n".encode("latin-1"))
    assert fault(path) == (
        "a.csv, line 3: byte 25 (0xf8) is no UTF-8. Set encoding: latin-1 (or whatever it was "
        "saved in)."
    )
    assert rows_of(path, encoding="latin-1") == [("Ole", 1.0, 2), ("Søren", 12.0, 3)]


def test_wrongly_set_encoding_is_noticed_too(tmp_path: Path) -> None:  # CASES R58
    path = write(tmp_path, "a.csv", "identifier\nSøren\n")
    assert fault(path, encoding="latin-1") == (
        "a.csv: it is UTF-8; read as latin-1 its letters would be garbled. Take the field encoding "
        "out."
    )
    curly = write(tmp_path, "b.csv", "identifier\nO’Brien\nSøren\n".encode("cp1252"))
    assert fault(curly, encoding="iso-8859-1").endswith("Set encoding: cp1252.")
    assert rows_of(curly, encoding="cp1252")[0] == ("O’Brien", None, 2)
    assert "there is no encoding 'latin1x'" in fault(path, encoding="latin1x")
    plain = write(tmp_path, "plain.csv", "identifier\nOle\n")
    assert "there is no encoding" in fault(plain, encoding="rot13")
    wide = write(tmp_path, "c.csv", "identifier\nSøren\n".encode("utf-16"))
    assert fault(wide).endswith("Set encoding: utf-16.")
    assert rows_of(wide, encoding="utf-16") == [("Søren", None, 2)]


def test_unreadable_files_are_user_faults(tmp_path: Path) -> None:
    assert "there is no file 'a.csv'" in fault(tmp_path / "a.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "cannot be read" in fault(tmp_path / "folder.csv")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"identifier\nA\n")[:-9])
    assert "not a whole gzip file" in fault(tmp_path / "a.csv.gz")
    assert "not a whole Parquet file" in fault(write(tmp_path, "a.parquet", "identifier\nA\n"))
    assert "names no known format" in fault(write(tmp_path, "a.xlsx", "x"))


CELLS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\x00"), max_size=8)


@given(st.lists(st.tuples(CELLS, st.one_of(st.none(), st.integers(0, 10**9))), max_size=8))
@settings(max_examples=60, deadline=None)
def test_any_written_table_reads_back(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, int | None]]
) -> None:
    import csv

    folder = tmp_path_factory.mktemp("any")
    lines = 1
    expected = []
    for text, count in cells:
        expected.append((text, None if count is None else float(count), lines + 1))
        lines += 1 + text.count("\n")
    for name, sign in (("a.csv", ","), ("a.tsv", "\t")):
        with open(folder / name, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=sign, lineterminator="\n", quoting=csv.QUOTE_ALL)
            writer.writerow(["identifier", "count"])
            writer.writerows((text, "" if count is None else count) for text, count in cells)
        assert rows_of(folder / name) == expected
    table = pa.table(
        {
            "identifier": pa.array([text for text, _ in cells], pa.string()),
            "count": pa.array([count for _, count in cells], pa.int64()),
        }
    )
    pq.write_table(table, folder / "a.parquet")
    rows = read_source(folder / "a.parquet")
    assert rows.text.to_pylist() == [text for text, _ in cells]
    assert np.array_equal(rows.row, np.arange(1, len(cells) + 1))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("identifier,count\nanna,1.000\nbo,12.345\n", "may be a thousand written with a point"),
        ("identifier,count\nanna,1e308\nbo,1e308\n", "the count is above 1,000,000,000,000"),
        ("identifier,identifier,count\nanna,bo,1\n", "two columns are called 'identifier'"),
        ("identifier,count,Count\nanna,1,2\n", None),
        ("identifier,COUNT,Count\nanna,1,2\n", "two columns are called 'count'"),
        ("identifier,count\nan\0na,1\n", "the entry holds a zero character"),
        ("identifier,count\nanna,1.000\nbo,0.5\n", None),
        ("identifier,count\nanna,0.125\nbo,0.250\n", None),
        ("identifier,note\nanna," + "x" * 200_000 + "\n", None),
    ],
)
def test_slips_that_would_be_read_as_something_else(
    tmp_path: Path, content: str, said: str | None
) -> None:
    (tmp_path / "a.csv").write_text(content)
    if said is None:
        assert read_source(tmp_path / "a.csv").text.to_pylist()[0] == "anna"
        return
    with pytest.raises(InputError) as caught:
        read_source(tmp_path / "a.csv")
    assert said in str(caught.value) and "a.csv" in str(caught.value)


def test_slips_of_parquet_and_text_files(tmp_path: Path) -> None:
    table = pa.table([["anna"], ["bo"]], names=["identifier", "identifier"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match="two columns are called 'identifier'"):
        read_source(tmp_path / "a.parquet")
    pq.write_table(pa.table({"identifier": ["an\0na"]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="b.parquet, row 1: the entry holds a zero"):
        read_source(tmp_path / "b.parquet")
    (tmp_path / "c.txt").write_bytes(b"anna\nb\0o\n")
    with pytest.raises(InputError, match="c.txt, line 2: the entry holds a zero"):
        read_source(tmp_path / "c.txt")
    (tmp_path / "d.txt").write_text("Åse\n", "utf-8")
    with pytest.raises(InputError, match="it is UTF-8"):
        read_source(tmp_path / "d.txt", encoding="utf-16-le")
    with pytest.raises(InputError, match="there is no encoding"):
        read_source(tmp_path / "d.txt", encoding="a\0b")
