"""The steps that cells share, each made once per content digest and reused by later runs.

Dictionaries and sentences lie in DuckDB; matches, tries and pieces as arrays under ``cache/``, in
folders named by what they were made from. A folder that stands there is whole: it was renamed into
place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deidsearch.annotate.matches import Matches
from deidsearch.annotate.trie import Trie, find_matches
from deidsearch.config.grid import GridConfig
from deidsearch.config.load import Cell, Grid
from deidsearch.dataset.gold import GoldSet
from deidsearch.errors import InputError
from deidsearch.files import digest
from deidsearch.pipeline.devices import available_cpus
from deidsearch.pipeline.inputs import (
    corpus_sources,
    gold_sets,
    gold_unit,
    identifier_sources,
    load_gold_set,
    no_mention,
    word_lists,
)
from deidsearch.pipeline.workspace import Workspace
from deidsearch.progress import Console
from deidsearch.store.corpus import (
    CorpusInfo,
    StoredSentences,
    load_corpus,
    load_sentences,
    unreadable_rows,
)
from deidsearch.store.database import Database
from deidsearch.store.dictionaries import (
    Dictionary,
    compile_dictionary,
    dictionary_digest,
    load_dictionary,
    save_dictionary,
)
from deidsearch.text.tokens import TokenTable, fold_vocabulary

if TYPE_CHECKING:
    from deidsearch.train.encoder import EncoderRef

# Raise it when a step's outcome changes for equal inputs: the digests of all steps hang on it.
PIPELINE_VERSION = 1
_SHOWN_ROWS = 5  # of those that could not be read


@dataclass(frozen=True, eq=False)
class Lexicon:
    """A compiled dictionary, its trie, and where the trie lies for actors to map."""

    dictionary: Dictionary
    trie: Trie
    folder: Path

    @property
    def digest(self) -> str:
        """Names the dictionary's content."""
        return self.dictionary.digest


@dataclass(frozen=True, eq=False)
class CorpusPart:
    """The available sentences of a corpus, in the order of the seeded permutation."""

    info: CorpusInfo
    sentences: StoredSentences

    @property
    def digest(self) -> str:
        """Names the corpus's content."""
        return self.info.digest


