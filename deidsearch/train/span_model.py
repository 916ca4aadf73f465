"""The entity model of PURE over any encoder, its first layer factorised.

Source: Zhong & Chen 2021, §3.1; PURE.md.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from deidsearch.dataset.batches import Batch
from deidsearch.errors import InputError
from deidsearch.train.embeddings import CompactEmbedding
from deidsearch.train.encoder import EncoderRef, load_encoder, max_pieces_of
from deidsearch.train.settings import ModelSettings

_INIT_STD = 0.02  # of the head's weights


class SpanHead(nn.Module):
    """Scores spans from the hidden states of their first and last pieces and their width.

    The first layer of the reference reads the joined vector [h_first; h_last; w]. Its product with
    the weights is W_first h_first + W_last h_last + W_width w, so each part is computed once per
    piece and per width, and added per span: the same function at a fraction of the work.

    Args:
        hidden_size: width of the encoder.
        num_labels: types and, as number 0, none.
        settings: sizes and dropout.
    """

    def __init__(self, hidden_size: int, num_labels: int, settings: ModelSettings) -> None:
        super().__init__()
        size = settings.head_hidden
        self.hidden_size = hidden_size
        self.dropout = settings.head_dropout
        # Row 0 is never used: a width counts from 1, as in the reference.
        self.width = nn.Embedding(settings.max_span_width + 1, settings.width_embedding)
        self.first_layer = nn.Linear(2 * hidden_size + settings.width_embedding, size)
        self.second_layer = nn.Linear(size, size)
        self.output = nn.Linear(size, num_labels)
        nn.init.normal_(self.width.weight, std=_INIT_STD)
        for layer in (self.first_layer, self.second_layer, self.output):
            nn.init.normal_(layer.weight, std=_INIT_STD)
            nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor, first: Tensor, last: Tensor, width: Tensor) -> Tensor:
        """Returns the logits of the spans, ``(spans, labels)``; label 0 is none.

        Args:
            states: ``(pieces, hidden)``, the flattened rows.
            first, last: ``(spans,)``, places of each span's first and last piece.
            width: ``(spans,)``, tokens of each span.
        """
        size = self.hidden_size
        weight = self.first_layer.weight
        from_first = functional.linear(states, weight[:, :size])
        from_last = functional.linear(states, weight[:, size : 2 * size])
        from_width = functional.linear(
            self.width.weight, weight[:, 2 * size :], self.first_layer.bias
        )
        # As embedding lookups, whose backward on a CPU is far faster than that of indexing.
        hidden = functional.embedding(first, from_first)
        hidden = hidden + functional.embedding(last, from_last)
        hidden = hidden + functional.embedding(width, from_width)
        hidden = self._drop(functional.relu(hidden))
        hidden = self._drop(functional.relu(self.second_layer(hidden)))
        return self.output(hidden)

    def _drop(self, hidden: Tensor) -> Tensor:
        return functional.dropout(hidden, self.dropout, self.training)


class SpanModel(nn.Module):
    """An encoder with the span head.

    Args:
        encoder: of transformers; its last hidden states are used.
        num_types: types; label 0 beside them is none.
        settings: of head and encoder.
    """

    def __init__(self, encoder: nn.Module, num_types: int, settings: ModelSettings) -> None:
        super().__init__()
        config: Any = encoder.config
        self.encoder = encoder
        self.settings = settings
        self.num_types = num_types
        self.max_pieces = max_pieces_of(config.to_dict())
        self.state_dropout = _hidden_dropout(config)
        self.head = SpanHead(config.hidden_size, num_types + 1, settings)
        self._freeze()

    def _freeze(self) -> None:
        settings, encoder = self.settings, self.encoder
        if settings.freeze_embeddings:
            encoder.get_input_embeddings().requires_grad_(False)
        if not settings.freeze_layers:
            return
        layers = encoder_layers(encoder)
        if settings.freeze_layers > len(layers):
            raise InputError(
                f"{settings.freeze_layers} layers to freeze, the encoder has {len(layers)}",
                "model.freeze_layers",
                "Freeze fewer.",
            )
        # What lies under a frozen layer is frozen too, so that no gradient runs through it.
        encoder.requires_grad_(False)
        for layer in layers[settings.freeze_layers :]:
            layer.requires_grad_(True)

    @property
    def device(self) -> torch.device:
        return self.head.output.weight.device

    def forward(self, batch: Batch) -> Tensor:
        """Returns the logits of the batch's spans, ``(spans, labels)``."""
        return self.score(self.encode(batch), batch)

    def encode(self, batch: Batch) -> Tensor:
        """Returns the encoder's last hidden states, ``(rows, pieces, hidden)``."""
        device = self.device
        piece = _to(batch.piece, device)
        mask = None
        if batch.is_padded:
            # True (1) is a piece of text, False (0) padding.
            column = torch.arange(piece.shape[1], device=device)
            mask = (column < _to(batch.length, device)[:, None]).long()
        states = self.encoder(input_ids=piece, attention_mask=mask).last_hidden_state
        return functional.dropout(states, self.state_dropout, self.training)

    def score(self, states: Tensor, batch: Batch) -> Tensor:
        """Returns the logits of the batch's spans from hidden states."""
        device = states.device
        return self.head(
            states.flatten(0, 1),
            _to(batch.first, device),
            _to(batch.last, device),
            _to(batch.width, device),
        )

    def loss(self, batch: Batch) -> Tensor:
        """Returns the cross-entropy summed over the batch's spans, ``()``."""
        assert batch.label is not None
        logits = self(batch)
        label = _to(batch.label, logits.device)
        return functional.cross_entropy(logits.float(), label, reduction="sum")

    def compact_embeddings(self, used: Any) -> None:
        """Leaves only these rows of the word embeddings to be trained; exact without decay."""
        table = self.encoder.get_input_embeddings()
        if isinstance(table, nn.Embedding) and table.weight.requires_grad:
            compact = CompactEmbedding(table, torch.from_numpy(used).long())
            self.encoder.set_input_embeddings(compact)

    def expand_embeddings(self) -> None:
        """Makes the word embeddings an ordinary table again."""
        table = self.encoder.get_input_embeddings()
        if isinstance(table, CompactEmbedding):
            self.encoder.set_input_embeddings(table.expanded())

    def trainable(self) -> dict[str, nn.Parameter]:
        """Returns the parameters that training changes, by name."""
        return {name: value for name, value in self.named_parameters() if value.requires_grad}


