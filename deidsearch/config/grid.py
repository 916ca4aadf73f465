"""The models of grid.yaml: every field with its meaning and unit, and the rules between fields."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    field_validator,
    model_validator,
)


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):  # which Python takes for 0 and 1
        raise ValueError(f"it is {str(value).lower()}, not a number.")
    return value


# Bounds far beyond use: what lies above them would overflow far from the line that wrote it.
_MANY = 10**9
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Many = Annotated[int, Field(ge=1, le=_MANY), BeforeValidator(_no_boolean)]


def _path(value: str) -> str:
    if not value.strip():
        raise ValueError("it is empty. Write a path, or take the key out.")
    if any(character < " " or "\ud800" <= character <= "\udfff" for character in value):
        raise ValueError("it holds a character that no path can have.")
    return value


PathText = Annotated[str, AfterValidator(_path)]


class Section(BaseModel):
    """A part of the grid: frozen, and closed to unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )


class Source(Section):
    """One file of identifiers of a type (METHOD §1)."""

    path: PathText = Field(description="CSV, TSV, TXT (one a line) or Parquet; .gz by ending")
    identifier: str | None = Field(
        None, description="column of the identifiers; default: 'identifier' or the only column"
    )
    count: str | None = Field(
        "count", description="column of population counts; null ignores the counts"
    )
    scale: float = Field(
        1.0, ge=1e-12, le=1e12, description="factor on the counts, for counts on another scale"
    )
    encoding: str | None = Field(None, description="text encoding; default UTF-8")
    separator: str | None = Field(None, description="field separator; default by ending")
    suffixes: tuple[str, ...] = Field((), description="endings that also make an identifier: ['s']")
    variants: dict[str, tuple[str, ...]] = Field(
        {}, description="spellings of a word of the entry: {avenida: ['av.', 'avda.']}"
    )


class WordList(Section):
    """One list of words and terms that are no identifiers (METHOD §2)."""

    name: str = Field(description="name of the list in counts and explanations")
    path: PathText = Field(description="TXT (one a line), CSV, TSV or Parquet; .gz by ending")
    column: str | None = Field(None, description="column of the terms; default: the first")
    encoding: str | None = Field(None, description="text encoding; default UTF-8")
    separator: str | None = Field(None, description="field separator; default by ending")
    split: bool = Field(False, description="count the single words of multi-word terms too")
    lowercase_entries_only: bool = Field(
        False, description="skip entries with a capital initial (names in a word list)"
    )


class Corpus(Section):
    """The unannotated text (METHOD §3)."""

    path: PathText | tuple[PathText, ...] = Field(
        description="file, folder or glob pattern; or several"
    )
    text: str | None = Field(None, description="column of the text; default 'text'")
    id: str | None = Field(None, description="column of the document's id; default 'id'")
    unit: Literal["document", "sentence"] = Field(
        "document", description="what a record is; documents are split into sentences"
    )
    encoding: str | None = Field(None, description="text encoding; default UTF-8")
    separator: str | None = Field(None, description="field separator; default by ending")
    sample: Many | None = Field(
        None, description="sentences in the seeded random sample; null takes all"
    )
    seed: Seed = Field(1, description="seed of sample, subsets and down-sampling")


class Text(Section):
    """How sentences are cut and shown (METHOD §3)."""

    lowercase: bool = Field(True, description="lower-case what the encoder sees")
    fold_accents: bool = Field(False, description="match without regard to accents")
    min_words: int = Field(8, ge=0, description="fewest words of a corpus sentence")
    max_words: int = Field(70, ge=1, description="most words of a corpus sentence")
    line_breaks: Literal["auto", "always", "blank"] = Field(
        "auto", description="line breaks that end a sentence: by context, all, blank lines only"
    )

    @model_validator(mode="after")
    def _ordered(self) -> Text:
        if self.min_words > self.max_words:
            raise ValueError(f"min_words ({self.min_words}) is above max_words ({self.max_words})")
        return self


