"""``deidsearch annotate``: the corpus as annotated under one ceiling."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deidsearch.annotate.ceilings import tag_identifiers
from deidsearch.annotate.postprocess import annotate
from deidsearch.annotate.ratios import count_occurrences, sentence_ratios
from deidsearch.annotate.training_sets import training_set
from deidsearch.config.load import Grid
from deidsearch.errors import InputError, did_you_mean
from deidsearch.files import require_writable
from deidsearch.formats.brat import write_brat
from deidsearch.formats.conll import write_conll
from deidsearch.formats.jsonl import write_jsonl
from deidsearch.formats.labelled import LabelledTokens, TokenSpan
from deidsearch.formats.pure import write_pure
from deidsearch.pipeline.columns import column_faults
from deidsearch.pipeline.inputs import missing_files, require_variables, rules_of
from deidsearch.pipeline.plan import first_sentences
from deidsearch.pipeline.prepare import Preparation
from deidsearch.pipeline.workspace import open_workspace
from deidsearch.progress import Console
from deidsearch.records import Document, Span, SpanTable
from deidsearch.search.driver import driver_lock
from deidsearch.store.corpus import StoredSentences, texts
from deidsearch.store.database import Database

_BATCH = 10_000


def parse_ceiling(text: str, types: tuple[str, ...]) -> float | dict[str, float] | None:
    """Returns a ceiling from "512", "NAME=512,STREET=64" or "none".

    Raises:
        InputError: it is none of these.
    """
    where = "--ceiling"
    try:
        if text.strip().lower() in ("none", "null"):
            return None
        if "=" not in text:
            number = float(text)
            if not 0 < number < float("inf"):
                raise ValueError
            return number
        ceilings = {}
        for part in text.split(","):
            name, _, raw = part.partition("=")
            if name.strip() in ceilings:
                raise InputError(f"{name.strip()!r} is given twice", where, "Give it once.")
            if name.strip() not in types:
                raise InputError(
                    f"{name.strip()!r} is no type", where, did_you_mean(name.strip(), types)
                )
            ceilings[name.strip()] = float(raw)
            if not 0 < ceilings[name.strip()] < float("inf"):
                raise ValueError
        missing = [name for name in types if name not in ceilings]
        if missing:
            raise InputError(
                f"{', '.join(missing)} has no ceiling"
                if len(missing) == 1
                else f"{', '.join(missing)} have no ceilings",
                where,
                f"Name each type: {','.join(f'{name}=512' for name in types)}.",
            )
        return ceilings
    except ValueError:
        raise InputError(
            f"{text!r} is no ceiling", where, "Use a number above 0, or NAME=512,STREET=64."
        ) from None


def annotate_corpus(
    grid: Grid,
    ceiling: float | dict[str, float] | None,
    out: Path,
    form: str,
    training: bool,
    console: Console,
) -> int:
    """Returns the number of sentences written.

    Args:
        grid: the sweep's grid.
        ceiling: the ceiling.
        out: file, or folder for brat.
        form: jsonl, pure, conll or brat.
        training: only the training set of that ceiling; otherwise every available sentence.
        console: told of the steps.

    Raises:
        InputError: the target exists, or the grid has no corpus.
    """
    require_variables(grid)
    faults, _ = missing_files(grid)
    if not os.path.exists(grid.output / "plan.json"):
        faults += column_faults(grid)
    if faults:
        raise InputError.many(faults)
    if os.path.lexists(out):
        raise InputError("this exists already", str(out), "Choose another name.")
    require_writable(out, "--out")
    config = next((c.config for c in grid.cells if not c.upper_bound), None)
    if config is None or config.corpus is None or not config.dictionaries:
        raise InputError("the grid has no dictionaries or no corpus", grid.path.name)
    workspace = open_workspace(grid)
    with driver_lock(workspace.root), Database(workspace.store, workspace.temporary) as database:
        preparation = Preparation(grid, workspace, database, console)
        lexicon, corpus = preparation.lexicon(config), preparation.corpus(config)
        wanted = grid.config.training.sentences or len(corpus.sentences.tokens)
        num = min(wanted, len(corpus.sentences.tokens))
        rules = rules_of(config.annotation)
        matches = preparation.matches(lexicon, corpus).until(num)
        dictionary = lexicon.dictionary
        occurrences = count_occurrences(matches, len(dictionary.key))
        ratio = sentence_ratios(dictionary, occurrences, num, rules.type_dominance)
        tags = tag_identifiers(dictionary, ratio, rules, [ceiling])
        tokens = first_sentences(corpus.sentences.tokens, num)
        annotation = annotate(matches, tokens, corpus.sentences.key, dictionary, tags, rules)
        if training:
            found = training_set(annotation, 0, corpus.sentences.keep)
            rows, spans = found.sentence, found.mentions
        else:
            rows = np.arange(num, dtype=np.int64)
            spans = annotation.mentions(0)
            num_ambiguous = int(np.count_nonzero(annotation.has_ambiguous))
            if num_ambiguous:
                console.warn(
                    f"{num_ambiguous:,} sentences hold words that stay ambiguous at this ceiling; "
                    "those are not marked. Training leaves such sentences out (--training)."
                )
        with console.step("writing", len(rows)) as advance:
            records = _records(
                database, corpus.digest, corpus.sentences, rows, spans, config.types, advance
            )
            return _WRITERS[form](out, records)


@dataclass(frozen=True)
class _Record:
    """One annotated sentence, in characters and in tokens."""

    document: Document
    labelled: LabelledTokens


def _records(
    database: Database,
    digest: str,
    sentences: StoredSentences,
    rows: np.ndarray,
    spans: SpanTable,
    types: tuple[str, ...],
    advance: Callable[[int], None],
) -> Iterator[_Record]:
    """Yields each sentence with its mentions; its id is the document's with its place in it."""
    tokens = sentences.tokens
    bounds = np.searchsorted(spans.sentence, np.arange(len(rows) + 1))
    seen: collections.Counter[int] = collections.Counter()
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        for offset, row in enumerate(texts(database, digest, batch).to_pylist()):
            first, last = tokens.offsets[batch[offset]], tokens.offsets[batch[offset] + 1]
            begin = tokens.start_char[first:last].tolist()
            end = tokens.end_char[first:last].tolist()
            text = row["text"]
            mine = range(bounds[start + offset], bounds[start + offset + 1])
            runs = [
                TokenSpan(int(spans.start_token[i]), int(spans.end_token[i]), types[spans.label[i]])
                for i in mine
            ]
            identity = f"{row['document']}:{row['start_char']}-{row['end_char']}"
            # A corpus may give two documents one id; what is written has each id once.
            seen[hash(identity)] += 1
            if seen[hash(identity)] > 1:
                identity += f"#{seen[hash(identity)]}"
            found = tuple(
                Span(begin[run.start_token], end[run.end_token - 1], run.label) for run in runs
            )
            words = tuple(text[b:e] for b, e in zip(begin, end, strict=True))
            yield _Record(
                Document(identity, text, found),
                LabelledTokens(identity, words, tuple(runs), row["document"]),
            )
        advance(len(batch))


def _count(written: int | tuple[int, int]) -> int:
    return written[0] if isinstance(written, tuple) else written


_WRITERS: dict[str, Callable[[Path, Iterator[_Record]], int]] = {
    "jsonl": lambda out, records: write_jsonl(out, (record.document for record in records)),
    "brat": lambda out, records: write_brat(out, (record.document for record in records)),
    "pure": lambda out, records: write_pure(out, (record.labelled for record in records)),
    "conll": lambda out, records: _count(write_conll(out, (record.labelled for record in records))),
}