def build_model(
    ref: EncoderRef, num_types: int, settings: ModelSettings, *, seed: int = 1
) -> SpanModel:
    """Returns an untrained model over a pretrained encoder, its head initialised from the seed.

    Raises:
        InputError: the encoder can't be loaded or has too few layers.
    """
    encoder = load_encoder(ref, layers=settings.encoder_layers)
    torch.manual_seed(seed)
    return SpanModel(encoder, num_types, settings)


def encoder_layers(encoder: nn.Module) -> nn.ModuleList:
    """Returns the encoder's layers, lowest first.

    Raises:
        InputError: its architecture keeps them in no list.
    """
    number = encoder.config.num_hidden_layers
    for module in encoder.modules():
        if isinstance(module, nn.ModuleList) and len(module) == number:
            return module
    raise InputError(
        f"the layers of a {encoder.config.model_type} encoder cannot be frozen one by one",
        "model.freeze_layers",
        "Set it to 0.",
    )


def autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Returns the context that computes in the given precision; weights stay in float32.

    Args:
        precision: ``fp32``, ``bf16``, or ``auto``: bf16 on a GPU that has it.
        device: where the model is.
    """
    if precision == "auto":
        is_fit = device.type == "cuda" and torch.cuda.is_bf16_supported()
        precision = "bf16" if is_fit else "fp32"
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def _hidden_dropout(config: Any) -> float:
    for name in ("hidden_dropout_prob", "dropout", "dropout_rate"):
        value = getattr(config, name, None)
        if isinstance(value, (int, float)):
            return float(value)
    return 0.1


def _to(array: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device, non_blocking=True)
