"""The unannotated sentences of a corpus, in the order of one seeded permutation.

Source: METHOD §3, §4 and §7 (Laursen et al. 2022, §3.1.1). Text is streamed in batches of
documents: split, tokenised, filtered and stored, so that a corpus may be larger than memory.

Each sentence of the corpus has a number, and a priority that hangs on number and seed alone.
Sentences are stored by ascending priority: "the first n" are the sentences below n, subsets are
nested, and a sample of N is the first N.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deidsearch.errors import InputError
from deidsearch.files import digest, file_digest
from deidsearch.formats.lines import FaultList
from deidsearch.store.database import Database
from deidsearch.store.documents import CorpusSource, read_documents, source_files
from deidsearch.store.sentence_tables import (
    CorpusInfo,
    StoredSentences,
    create_tables,
    find_corpus,
    load_sentences,
    store_corpus,
    texts,
    unreadable_rows,
)
from deidsearch.text.hashing import key_hashes, sentence_hashes, splitmix64
from deidsearch.text.sentences import LineBreaks, split_sentences, trim
from deidsearch.text.tokens import TokenTable, fold_vocabulary, tokenise

__all__ = [
    "CorpusInfo",
    "CorpusSource",
    "StoredSentences",
    "corpus_digest",
    "load_corpus",
    "load_sentences",
    "texts",
    "unreadable_rows",
]

# Raise it when equal input gives other sentences: stored corpora are then made anew.
CORPUS_VERSION = 2
# A batch ends at so many characters or documents; what is stored does not depend on it.
BATCH_CHARACTERS = 4_000_000
BATCH_DOCUMENTS = 50_000


def corpus_digest(
    sources: Sequence[CorpusSource],
    *,
    min_words: int = 8,
    max_words: int = 70,
    fold_accents: bool = False,
    line_breaks: LineBreaks = "auto",
    sample: int | None = None,
    seed: int = 1,
    exclude: Collection[int] = frozenset(),
) -> str:
    """Returns the digest that names a corpus: of the files' contents and of all settings.

    Raises:
        InputError: a source has no file.
    """
    files = [
        [source.text, source.id, source.unit, source.encoding, source.separator]
        + [[name, file_digest(path)] for name, path in source_files(source)]
        for source in sources
    ]
    settings = [min_words, max_words, fold_accents, line_breaks, sample, seed]
    excluded = np.array(sorted(exclude), dtype=np.uint64)
    return digest("corpus", CORPUS_VERSION, files, settings, excluded)


def load_corpus(
    db: Database,
    sources: Sequence[CorpusSource],
    *,
    min_words: int = 8,
    max_words: int = 70,
    fold_accents: bool = False,
    line_breaks: LineBreaks = "auto",
    sample: int | None = None,
    seed: int = 1,
    exclude: Collection[int] = frozenset(),
    progress: Callable[[int], None] | None = None,
) -> CorpusInfo:
    """Returns what is known of a corpus after its sentences lie in the store.

    A corpus that lies there already (same files, same settings) is not read again. A load that
    is cut off leaves nothing behind.

    Args:
        db: the store.
        sources: where the text lies.
        min_words, max_words: sentences need so many tokens with a letter or digit, both included.
        fold_accents: for the folded key of each surface.
        line_breaks: which line breaks end a sentence, see `split_sentences`.
        sample: so many sentences at most, drawn by priority.
        seed: of the priorities.
        exclude: hashes of sentences that must not be in the corpus (gold and its duplicates).
        progress: told the number of documents just read.

    Raises:
        InputError: a file or column is missing, or no document can be read.
    """
    key = corpus_digest(
        sources,
        min_words=min_words,
        max_words=max_words,
        fold_accents=fold_accents,
        line_breaks=line_breaks,
        sample=sample,
        seed=seed,
        exclude=exclude,
    )
    create_tables(db)
    known = find_corpus(db, key)
    if known is not None:
        return known
    loader = _Loader(min_words, max_words, fold_accents, sample, seed, exclude)
    unreadable: list[tuple[str, int, str]] = []

    def told(file: str, line: int, reason: str) -> None:
        unreadable.append((file, line, reason))

    def rows() -> Iterator[pa.Table]:
        for source in sources:
            for batch in _batches(read_documents(source, told)):
                is_sentence = source.unit == "sentence"
                yield loader.sentences(batch, None if is_sentence else line_breaks)
                if progress is not None:
                    progress(len(batch))
        if not loader.num_documents:
            raise _nothing_readable(unreadable)

    return store_corpus(
        db,
        key,
        rows(),
        loader.vocabulary,
        lambda: loader.info(key, unreadable),
        unreadable,
        sample,
    )


def _batches(documents: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document[1])
        if size >= BATCH_CHARACTERS or len(batch) >= BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _nothing_readable(unreadable: Sequence[tuple[str, int, str]]) -> InputError:
    if not unreadable:
        return InputError("the corpus holds no document", mend="Check corpus.path.")
    faults = FaultList()
    for file, line, reason in unreadable:
        where = f"{file}:{line}" if line else file
        faults.add(InputError(f"cannot be read: {reason}", where))
    return InputError.many(faults.kept, faults.total)


class _Loader:
    """Turns batches of documents into rows of sentences; numbers run on from batch to batch."""

    def __init__(
        self,
        min_words: int,
        max_words: int,
        fold_accents: bool,
        sample: int | None,
        seed: int,
        exclude: Collection[int],
    ) -> None:
        self.min_words, self.max_words = min_words, max_words
        self.vocabulary = _GrowingVocabulary(fold_accents)
        self.exclude = np.array(sorted(exclude), dtype=np.uint64)
        self.seed = seed
        self.num_documents = self.num_split = self.num_outside = self.num_excluded = 0
        self.num_kept = 0
        self.draw = _Draw(sample)

    def sentences(
        self, documents: Sequence[tuple[str, str]], line_breaks: LineBreaks | None
    ) -> pa.Table:
        """Returns the rows of the sentences to keep.

        Args:
            documents: (id, text) pairs.
            line_breaks: how documents are split; None where each is one sentence.
        """
        self.num_documents += len(documents)
        ranges = [
            [trim(text)] if line_breaks is None else split_sentences(text, line_breaks=line_breaks)
            for _, text in documents
        ]
        if line_breaks is None:
            ranges = [[only] if only[0] < only[1] else [] for [only] in ranges]
        pieces = [
            text[start:end]
            for (_, text), own in zip(documents, ranges, strict=True)
            for start, end in own
        ]
        bounds = np.array([bound for own in ranges for bound in own], np.int64).reshape(-1, 2)
        document = np.repeat(np.arange(len(documents)), [len(own) for own in ranges])
        number = self.num_split + np.arange(len(pieces), dtype=np.int64)
        self.num_split += len(pieces)
        tokens = tokenise(pieces)
        words = tokens.words()
        inside = (words >= self.min_words) & (words <= self.max_words)
        self.num_outside += int(len(inside) - inside.sum())
        kept = np.flatnonzero(inside)
        tokens = self.vocabulary.merge(tokens.take(kept))
        if len(self.exclude):
            hashes = sentence_hashes(tokens, self.vocabulary.hashes())
            free = ~np.isin(hashes, self.exclude)
            self.num_excluded += int(len(free) - free.sum())
            kept, tokens = kept[free], tokens.take(free)
        priority = splitmix64(number[kept], self.seed)
        self.num_kept += len(kept)
        drawn = self.draw.choose(priority)
        if not drawn.all():
            kept, tokens, priority = kept[drawn], tokens.take(drawn), priority[drawn]
        ids = pa.array([identity for identity, _ in documents], pa.string())
        return pa.table(
            {
                "document": ids.take(pa.array(document[kept])),
                "number": number[kept],
                "start_char": bounds[kept, 0],
                "end_char": bounds[kept, 1],
                "text": pa.array([pieces[row] for row in kept.tolist()], pa.string()),
                "tokens": _lists(tokens, tokens.token),
                "token_start": _lists(tokens, tokens.start_char),
                "token_end": _lists(tokens, tokens.end_char),
                "priority": priority,
            }
        )

    def info(self, key: str, unreadable: Sequence[tuple[str, int, str]]) -> CorpusInfo:
        """Returns the counts, once all batches are through."""
        reasons: dict[str, int] = {}
        for _, _, reason in unreadable:
            reasons[reason] = reasons.get(reason, 0) + 1
        return CorpusInfo(
            digest=key,
            seed=self.seed,
            num_documents=self.num_documents,
            num_sentences=self.draw.size(self.num_kept),
            num_split=self.num_split,
            num_outside_word_limits=self.num_outside,
            num_excluded=self.num_excluded,
            unreadable=reasons,
        )


def _lists(tokens: TokenTable, values: npt.NDArray[np.int32]) -> pa.ListArray:
    offsets = pa.array(tokens.offsets.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(values, pa.int32()))


class _Draw:
    """Leaves out, while streaming, what can no longer be among the sample's smallest priorities."""

    def __init__(self, sample: int | None) -> None:
        self.sample = sample
        self.limit: np.uint64 | None = None
        self.seen: list[npt.NDArray[np.uint64]] = []
        self.num_seen = 0

    def choose(self, priority: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Returns which sentences may still be in the sample, ``(sentences,)``."""
        if self.sample is None:
            return np.ones(len(priority), dtype=bool)
        chosen = (
            np.ones(len(priority), dtype=bool) if self.limit is None else priority <= self.limit
        )
        self.seen.append(priority[chosen])
        self.num_seen += int(chosen.sum())
        if self.num_seen >= 2 * self.sample:
            smallest = np.partition(np.concatenate(self.seen), self.sample - 1)[: self.sample]
            self.limit = smallest.max()
            self.seen, self.num_seen = [smallest], self.sample
        return chosen

    def size(self, available: int) -> int:
        """Returns how many sentences the sample has."""
        return available if self.sample is None else min(available, self.sample)


class _GrowingVocabulary:
    """One number per surface form over all batches, with its folded key and that key's hash."""

    def __init__(self, fold_accents: bool) -> None:
        self.fold_accents = fold_accents
        self._number: dict[str, int] = {}
        self._keys: list[pa.StringArray] = []
        self._hashes: list[npt.NDArray[np.uint64]] = []

    def merge(self, tokens: TokenTable) -> TokenTable:
        """Returns the sentences with the numbers of this vocabulary (and an empty one inside)."""
        used = np.unique(tokens.token)
        surfaces = tokens.vocabulary.take(pa.array(used))
        known = self._number
        before = len(known)
        merged = np.zeros(len(tokens.vocabulary), dtype=np.int32)
        # A new surface gets the next number; a known one keeps its own.
        merged[used] = [known.setdefault(text, len(known)) for text in surfaces.to_pylist()]
        if len(known) > before:
            fresh = merged[used] >= before
            keys = fold_vocabulary(surfaces.filter(pa.array(fresh)), self.fold_accents)
            self._keys.append(keys)
            self._hashes.append(key_hashes(keys))
        return TokenTable(
            pa.array([], pa.string()),
            merged[tokens.token],
            tokens.start_char,
            tokens.end_char,
            tokens.offsets,
        )

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Returns the hash of each surface's key, ``(surfaces,)``."""
        if len(self._hashes) > 1:
            self._hashes = [np.concatenate(self._hashes)]
        return self._hashes[0] if self._hashes else np.empty(0, np.uint64)

    def table(self) -> pa.Table:
        """Returns the rows of the vocabulary: number, surface, key."""
        keys = pa.concat_arrays(self._keys) if self._keys else pa.array([], pa.string())
        return pa.table(
            {
                "token": np.arange(len(self._number), dtype=np.int32),
                "surface": pa.array(list(self._number), pa.string()),
                "key": keys,
            }
        )
