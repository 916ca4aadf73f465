"""Cheap looks into data files for ``check``: headers, first records, labels."""

from __future__ import annotations

from deidsearch.config.load import Grid
from deidsearch.errors import DeidsearchError, InputError
from deidsearch.pipeline.inputs import (
    corpus_sources,
    gold_sets,
    identifier_sources,
    load_gold_set,
    word_lists,
)


def column_faults(grid: Grid) -> list[InputError]:
    """Returns what is wrong inside the files that are there: columns, encodings, labels.

    Dictionaries are read whole (they are small beside a corpus), gold is parsed, and of the
    corpus only its first records are looked at.
    """
    from deidsearch.store.documents import read_documents
    from deidsearch.store.tables import read_source, read_word_list

    faults: dict[str, InputError] = {}

    def note(error: DeidsearchError) -> None:
        kept = error if isinstance(error, InputError) else InputError(str(error))
        faults.setdefault(str(error), kept)

    seen: set[str] = set()

    def is_new(*what: object) -> bool:
        key = repr(what)
        if "${" in key or key in seen:
            return False
        seen.add(key)
        return True

    for cell in grid.cells:
        config = cell.config
        for name, sources in identifier_sources(grid, config).items():
            for source in sources:
                if not is_new(name, source) or not source.path.is_file():
                    continue
                try:
                    rows = read_source(
                        source.path,
                        column=source.identifier,
                        count=source.count,
                        encoding=source.encoding,
                        separator=source.separator,
                    )
                    if not len(rows.text):
                        note(InputError("the dictionary is empty", source.path.name))
                except DeidsearchError as error:
                    note(error)
        for words in word_lists(grid, config):
            if is_new(words) and words.path.is_file():
                try:
                    read_word_list(
                        words.path,
                        column=words.column,
                        encoding=words.encoding,
                        separator=words.separator,
                    )
                except DeidsearchError as error:
                    note(error)
        for corpus in corpus_sources(grid, config) if config.corpus is not None else ():
            if not is_new(corpus):
                continue
            try:
                unreadable: list[tuple[str, int, str]] = []
                first = next(
                    read_documents(corpus, lambda *row: unreadable.append(row)),  # noqa: B023
                    None,
                )
                if first is None and unreadable:
                    file, line, reason = unreadable[0]
                    note(InputError(f"no record can be read: {reason}", f"{file}, row {line}"))
            except DeidsearchError as error:
                note(error)
        for name, gold in gold_sets(config).items():
            path = grid.resolve(gold.path)
            if not is_new(name, gold.model_dump(), config.types, config.text) or not path.is_file():
                continue
            try:
                load_gold_set(grid, config, name, gold)
            except DeidsearchError as error:
                note(error)
    return list(faults.values())