class GoldSet(Section):
    """One human-annotated set (METHOD §6; INTERFACE, Files)."""

    path: PathText = Field(description="JSON Lines of documents or of sentences with spans")
    labels: dict[str, str] | None = Field(
        None, description="label in the file -> type; others are ignored and counted"
    )
    where: dict[str, Any] = Field({}, description="only spans whose extra keys have these values")
    part: tuple[StrictInt, StrictInt] | None = Field(
        None, description="[k, n]: the k-th of n contiguous blocks of documents"
    )
    nested: Literal["outer", "all"] = Field(
        "all", description="nested mentions: all stay gold, or only the outer ones"
    )
    unit: Literal["document", "sentence"] | None = Field(
        None, description="what a record is; default: as for the corpus"
    )

    @field_validator("part")
    @classmethod
    def _within(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and not 1 <= value[0] <= value[1]:
            raise ValueError(f"part [{value[0]}, {value[1]}] needs 1 <= k <= n")
        return value


def _named_tests(value: Any) -> Any:
    """One test set alone is the map {test: set}."""
    if isinstance(value, dict) and ("path" in value or not value):
        return {"test": value}
    return value


class Gold(Section):
    """The gold sets: validation chooses, test reports, train bounds from above."""

    validation: GoldSet
    test: Annotated[dict[str, GoldSet], BeforeValidator(_named_tests)] = Field(
        {}, description="a set, or a map of names to sets; the first is 'test'"
    )
    train: GoldSet | None = Field(None, description="only for training.source: gold")

    @field_validator("test")
    @classmethod
    def _named(cls, value: dict[str, GoldSet]) -> dict[str, GoldSet]:
        for name in value:
            # The name is one of a folder, too.
            if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) is None:
                raise ValueError(
                    f"the test set's name {name[:80]!r} needs letters, digits, '.', '_' or '-'"
                )
            if name in ("validation", "train"):
                raise ValueError(f"a test set cannot be called {name!r}. Give it another name.")
        return value


def _ceiling(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            str(name): _one_ceiling(number, f"the ceiling of {name}")
            for name, number in value.items()
        }
    return None if value is None else _one_ceiling(value, "a ceiling")


def _one_ceiling(value: Any, what: str) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < 1e300:
        # An integer of thousands of digits is a typing error that need not be read in full.
        raise ValueError(f"{what} must be a number above 0, got {str(value)[:40]}")
    return float(value)


Ceiling = Annotated[float | dict[str, float] | None, BeforeValidator(_ceiling)]


class Annotation(Section):
    """How matches become tags (METHOD §5, §5b)."""

    ceiling: Ceiling = Field(
        512.0, description="ratio above which a word is no identifier: one, per type, or null"
    )
    floor: Positive | None = Field(
        1.0, description="ratio below which an ambiguous word is an identifier; null: never"
    )
    scope: Literal["ambiguous", "all"] = Field(
        "ambiguous", description="identifiers the ceiling acts on"
    )
    type_dominance: Annotated[float, Field(ge=1)] | None = Field(
        None, description="a type this many times rarer than the strongest is dropped"
    )
    multiword_ambiguous: bool | dict[str, bool] = Field(
        False, description="multi-word identifiers of common words count as non-identifiers"
    )
    initials: Literal["paper", "extended", "off"] = Field(
        "paper", description="letters that join the names around them"
    )


class Model(Section):
    """The model and its encoder (PURE.md)."""

    head: Literal["pure", "linear", "fnn"] = Field("pure", description="what scores the spans")
    encoder: PathText = Field(description="package:NAME, a local folder, or a Hugging Face name")
    encoder_layers: Annotated[int, Field(ge=1)] | None = Field(
        None, description="keep the first N layers; null keeps all"
    )
    max_span_width: int = Field(8, ge=1, le=64, description="tokens in the longest mention")
    decode: Literal["greedy", "independent"] = Field(
        "greedy", description="without overlap by score, or each span by itself"
    )
    context_window: Literal[0] = Field(0, description="words around a sentence")
    freeze_embeddings: bool = Field(False, description="word embeddings are not trained")
    freeze_layers: int = Field(0, ge=0, description="lowest encoder layers that are not trained")
    head_hidden: int = Field(150, ge=1, le=16384, description="width of the head's hidden layers")
    width_embedding: int = Field(
        150, ge=1, le=16384, description="size of the span-width embedding"
    )
    head_dropout: Share = Field(0.2, description="dropout in the head")
    document_encoder: str | None = Field(None, description="second encoder (task: documents)")
    mask_weight: Positive = Field(1.0, description="weight of masked pieces (task: documents)")