class Preparation:
    """Makes and remembers the shared steps of a grid's cells.

    Args:
        grid: the grid.
        workspace: the sweep's folder.
        database: the store, open for writing.
        console: told of long steps and of what users should know.
    """

    def __init__(
        self, grid: Grid, workspace: Workspace, database: Database, console: Console
    ) -> None:
        self.grid = grid
        self.workspace = workspace
        self.database = database
        self.console = console
        self._memo: dict[tuple[str, str], Any] = {}

    def read_inputs(self, cells: Iterable[Cell]) -> None:
        """Reads every dictionary, corpus and gold set of the cells, so that faults show first."""
        for cell in cells:
            self.gold(cell.config)
            if cell.config.training.source == "dictionary":
                self.lexicon(cell.config)
                self.corpus(cell.config)

    def has_shards(self, cells: Iterable[Cell]) -> bool:
        """Returns whether matching a corpus of these cells goes to Ray."""
        limit = self.grid.config.ray.shard_sentences
        return any(
            self.corpus(cell.config).info.num_sentences > limit
            for cell in cells
            if cell.config.training.source == "dictionary"
        )

    # -- gold --------------------------------------------------------------------------------

    def gold(self, config: GridConfig) -> dict[str, GoldSet]:
        """Returns the gold sets by name ("validation", the tests, "train")."""
        sets = {}
        for name, gold in gold_sets(config).items():
            unit = gold_unit(config, gold)
            key = digest(
                gold.model_dump(mode="json"), unit, config.text.model_dump(), list(config.types)
            )
            if ("gold", key) not in self._memo:
                self._memo["gold", key] = load_gold_set(self.grid, config, name, gold)
                self._say_gold(self._memo["gold", key])
            sets[name] = self._memo["gold", key]
        if not len(sets["validation"].mentions):
            fault = no_mention(sets["validation"])
            raise InputError(fault.what, self.grid.place("gold.validation"), fault.mend)
        return sets

    def _say_gold(self, gold: GoldSet) -> None:
        told = f"{gold.name}: {len(gold.tokens):,} sentences, {len(gold.label):,} mentions"
        ignored = ", ".join(f"{name} {count}" for name, count in sorted(gold.ignored.items()))
        self.console.say(f"{told}{f' (ignored: {ignored})' if ignored else ''}")

    # -- dictionaries ------------------------------------------------------------------------

    def lexicon(self, config: GridConfig) -> Lexicon:
        """Returns the compiled dictionaries of a cell with their trie."""
        types = identifier_sources(self.grid, config)
        words = word_lists(self.grid, config)
        options: dict[str, Any] = {"fold_accents": config.text.fold_accents}
        if config.placeholders is not None:
            options["placeholders"] = config.placeholders
        settings = digest(
            {name: [str(source) for source in sources] for name, sources in types.items()},
            [str(words_of) for words_of in words],
            options,
        )
        if ("lexicon", settings) in self._memo:
            return self._memo["lexicon", settings]
        key = dictionary_digest(types, words, **options)
        dictionary = load_dictionary(self.database, key)
        if dictionary is None:
            with self.console.step("compiling dictionaries"):
                dictionary = compile_dictionary(types, words, **options)
                save_dictionary(self.database, dictionary)
            self._say_dictionary(dictionary)
        folder = self.workspace.cache / f"trie-{key}"
        if not folder.is_dir():
            Trie.compile(dictionary).save(folder)
        lexicon = Lexicon(dictionary, Trie.load(folder), folder)
        self._memo["lexicon", settings] = lexicon
        return lexicon

    def _say_dictionary(self, dictionary: Dictionary) -> None:
        rates = dictionary.rates > 0
        several = rates.sum(axis=1) > 1
        listed = dictionary.non_identifier != 0
        parts = [
            f"{int(rates[:, column].sum()):,} {name}"
            for column, name in enumerate(dictionary.types)
        ]
        self.console.say(
            f"{len(rates):,} identifiers ({', '.join(parts)}); "
            f"{int((several | listed).sum()):,} ambiguous, {int(several.sum()):,} of several types"
        )
        for title, rows in (
            ("rows left out", dictionary.removed),
            ("rows not taken as written", dictionary.remarks),
        ):
            counts = rows.column("reason").value_counts().to_pylist()
            if counts:
                reasons = ", ".join(f"{row['values']} {row['counts']:,}" for row in counts)
                self.console.say(f"{title}: {reasons}")

    # -- corpus ------------------------------------------------------------------------------

    def corpus(self, config: GridConfig) -> CorpusPart:
        """Returns the available sentences of a cell's corpus."""
        corpus = config.corpus
        assert corpus is not None
        gold = self.gold(config)
        exclude: set[Any] = set()
        for name, gold_set in gold.items():
            # gold.train may well be the corpus itself; it is no measure, so nothing leaks.
            if name != "train":
                exclude |= gold_set.sentence_hashes
        options: dict[str, Any] = {
            "min_words": config.text.min_words,
            "max_words": config.text.max_words,
            "fold_accents": config.text.fold_accents,
            "line_breaks": config.text.line_breaks,
            "sample": corpus.sample,
            "seed": corpus.seed,
        }
        sources = corpus_sources(self.grid, config)
        settings = digest([str(source) for source in sources], options, sorted(exclude))
        if ("corpus", settings) in self._memo:
            return self._memo["corpus", settings]
        with self.console.step("reading the corpus") as advance:
            info = load_corpus(self.database, sources, exclude=exclude, progress=advance, **options)
        self.console.say(
            f"{info.num_sentences:,} available sentences of {info.num_documents:,} documents"
        )
        if info.num_unreadable:
            self.console.warn(
                f"{info.num_unreadable:,} rows of the corpus could not be read and were left out "
                "(all are in the table unreadable_rows of store.duckdb):"
            )
            for file, line, reason in unreadable_rows(self.database, info.digest, _SHOWN_ROWS):
                self.console.warn(f"{file}, line {line}: {reason}")
        if not info.num_sentences:
            raise InputError(
                "no sentence of the corpus is left",
                self.grid.place("corpus"),
                f"Sentences need {config.text.min_words} to {config.text.max_words} words "
                "(text.min_words, text.max_words) and must not be in gold.",
            )
        part = CorpusPart(info, load_sentences(self.database, info.digest))
        self._memo["corpus", settings] = part
        return part

    # -- matches -----------------------------------------------------------------------------

    def matches(self, lexicon: Lexicon, corpus: CorpusPart) -> Matches:
        """Returns every occurrence of every identifier in the available sentences."""
        folder = self.workspace.cache / f"matches-{digest(lexicon.digest, corpus.digest)}"
        if ("matches", folder.name) in self._memo:
            return self._memo["matches", folder.name]
        sentences = corpus.sentences
        if not folder.is_dir():
            with self.console.step("matching"):
                self._find(lexicon, sentences).save(folder)
        self._memo["matches", folder.name] = Matches.load(folder)
        return self._memo["matches", folder.name]

    def _find(self, lexicon: Lexicon, sentences: StoredSentences) -> Matches:
        ray = self.grid.config.ray
        if len(sentences.tokens) <= ray.shard_sentences:
            return find_matches(lexicon.trie, sentences.tokens, sentences.key)
        from deidsearch.annotate.shards import find_matches_sharded

        return find_matches_sharded(
            lexicon.folder,
            sentences.tokens,
            sentences.key,
            folder=self.workspace.temporary / "shards",
            num_actors=available_cpus(),
            address=ray.address,
        )

    def gold_matches(self, lexicon: Lexicon, gold: GoldSet, fold_accents: bool) -> Matches:
        """Returns the occurrences of identifiers in a gold set."""
        key = digest(lexicon.digest, gold.digest, gold.name)
        if ("gold matches", key) not in self._memo:
            folded = fold_vocabulary(gold.tokens.vocabulary, fold_accents)
            self._memo["gold matches", key] = find_matches(lexicon.trie, gold.tokens, folded)
        return self._memo["gold matches", key]

    # -- pieces ------------------------------------------------------------------------------

    def encoder(self, config: GridConfig) -> tuple[EncoderRef, str]:
        """Returns the resolved encoder of a cell and its content digest."""
        from deidsearch.train.encoder import encoder_digest, resolve_encoder

        name = config.model.encoder
        if ("encoder", name) not in self._memo:
            ref = resolve_encoder(name, self.grid.base)
            self._memo["encoder", name] = (ref, encoder_digest(ref))
        return self._memo["encoder", name]

    def pieces(self, tokens: TokenTable, content: str, config: GridConfig, what: str) -> str:
        """Returns the folder of the encoded sentences, relative to the output.

        Args:
            tokens: the sentences.
            content: digest that names them.
            config: of the cell: encoder and lower-casing.
            what: whose sentences they are, for whoever waits.
        """
        ref, encoder = self.encoder(config)
        lowercase = config.text.lowercase
        name = f"cache/pieces-{digest(content, encoder, lowercase)}"
        folder = self.workspace.root / name
        if not folder.is_dir():
            from deidsearch.dataset.pieces import encode_sentences
            from deidsearch.train.encoder import describe_encoder, load_tokenizer

            if ("tokenizer", encoder) not in self._memo:
                self._memo["tokenizer", encoder] = load_tokenizer(ref)
            with self.console.step(f"cutting words of {what} into pieces"):
                tokenizer = self._memo["tokenizer", encoder]
                encoded = encode_sentences(
                    tokens,
                    tokenizer,
                    lowercase=lowercase,
                    max_pieces=describe_encoder(ref).max_pieces,
                )
                encoded.save(folder)
        return name
