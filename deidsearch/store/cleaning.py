"""Rows of files cleaned into the entries of a type, with rates, and into terms of word lists.

Source: METHOD §1.2, §1.3, §2 and §5b. Each row that is left out is counted with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deidsearch.errors import InputError
from deidsearch.store.dictionary_records import REPORT_SCHEMA, Source, WordList
from deidsearch.store.entries import EMPTY, REASONS, EntryKeys, entry_keys, make_variants
from deidsearch.store.tables import SourceRows

ZERO_COUNT = "count 0, taken as unknown"
MERGED = "merged with an equal entry"
CAPITALISED = "capitalised (lowercase_entries_only)"
_CAPITAL_INITIAL = r"^[^\pL]*[\p{Lu}\p{Lt}]"


@dataclass(frozen=True, eq=False)
class TypeEntries:
    """The entries of one type: ``listed`` keys first, then ``made`` ones (variants)."""

    key: pa.StringArray
    rate: npt.NDArray[np.float64]
    count: npt.NDArray[np.float64]
    num_listed: int


class Report:
    """Source, row and reason of rows, gathered column by column."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []

    def add(self, source: str, row: npt.NDArray[np.int64], reason: str) -> None:
        if len(row):
            columns = [pa.repeat(source, len(row)), pa.array(row), pa.repeat(reason, len(row))]
            self._parts.append(pa.Table.from_arrays(columns, schema=REPORT_SCHEMA))

    def add_codes(
        self, source: str, row: npt.NDArray[np.int64], code: npt.NDArray[np.uint8], prefix: str = ""
    ) -> None:
        for number, reason in enumerate(REASONS, start=1):
            self.add(source, row[code == number], prefix + reason)

    def table(self) -> pa.Table:
        whole = pa.concat_tables([REPORT_SCHEMA.empty_table(), *self._parts])
        return whole.combine_chunks()