class Training(Section):
    """One training (METHOD §7, §8)."""

    source: Literal["dictionary", "gold"] = Field(
        "dictionary", description="labels by dictionary, or human ones (the upper bound)"
    )
    upper_bound: bool = Field(True, description="add a gold-trained cell where gold.train is given")
    sentences: Many | None = Field(None, description="available sentences; null takes all")
    epochs: Many = Field(100, description="most epochs")
    patience: Many | None = Field(
        10, description="epochs without a better validation F1 before stopping; null: never"
    )
    batch_size: Many = Field(16, description="sentences of one optimiser step")
    learning_rate: Positive = Field(1e-5, description="of the encoder")
    head_learning_rate: Positive = Field(5e-4, description="of the head")
    warmup: Share = Field(0.1, description="share of the steps with a rising rate")
    clip: Positive | None = Field(None, description="largest norm of the gradient; null: off")
    seed: Seed = Field(1, description="initial weights, order and dropout")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="auto: bf16 on a GPU that has it, else fp32"
    )
    token_budget: int = Field(
        4096, ge=64, le=_MANY, description="pieces of one micro-batch; gradients of a step add up"
    )


class Evaluation(Section):
    """How predictions are scored (METHOD §9)."""

    ambiguous: Literal["non_identifier", "identifier"] = Field(
        "non_identifier", description="what the dictionary baseline makes of ambiguous mentions"
    )
    resamples: int = Field(
        2000, ge=100, le=1_000_000, description="bootstrap resamples of the intervals"
    )
    seed: Seed = Field(1, description="seed of the bootstrap")


class Search(Section):
    """The cells of the sweep (METHOD §10)."""

    method: Literal["grid", "optuna"] = Field("grid", description="every cell, or sampled ones")
    metric: str = Field("validation/f1", description="what is best, always on validation")
    space: dict[str, Any] | list[dict[str, Any]] = Field(
        {}, description="dotted field -> values; a list of such mappings adds their cells up"
    )
    trials: Many | None = Field(None, description="trials of optuna")
    time_budget: Positive | None = Field(None, description="seconds after which none is started")
    max_concurrent: Many | None = Field(None, description="trials at once; null: as many as fit")

    @field_validator("metric")
    @classmethod
    def _on_validation(cls, value: str) -> str:
        known = ("validation/f1", "validation/recall", "validation/precision")
        if value not in known:
            raise ValueError(f"{value!r} cannot choose; use one of {', '.join(known)}")
        return value


class Ray(Section):
    """Where and with what the trials run."""

    address: str = Field(
        "local",
        pattern=r"^(local|auto|(ray://)?[^\s:/]+:[0-9]{1,5})$",
        description="local, auto, or ray://host:port",
    )
    cpus_per_trial: Many = Field(2, description="cores of one trial")
    gpus_per_trial: float = Field(
        0, ge=0, le=_MANY, description="GPUs of one trial; fractions share one"
    )
    shard_sentences: Many = Field(
        1_000_000, description="sentences above which matching is shared by actors"
    )


class Tracking(Section):
    """MLflow."""

    uri: str | None = Field(None, description="tracking store; null: SQLite in the output folder")
    experiment: str | None = Field(None, description="experiment; null: the grid's name")
    log_text: bool = Field(False, description="allow note text in logs and tables with words")


class Documents(Section):
    """Long documents (METHOD §11)."""

    annotators: Literal["union", "majority", "each"] = "union"
    window: Annotated[int, Field(ge=1)] | None = None
    stride: Annotated[int, Field(ge=1)] | None = None
    truncate: bool = False


class GridConfig(Section):
    """The whole of grid.yaml."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]*$", description="name of the sweep and its experiment"
    )
    task: Literal["sentences", "documents"] = "sentences"
    output: PathText | None = Field(None, description="folder of the sweep; default runs/NAME")
    dictionaries: dict[str, tuple[Source, ...]] = Field({}, description="type -> sources")
    non_identifiers: tuple[WordList, ...] = Field((), description="words that are no identifiers")
    placeholders: tuple[str, ...] | None = Field(
        None, description="entries that stand for nobody ('ukendt'); null: the built-in list"
    )
    corpus: Corpus | None = Field(None, description="the unannotated text")
    text: Text = Text()
    gold: Gold
    annotation: Annotation = Annotation()
    model: Model
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    search: Search = Search()
    ray: Ray = Ray()
    tracking: Tracking = Tracking()
    documents: Documents = Documents()

    @property
    def types(self) -> tuple[str, ...]:
        """The identifier types in the grid's order (from gold labels where no dictionary is)."""
        if self.dictionaries:
            return tuple(self.dictionaries)
        names: dict[str, None] = {}
        for gold in (self.gold.train, self.gold.validation, *self.gold.test.values()):
            if gold is not None and gold.labels:
                names.update(dict.fromkeys(gold.labels.values()))
        return tuple(names)
