"""The ratios of a sweep, kept for whoever wants to look at them.

The definition is in `annotate.ratios`; here they are only stored (METHOD §4).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deidsearch.store.database import Database

RATIOS_SQL = """
CREATE TABLE IF NOT EXISTS ratios (
    dictionary VARCHAR NOT NULL,
    corpus VARCHAR NOT NULL,
    type_dominance DOUBLE,
    num_sentences BIGINT NOT NULL,
    identifier INTEGER NOT NULL,
    occurrences BIGINT NOT NULL,
    corpus_rate DOUBLE NOT NULL,
    population_rate DOUBLE NOT NULL,
    ratio DOUBLE NOT NULL
)
"""
_WHERE = (
    "dictionary = ? AND corpus = ? AND num_sentences = ? AND type_dominance IS NOT DISTINCT FROM ?"
)


def save_ratios(
    database: Database,
    dictionary: str,
    corpus: str,
    occurrences: npt.NDArray[np.int64],
    ratio: npt.NDArray[np.float64],
    num_sentences: int,
    type_dominance: float | None,
) -> None:
    """Writes the ratios of all identifiers that were seen, unless they stand there already.

    Args:
        database: the store.
        dictionary: digest of the dictionary.
        corpus: digest of the corpus.
        occurrences: int64 ``(identifiers,)``.
        ratio: float64 ``(identifiers,)``, NaN where an identifier was not seen.
        num_sentences: sentences the occurrences were counted over.
        type_dominance: the setting that decided which rates were added up.
    """
    database.execute(RATIOS_SQL)
    key: list[Any] = [dictionary, corpus, num_sentences, type_dominance]
    found = database.query(f"SELECT count(*) AS n FROM ratios WHERE {_WHERE}", key)
    if found.column("n")[0].as_py():
        return
    seen = np.flatnonzero(~np.isnan(ratio))
    corpus_rate = occurrences[seen] / num_sentences
    rows = len(seen)
    table = pa.table(
        {
            "dictionary": pa.array([dictionary] * rows, pa.string()),
            "corpus": pa.array([corpus] * rows, pa.string()),
            "type_dominance": pa.array([type_dominance] * rows, pa.float64()),
            "num_sentences": pa.array(np.full(rows, num_sentences, np.int64)),
            "identifier": pa.array(seen.astype(np.int32)),
            "occurrences": pa.array(occurrences[seen]),
            "corpus_rate": pa.array(corpus_rate),
            "population_rate": pa.array(corpus_rate / ratio[seen]),
            "ratio": pa.array(ratio[seen]),
        }
    )
    with database.transaction():
        database.insert("ratios", table)