class Cleaner:
    """Turns rows of files into keys and tells which rows are left out.

    Args:
        fold_accents: keys without accents.
        placeholders: keys that are no entries.
        removed: told of each row that is left out.
        remarks: told of each row that stays but isn't taken as written.
    """

    def __init__(
        self, fold_accents: bool, placeholders: pa.StringArray, removed: Report, remarks: Report
    ) -> None:
        self.fold_accents = fold_accents
        self.placeholders = placeholders
        self.removed = removed
        self.remarks = remarks

    def type_entries(
        self, name: str, sources: Sequence[Source], rows: Sequence[SourceRows]
    ) -> TypeEntries:
        """Returns the distinct entries of a type with their rates, then their variants."""
        keys, counts, lines = [], [], []
        for source, table in zip(sources, rows, strict=True):
            found = entry_keys(table.text, self.fold_accents, self.placeholders)
            file = Path(source.path).name
            self.removed.add_codes(file, table.row, found.reason)
            kept = found.kept
            count, row = table.count[kept] * source.scale, table.row[kept]
            self.remarks.add(file, row[count == 0], ZERO_COUNT)
            keys.append(found.key.filter(pa.array(kept)))
            counts.append(np.where(count == 0, np.nan, count))
            lines.append(row)
        encoded = pa.concat_arrays(keys).dictionary_encode()
        entry = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        num = len(encoded.dictionary)
        if not num:
            raise InputError(
                f"no entry of the type {name!r} is left after cleaning",
                ", ".join(Path(source.path).name for source in sources) or None,
                "Check the column and the format.",
            )
        count, rate = known_rates(entry, np.concatenate(counts), num)
        self._remark_merged(sources, lines, entry, num)
        made = self._variants(sources, keys, lines, entry, encoded.dictionary)
        if made is None:
            return TypeEntries(encoded.dictionary, rate, count, num)
        variant, origin = made
        # Several entries may have one variant: like duplicates they add up.
        numbered = variant.dictionary_encode()
        pair = np.unique(
            numbered.indices.to_numpy(zero_copy_only=False).astype(np.int64) * num + origin
        )
        target, origin = pair // num, pair % num
        size = len(numbered.dictionary)
        made_rate = np.bincount(target, weights=rate[origin], minlength=size)
        made_count, _ = known_sums(target, count[origin], size)
        return TypeEntries(
            pa.concat_arrays([encoded.dictionary, numbered.dictionary]),
            np.concatenate((rate, made_rate)),
            np.concatenate((count, made_count)),
            num,
        )

    def _remark_merged(
        self,
        sources: Sequence[Source],
        lines: Sequence[npt.NDArray[np.int64]],
        entry: npt.NDArray[np.int64],
        num: int,
    ) -> None:
        is_first = np.zeros(len(entry), dtype=np.bool_)
        # Written from the back, so that the first row of an entry is what stays.
        seen = np.empty(num, dtype=np.int64)
        seen[entry[::-1]] = np.arange(len(entry))[::-1]
        is_first[seen] = True
        start = 0
        for source, row in zip(sources, lines, strict=True):
            again = ~is_first[start : start + len(row)]
            self.remarks.add(Path(source.path).name, row[again], MERGED)
            start += len(row)

    def _variants(
        self,
        sources: Sequence[Source],
        keys: Sequence[pa.StringArray],
        lines: Sequence[npt.NDArray[np.int64]],
        entry: npt.NDArray[np.int64],
        listed: pa.StringArray,
    ) -> tuple[pa.StringArray, npt.NDArray[np.int64]] | None:
        """Returns variants that the type doesn't list, and the entry each belongs to."""
        found, origins = [], []
        start = 0
        for source, key, row in zip(sources, keys, lines, strict=True):
            own = entry[start : start + len(key)]
            start += len(key)
            if not source.suffixes and not source.variants:
                continue
            made = make_variants(
                key, source.suffixes, source.variants, self.fold_accents, self.placeholders
            )
            name = Path(source.path).name
            self.removed.add_codes(name, row[made.entry], made.reason, "variant: ")
            good = made.reason == 0
            good &= ~pc.is_in(made.key, value_set=listed).to_numpy(zero_copy_only=False)
            found.append(made.key.filter(pa.array(good)))
            origins.append(own[made.entry[good]])
        if not sum(map(len, found)):
            return None
        return pa.concat_arrays(found), np.concatenate(origins)

    def terms(self, words: WordList, rows: SourceRows) -> pa.StringArray:
        """Returns the keys of a word list, with ``split`` also those of its single words."""
        text, row = rows.text, rows.row
        if words.lowercase_entries_only:
            capital = pc.match_substring_regex(text, _CAPITAL_INITIAL)
            is_capital = capital.to_numpy(zero_copy_only=False)
            self.removed.add(words.name, row[is_capital], CAPITALISED)
            text, row = text.filter(pc.invert(capital)), row[~is_capital]
        found: EntryKeys = entry_keys(text, self.fold_accents)
        self.removed.add(words.name, row[~found.kept], EMPTY)
        if not found.kept.any():
            raise InputError(
                f"no term of the list {words.name!r} is left",
                Path(words.path).name,
                "Check the column and lowercase_entries_only.",
            )
        key = found.key.filter(pa.array(found.kept))
        return pa.concat_arrays([key, found.words]) if words.split else key


def known_sums(
    group: npt.NDArray[np.int64], count: npt.NDArray[np.float64], num: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Returns the sum of the known counts of each group, NaN where none is, and where one is."""
    known = ~np.isnan(count)
    total = np.bincount(group[known], weights=count[known], minlength=num)
    has_count = np.bincount(group[known], minlength=num) > 0
    return np.where(has_count, total, np.nan), has_count


def known_rates(
    entry: npt.NDArray[np.int64], count: npt.NDArray[np.float64], num: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns the count and the rate of each entry of a type, float64 ``(entries,)`` each.

    Args:
        entry: int64 ``(rows,)``, entry of each row.
        count: float64 ``(rows,)``, scaled, NaN where unknown.
        num: number of entries.

    Source: METHOD §1.3. rate = count / sum of the type's known counts. An entry without any known
    count gets the smallest known rate (1 / entries where none is known); nothing is renormalised.
    """
    total, has_count = known_sums(entry, count, num)
    if not has_count.any():
        return total, np.full(num, 1.0 / num)
    rate = total / total[has_count].sum()
    return total, np.where(has_count, rate, rate[has_count].min())
