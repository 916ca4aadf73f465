"""Compiled dictionaries in DuckDB, several side by side, each under its digest."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deidsearch.store.database import Database
from deidsearch.store.dictionary_records import Dictionary

# A row of ``dictionaries`` is written last: without one the other rows don't count.
_TABLES_SQL = (
    """
    CREATE TABLE IF NOT EXISTS dictionaries (
        dictionary VARCHAR NOT NULL,
        types VARCHAR NOT NULL,
        sources VARCHAR NOT NULL,
        num_identifiers BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS identifiers (
        dictionary VARCHAR NOT NULL,
        identifier INTEGER NOT NULL,
        key VARCHAR NOT NULL,
        non_identifier UBIGINT NOT NULL,
        all_words_common BOOLEAN NOT NULL,
        is_variant BOOLEAN NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS identifier_types (
        dictionary VARCHAR NOT NULL,
        identifier INTEGER NOT NULL,
        type SMALLINT NOT NULL,
        rate DOUBLE NOT NULL,
        count DOUBLE
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS dictionary_rows (
        dictionary VARCHAR NOT NULL,
        is_removed BOOLEAN NOT NULL,
        source VARCHAR NOT NULL,
        "row" BIGINT NOT NULL,
        reason VARCHAR NOT NULL
    )
    """,
)
_TABLES = ("dictionaries", "identifiers", "identifier_types", "dictionary_rows")


def split_keys(
    key: pa.StringArray,
) -> tuple[pa.StringArray, npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Returns the distinct tokens of keys, numbers ``(flat,)`` and offsets ``(keys + 1,)``."""
    parts = pc.split_pattern(key, " ")
    encoded = parts.flatten().dictionary_encode()
    lengths = pc.list_value_length(parts).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    tokens = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    return encoded.dictionary, tokens, offsets


def save_dictionary(database: Database, dictionary: Dictionary) -> None:
    """Writes a dictionary, all of it or nothing; what stood under its digest is replaced."""
    name = dictionary.digest
    place, kind = np.nonzero(dictionary.rates)
    identifiers = pa.table(
        {
            "identifier": pa.array(np.arange(len(dictionary.key), dtype=np.int32)),
            "key": dictionary.key,
            "non_identifier": pa.array(dictionary.non_identifier),
            "all_words_common": pa.array(dictionary.all_words_common),
            "is_variant": pa.array(dictionary.is_variant),
        }
    )
    types = pa.table(
        {
            "identifier": pa.array(place.astype(np.int32)),
            "type": pa.array(kind.astype(np.int16)),
            "rate": pa.array(dictionary.rates[place, kind]),
            "count": pa.array(dictionary.counts[place, kind], from_pandas=True),
        }
    )
    head = pa.table(
        {
            "types": [json.dumps(dictionary.types, ensure_ascii=False)],
            "sources": [json.dumps(dictionary.sources, ensure_ascii=False)],
            "num_identifiers": [len(dictionary.key)],
        }
    )
    with database.transaction():
        for sql in _TABLES_SQL:
            database.execute(sql)
        for table in _TABLES:
            database.execute(f"DELETE FROM {table} WHERE dictionary = ?", [name])
        for is_removed, report in ((True, dictionary.removed), (False, dictionary.remarks)):
            flag = pa.array(np.full(len(report), is_removed))
            _insert(database, "dictionary_rows", report.append_column("is_removed", flag), name)
        _insert(database, "identifier_types", types, name)
        _insert(database, "identifiers", identifiers, name)
        _insert(database, "dictionaries", head, name)


def load_dictionary(database: Database, digest: str) -> Dictionary | None:
    """Returns the dictionary of a digest, or None where it was not saved."""
    if not database.has_table("dictionaries"):
        return None
    head = database.query("SELECT * FROM dictionaries WHERE dictionary = ?", [digest])
    if not len(head):
        return None
    types = tuple(json.loads(head.column("types")[0].as_py()))
    rows = database.query(
        "SELECT key, non_identifier, all_words_common, is_variant FROM identifiers "
        "WHERE dictionary = ? ORDER BY identifier",
        [digest],
    ).combine_chunks()
    key = _column(rows, "key").cast(pa.string())
    token_key, tokens, offsets = split_keys(key)
    cells = database.query(
        "SELECT identifier, type, rate, count FROM identifier_types WHERE dictionary = ?", [digest]
    )
    place, kind = _numpy(cells, "identifier"), _numpy(cells, "type")
    rates = np.zeros((len(key), len(types)))
    counts = np.full((len(key), len(types)), np.nan)
    rates[place, kind] = _numpy(cells, "rate")
    counts[place, kind] = _numpy(cells, "count")
    removed, remarks = (_report(database, digest, is_removed) for is_removed in (True, False))
    return Dictionary(
        types=types,
        sources=tuple(json.loads(head.column("sources")[0].as_py())),
        key=key,
        token_key=token_key,
        tokens=tokens,
        offsets=offsets,
        rates=rates,
        counts=counts,
        non_identifier=_numpy(rows, "non_identifier").astype(np.uint64, copy=False),
        all_words_common=_numpy(rows, "all_words_common").astype(np.bool_, copy=False),
        is_variant=_numpy(rows, "is_variant").astype(np.bool_, copy=False),
        removed=removed,
        digest=digest,
        remarks=remarks,
    )


def _report(database: Database, digest: str, is_removed: bool) -> pa.Table:
    return database.query(
        'SELECT source, "row", reason FROM dictionary_rows '
        "WHERE dictionary = ? AND is_removed = ? ORDER BY ALL",
        [digest, is_removed],
    )


def _insert(database: Database, table: str, rows: pa.Table, digest: str) -> None:
    names = pa.array([digest], pa.string()).take(pa.array(np.zeros(len(rows), np.int32)))
    database.insert(table, rows.append_column("dictionary", names))


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _numpy(table: pa.Table, name: str) -> npt.NDArray[np.generic]:
    # A null count comes back as NaN.
    values: npt.NDArray[np.generic] = table.column(name).to_numpy()
    return values
