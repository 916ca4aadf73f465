"""The one door to DuckDB: private files, locks, transactions, failures without values."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from deidsearch.errors import RunError
from deidsearch.store.database import SCHEMA_VERSION, Database

OTHER_PROCESS = """
import sys
from pathlib import Path
from deidsearch.errors import DeidsearchError
from deidsearch.store.database import Database
try:
    Database(Path(sys.argv[1]), Path(sys.argv[2]))
except DeidsearchError as error:
    print(error)
"""


@pytest.fixture
def database(tmp_path: Path):
    with Database(tmp_path / "out" / "store.duckdb", tmp_path / "out" / "tmp") as opened:
        yield opened


def test_files_and_folders_are_the_owners_alone(database: Database) -> None:
    database.execute("CREATE TABLE t (a INTEGER)")
    assert stat.S_IMODE(database.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(database.path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((database.path.parent / "tmp").stat().st_mode) == 0o700


def test_extensions_are_never_fetched(database: Database) -> None:
    for name in ("autoinstall_known_extensions", "autoload_known_extensions"):
        row = database.query("SELECT current_setting(?) AS value", [name])
        assert str(row.column("value")[0].as_py()).lower() in ("false", "0")


def test_arrow_goes_in_by_column_name_and_comes_out_with_nulls(database: Database) -> None:
    database.execute("CREATE TABLE t (a INTEGER, b VARCHAR, bits UBIGINT)")
    bits = pa.array([2**63, 1], pa.uint64())
    database.insert("t", pa.table({"bits": bits, "b": ["ø", None], "a": [1, 2]}))
    rows = database.query("SELECT a, b, bits FROM t ORDER BY a")
    assert rows.to_pylist() == [
        {"a": 1, "b": "ø", "bits": 2**63},
        {"a": 2, "b": None, "bits": 1},
    ]


def test_values_are_bound_not_pasted(database: Database) -> None:
    database.execute("CREATE TABLE t (a VARCHAR)")
    database.execute("INSERT INTO t VALUES (?)", ["'); DROP TABLE t; --"])
    found = database.query("SELECT count(*) AS n FROM t WHERE a = ?", ["'); DROP TABLE t; --"])
    assert found.column("n")[0].as_py() == 1


def test_failed_transaction_leaves_nothing(database: Database) -> None:
    database.execute("CREATE TABLE t (a INTEGER)")
    with pytest.raises(ZeroDivisionError), database.transaction():
        database.execute("INSERT INTO t VALUES (1)")
        with database.transaction():
            database.execute("INSERT INTO t VALUES (2)")
        raise ZeroDivisionError
    assert len(database.query("SELECT * FROM t")) == 0
    with database.transaction():
        database.execute("INSERT INTO t VALUES (3)")
    assert database.query("SELECT a FROM t").column("a").to_pylist() == [3]


def test_failures_name_table_and_statement_but_no_value(database: Database) -> None:
    with pytest.raises(RunError) as missing:
        database.query("SELECT name FROM patients")
    assert "SELECT name FROM patients" in str(missing.value)
    database.execute("CREATE TABLE t (a INTEGER)")
    with pytest.raises(RunError) as wrong:
        database.insert("t", pa.table({"a": ["Hans Jensen"]}))
    assert "insert into t" in str(wrong.value)
    assert "Jensen" not in str(wrong.value)
    assert wrong.value.__cause__ is None


def test_second_process_is_told_who_holds_the_store(database: Database, tmp_path: Path) -> None:
    command = [sys.executable, "-c", OTHER_PROCESS, str(database.path), str(tmp_path / "tmp2")]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert told.startswith("store.duckdb: the store is in use (PID ")
    assert str(tmp_path) not in told


def test_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    with Database(path, tmp_path / "tmp") as database:
        database.execute("UPDATE store_version SET version = ?", [SCHEMA_VERSION + 1])
    with pytest.raises(RunError, match=f"the store is of version {SCHEMA_VERSION + 1}"):
        Database(path, tmp_path / "tmp")


def test_what_is_no_store_is_refused_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "store.duckdb").write_bytes(b"Hans Jensen\n" * 1000)
    with pytest.raises(RunError) as refused:
        Database(tmp_path / "store.duckdb", tmp_path / "tmp")
    assert "cannot be opened" in str(refused.value)
    assert "Jensen" not in str(refused.value)


def test_read_only_reads_and_refuses_to_write(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    with Database(path, tmp_path / "tmp") as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS a")
    with Database(path, tmp_path / "tmp", read_only=True) as database:
        assert database.query("SELECT a FROM t").column("a").to_pylist() == [1]
        with pytest.raises(RunError):
            database.execute("INSERT INTO t VALUES (2)")
