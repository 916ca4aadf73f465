"""What a model and its training can be told, as plain records; importing this loads no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from deidsearch.dataset.decode import DECODINGS
from deidsearch.errors import InputError, did_you_mean

PRECISIONS = ("auto", "fp32", "bf16")


class _FromMapping:
    """Settings that can be picked out of a larger mapping."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Returns the settings among the values; keys of other parts are passed over."""
        names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: value for name, value in values.items() if name in names})


@dataclass(frozen=True, slots=True)
class ModelSettings(_FromMapping):
    """The span model over an encoder (PURE.md).

    Attributes:
        head: only ``pure`` scores spans.
        encoder_layers: keep the first N layers of the encoder; None keeps all.
        max_span_width: tokens of the longest span.
        head_hidden: width of the head's two hidden layers.
        width_embedding: size of the span-width embedding.
        head_dropout: share 0-1 dropped after each hidden layer.
        decode: ``greedy`` or ``independent``.
        context_window: words around a sentence; only 0.
        freeze_embeddings: word embeddings are not trained.
        freeze_layers: lowest N layers, and the embeddings under them, are not trained.
    """

    head: str = "pure"
    encoder_layers: int | None = None
    max_span_width: int = 8
    head_hidden: int = 150
    width_embedding: int = 150
    head_dropout: float = 0.2
    decode: str = "greedy"
    context_window: int = 0
    freeze_embeddings: bool = False
    freeze_layers: int = 0

    def __post_init__(self) -> None:
        if self.head != "pure":
            raise InputError(
                f"the head {self.head!r} does not score spans",
                "model.head",
                "Use 'pure' for task: sentences.",
            )
        if self.decode not in DECODINGS:
            raise InputError(
                f"unknown decoding {self.decode!r}",
                "model.decode",
                did_you_mean(self.decode, DECODINGS),
            )
        if self.context_window != 0:
            raise InputError(
                f"a context of {self.context_window} words around a sentence is not implemented",
                "model.context_window",
                "Set it to 0.",
            )


@dataclass(frozen=True, slots=True)
class TrainSettings(_FromMapping):
    """One training (METHOD §8; PURE.md, "optimiser", "defaults").

    Attributes:
        epochs: the most epochs; the learning rate falls to 0 over all of them.
        patience: epochs without a better F1 before stopping, counted after the first F1 above 0;
            None never stops.
        batch_size: sentences of one optimiser step.
        learning_rate: of the encoder.
        head_learning_rate: of the head.
        warmup: share 0-1 of all steps over which the rates rise from 0.
        clip: largest norm of a step's gradient; None is off.
        weight_decay: of AdamW.
        seed: of initial weights, order and dropout.
        precision: ``fp32``, ``bf16``, or ``auto``: bf16 on a GPU that has it.
        token_budget: pieces computed at once, padding included.
    """

    epochs: int = 100
    patience: int | None = 10
    batch_size: int = 16
    learning_rate: float = 1e-5
    head_learning_rate: float = 5e-4
    warmup: float = 0.1
    clip: float | None = None
    weight_decay: float = 0.0
    seed: int = 1
    precision: str = "auto"
    token_budget: int = 4096

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(
                f"unknown precision {self.precision!r}",
                "training.precision",
                did_you_mean(self.precision, PRECISIONS),
            )
