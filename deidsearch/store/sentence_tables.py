"""The tables that hold corpora, and their way in and out of DuckDB."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deidsearch.store.database import Database
from deidsearch.text.hashing import splitmix64
from deidsearch.text.tokens import TokenTable

# Down-sampling draws by a priority of its own (METHOD §7): another seed, the same numbers.
_KEEP_SEED = 0x6B656570

_SENTENCE_COLUMNS = """
    document VARCHAR,
    number BIGINT,
    start_char BIGINT,
    end_char BIGINT,
    text VARCHAR,
    tokens INTEGER[],
    token_start INTEGER[],
    token_end INTEGER[],
    priority UBIGINT
"""
_TABLES_SQL = (
    f"CREATE TABLE IF NOT EXISTS sentences (corpus VARCHAR, sentence BIGINT, {_SENTENCE_COLUMNS})",
    """
    CREATE TABLE IF NOT EXISTS vocabulary (
        corpus VARCHAR, token INTEGER, surface VARCHAR, key VARCHAR
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS unreadable_rows (
        corpus VARCHAR, file VARCHAR, line BIGINT, reason VARCHAR
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS corpora (
        corpus VARCHAR,
        seed BIGINT,
        num_documents BIGINT,
        num_sentences BIGINT,
        num_split BIGINT,
        num_outside_word_limits BIGINT,
        num_excluded BIGINT,
        unreadable VARCHAR
    )
    """,
)
_STAGING_SQL = f"CREATE OR REPLACE TEMP TABLE staged_sentences ({_SENTENCE_COLUMNS})"
_ORDER_SQL = """
INSERT INTO sentences
SELECT ?, row_number() OVER (ORDER BY priority) - 1, *
FROM staged_sentences ORDER BY priority LIMIT ?
"""


@dataclass(frozen=True)
class CorpusInfo:
    """What became of a corpus.

    Attributes:
        digest: names files and settings; key of the tables.
        seed: of the permutation.
        num_documents: documents read, empty ones too.
        num_sentences: available sentences, after filter, exclusion and sample.
        num_split: sentences that the documents were split into.
        num_outside_word_limits: sentences with too few or too many words.
        num_excluded: sentences left out because they are gold's or equal to one.
        unreadable: rows that could not be read, counted by reason; the table ``unreadable_rows``
            lists them.
    """

    digest: str
    seed: int
    num_documents: int
    num_sentences: int
    num_split: int
    num_outside_word_limits: int
    num_excluded: int
    unreadable: Mapping[str, int]

    @property
    def num_unreadable(self) -> int:
        """Rows that could not be read."""
        return sum(self.unreadable.values())


@dataclass(frozen=True, eq=False)
class StoredSentences:
    """The sentences of a corpus in the order of its permutation, without their text.

    Attributes:
        digest: of the corpus.
        tokens: the sentences.
        key: ``(surfaces,)`` folded key of each surface of the vocabulary.
        keep: uint64 ``(sentences,)`` priority for down-sampling, the smaller stays.
    """

    digest: str
    tokens: TokenTable
    key: pa.StringArray
    keep: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.tokens)


class Vocabulary(Protocol):
    """Whatever can give the rows of the vocabulary once all sentences are known."""

    def table(self) -> pa.Table:
        """Returns token, surface and key."""


def create_tables(db: Database) -> None:
    """Makes the tables where they are missing."""
    for sql in _TABLES_SQL:
        db.execute(sql)


def find_corpus(db: Database, digest: str) -> CorpusInfo | None:
    """Returns what is known of a corpus, or None where the store doesn't hold it."""
    if not db.has_table("corpora"):
        return None
    rows = db.query("SELECT * FROM corpora WHERE corpus = ?", [digest]).to_pylist()
    if not rows:
        return None
    row = rows[0]
    return CorpusInfo(digest=row.pop("corpus"), unreadable=json.loads(row.pop("unreadable")), **row)


def unreadable_rows(db: Database, digest: str, most: int) -> list[tuple[str, int, str]]:
    """Returns (file, line, reason) of the first rows of a corpus that could not be read."""
    rows = db.query(
        "SELECT file, line, reason FROM unreadable_rows WHERE corpus = ? "
        "ORDER BY file, line LIMIT ?",
        [digest, most],
    ).to_pylist()
    return [(row["file"], row["line"], row["reason"]) for row in rows]


def store_corpus(
    db: Database,
    digest: str,
    rows: Iterable[pa.Table],
    vocabulary: Vocabulary,
    info: Callable[[], CorpusInfo],
    unreadable: Sequence[tuple[str, int, str]],
    sample: int | None,
) -> CorpusInfo:
    """Returns the corpus's counts after all of it lies in the store, or nothing of it does.

    Args:
        db: the store.
        digest: of the corpus.
        rows: batches of sentences; read to their end before anything else is asked for.
        vocabulary: of the sentences.
        info: gives the counts once the rows are through.
        unreadable: (file, line, reason) of rows left out.
        sample: keep so many sentences of the smallest priority.
    """
    # A temporary table spills into the private temporary folder, never into the store's file.
    db.execute(_STAGING_SQL)
    for batch in rows:
        db.insert("staged_sentences", batch)
    found = info()
    with db.transaction():
        db.execute(_ORDER_SQL, [digest, sample if sample is not None else 2**62])
        db.insert("vocabulary", _of_corpus(vocabulary.table(), digest))
        if unreadable:
            files, lines, reasons = zip(*unreadable, strict=True)
            listed = pa.table({"file": files, "line": lines, "reason": reasons})
            db.insert("unreadable_rows", _of_corpus(listed, digest))
        counts = {
            "seed": [found.seed],
            "num_documents": [found.num_documents],
            "num_sentences": [found.num_sentences],
            "num_split": [found.num_split],
            "num_outside_word_limits": [found.num_outside_word_limits],
            "num_excluded": [found.num_excluded],
            "unreadable": [json.dumps(dict(found.unreadable))],
        }
        # The last row says that the corpus is whole.
        db.insert("corpora", _of_corpus(pa.table(counts), digest))
    db.execute("DROP TABLE staged_sentences")
    return found


def _of_corpus(table: pa.Table, digest: str) -> pa.Table:
    return table.append_column("corpus", pa.array([digest] * len(table), pa.string()))


def load_sentences(db: Database, digest: str, limit: int | None = None) -> StoredSentences:
    """Returns the sentences of a stored corpus.

    Args:
        db: the store.
        digest: of the corpus.
        limit: the first so many of the permutation; None loads all.
    """
    info = find_corpus(db, digest)
    assert info is not None, "the corpus was not loaded"
    wanted = info.num_sentences if limit is None else min(limit, info.num_sentences)
    words = db.query(
        "SELECT surface, key FROM vocabulary WHERE corpus = ? ORDER BY token", [digest]
    )
    parts = _Flat()
    sql = (
        "SELECT number, tokens, token_start, token_end FROM sentences "
        "WHERE corpus = ? AND sentence < ? ORDER BY sentence"
    )
    for batch in db.batches(sql, [digest, wanted]):
        parts.add(batch)
    tokens, number = parts.joined(_strings(words, "surface"))
    assert len(tokens) == wanted, "the store lacks sentences"
    keep = splitmix64(number, info.seed ^ _KEEP_SEED)
    return StoredSentences(digest, tokens, _strings(words, "key"), keep)


class _Flat:
    """Flat arrays out of record batches with list columns."""

    def __init__(self) -> None:
        self.number: list[npt.NDArray[np.int64]] = []
        self.lengths: list[npt.NDArray[np.int64]] = []
        self.values: dict[str, list[npt.NDArray[np.int32]]] = {
            name: [] for name in ("tokens", "token_start", "token_end")
        }

    def add(self, batch: pa.RecordBatch) -> None:
        self.number.append(batch.column("number").to_numpy(zero_copy_only=False))
        lists = batch.column("tokens")
        self.lengths.append(np.diff(lists.offsets.to_numpy()).astype(np.int64))
        for name, values in self.values.items():
            values.append(batch.column(name).flatten().to_numpy(zero_copy_only=False))

    def joined(self, vocabulary: pa.StringArray) -> tuple[TokenTable, npt.NDArray[np.int64]]:
        lengths = np.concatenate([np.zeros(1, np.int64), *self.lengths])
        none = np.empty(0, np.int32)  # so that an empty corpus has arrays too
        tokens, start, end = (np.concatenate([none, *part]) for part in self.values.values())
        number = np.concatenate([np.empty(0, np.int64), *self.number])
        return TokenTable(vocabulary, tokens, start, end, np.cumsum(lengths)), number


def _strings(table: pa.Table, name: str) -> pa.StringArray:
    column = table.column(name).cast(pa.string()).combine_chunks()
    return column if isinstance(column, pa.StringArray) else pa.concat_arrays(column.chunks)


def texts(db: Database, digest: str, index: npt.ArrayLike) -> pa.Table:
    """Returns the chosen sentences with their text, in the order asked for.

    Args:
        db: the store.
        digest: of the corpus.
        index: ``(chosen,)`` sentence numbers; one may come twice.

    Returns:
        columns sentence, document, start_char, end_char (in the document) and text.
    """
    chosen = np.asarray(index, dtype=np.int64)
    db.execute("CREATE OR REPLACE TEMP TABLE wanted_sentences (place BIGINT, sentence BIGINT)")
    db.insert(
        "wanted_sentences",
        pa.table({"place": np.arange(len(chosen), dtype=np.int64), "sentence": chosen}),
    )
    return db.query(
        "SELECT s.sentence, s.document, s.start_char, s.end_char, s.text "
        "FROM wanted_sentences w JOIN sentences s ON s.sentence = w.sentence "
        "WHERE s.corpus = ? ORDER BY w.place",
        [digest],
    )
