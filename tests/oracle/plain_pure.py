"""The entity model of PURE as its public code behaves: the reference the product is held against.

Source: PURE.md, column "theirs"; Zhong & Chen 2021, §3.1. Nothing is factorised, bucketed or fused:
the joined vector of every span, padded spans and padded pieces are all computed, and spans are
scored each by itself. It shares no code with the product.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

Mention = tuple[int, int, int]  # first token, last token (inclusive), label from 1


class FeedForward(nn.Module):
    """Linear, ReLU and dropout, twice."""

    def __init__(self, input_dim: int, hidden_dim: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Linear(input_dim, hidden_dim), nn.Linear(hidden_dim, hidden_dim)]
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            inputs = self.dropout(functional.relu(layer(inputs)))
        return inputs


class PlainPure(nn.Module):
    """Encoder, span vectors [h_start; h_end; width], feed-forward, labels."""

    def __init__(
        self,
        encoder: nn.Module,
        num_labels: int,
        max_span_length: int = 8,
        head_hidden_dim: int = 150,
        width_embedding_dim: int = 150,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.bert = encoder
        self.hidden_dropout = nn.Dropout(encoder.config.hidden_dropout_prob)
        self.width_embedding = nn.Embedding(max_span_length + 1, width_embedding_dim)
        size = encoder.config.hidden_size
        self.ner_classifier = nn.Sequential(
            FeedForward(2 * size + width_embedding_dim, head_hidden_dim, dropout),
            nn.Linear(head_hidden_dim, num_labels),
        )
        for module in [self.width_embedding, *self.ner_classifier.modules()]:
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, spans: torch.Tensor
    ) -> torch.Tensor:
        """Returns logits ``(batch, spans, labels)``; spans are ``(batch, spans, 3)``."""
        states = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        states = self.hidden_dropout(states)
        start, end, width = spans.unbind(-1)
        start_vector = batched_index_select(states, start)
        end_vector = batched_index_select(states, end)
        vector = torch.cat([start_vector, end_vector, self.width_embedding(width)], dim=-1)
        return self.ner_classifier(vector)

    def loss(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Returns the cross-entropy summed over the spans that are not padding."""
        logits = self(inputs["input_ids"], inputs["attention_mask"], inputs["spans"])
        active = inputs["spans_mask"].view(-1) == 1
        labels = torch.where(active, inputs["labels"].view(-1), torch.tensor(-100))
        flat = logits.view(-1, logits.shape[-1])
        return functional.cross_entropy(flat, labels, reduction="sum")


def batched_index_select(states: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Returns ``(batch, spans, hidden)`` of ``(batch, pieces, hidden)`` as AllenNLP's does."""
    offset = torch.arange(states.shape[0]) * states.shape[1]
    flat = states.reshape(-1, states.shape[-1])
    return flat.index_select(0, (index + offset[:, None]).reshape(-1)).view(*index.shape, -1)


class Samples:
    """Sentences ready for the model: pieces, spans and labels, one sample each."""

    def __init__(
        self,
        sentences: Sequence[Sequence[str]],
        mentions: Sequence[Sequence[Mention]],
        tokenizer,
        max_span_length: int = 8,
    ) -> None:
        self.padding = tokenizer.pad_token_id
        self.pieces: list[list[int]] = []
        self.spans: list[list[tuple[int, int, int]]] = []
        self.places: list[list[tuple[int, int]]] = []
        self.labels: list[list[int]] = []
        for words, gold in zip(sentences, mentions, strict=True):
            pieces, start, end = [tokenizer.cls_token_id], [], []
            for word in words:
                start.append(len(pieces))
                pieces += tokenizer.convert_tokens_to_ids(tokenizer.tokenize(word))
                end.append(len(pieces) - 1)
            pieces.append(tokenizer.sep_token_id)
            label = {(i, j): k for i, j, k in gold}
            places = [
                (i, j)
                for i in range(len(words))
                for j in range(i, min(len(words), i + max_span_length))
            ]
            self.pieces.append(pieces)
            self.places.append(places)
            self.spans.append([(start[i], end[j], j - i + 1) for i, j in places])
            self.labels.append([label.get(place, 0) for place in places])

    def __len__(self) -> int:
        return len(self.pieces)

    def collate(self, batch: Sequence[int]) -> dict[str, torch.Tensor]:
        """Returns the tensors of a batch, padded to its longest sentence."""
        longest = max(len(self.pieces[k]) for k in batch)
        most = max(len(self.spans[k]) for k in batch)
        columns: dict[str, list] = {
            name: [] for name in ("input_ids", "attention_mask", "spans", "spans_mask", "labels")
        }
        for k in batch:
            gap = longest - len(self.pieces[k])
            columns["input_ids"].append(self.pieces[k] + [self.padding] * gap)
            columns["attention_mask"].append([1] * len(self.pieces[k]) + [0] * gap)
            gap = most - len(self.spans[k])
            columns["spans"].append(self.spans[k] + [(0, 0, 0)] * gap)
            columns["spans_mask"].append([1] * len(self.spans[k]) + [0] * gap)
            columns["labels"].append(self.labels[k] + [0] * gap)
        return {name: torch.tensor(column) for name, column in columns.items()}


def batches(num_samples: int, batch_size: int, shuffle: random.Random | None) -> list[list[int]]:
    """Returns the samples of each batch: file order, or random."""
    order = list(range(num_samples))
    if shuffle is not None:
        shuffle.shuffle(order)
    return [order[at : at + batch_size] for at in range(0, num_samples, batch_size)]


class Updates:
    """AdamW with two rates, linear warm-up and linear decay, one parameter at a time."""

    def __init__(
        self,
        model: PlainPure,
        total: int,
        learning_rate: float = 1e-5,
        task_learning_rate: float = 5e-4,
        warmup: float = 0.1,
    ) -> None:
        named = list(model.named_parameters())
        groups = [
            {"params": [p for n, p in named if "bert" in n], "lr": learning_rate},
            {"params": [p for n, p in named if "bert" not in n], "lr": task_learning_rate},
        ]
        self.model = model
        self.optimizer = torch.optim.AdamW(
            groups, eps=1e-6, weight_decay=0.0, foreach=False, fused=False
        )
        rise = int(total * warmup)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer,
            lambda step: (
                step / max(1, rise)
                if step < rise
                else max(0.0, (total - step) / max(1, total - rise))
            ),
        )

    def step(self, inputs: dict[str, torch.Tensor]) -> float:
        """Returns the summed loss of the batch after one update."""
        self.model.train()
        loss = self.model.loss(inputs)
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.model.zero_grad()
        return float(loss.detach())


@torch.no_grad()
def predict(model: PlainPure, samples: Samples, batch_size: int = 32) -> list[set[Mention]]:
    """Returns each sentence's predictions: the best label of each span where it is not none."""
    model.eval()
    found = []
    for batch in batches(len(samples), batch_size, None):
        inputs = samples.collate(batch)
        logits = model(inputs["input_ids"], inputs["attention_mask"], inputs["spans"])
        best = logits.argmax(-1).tolist()
        for row, k in enumerate(batch):
            found.append(
                {
                    (i, j, label)
                    for (i, j), label in zip(samples.places[k], best[row], strict=False)
                    if label
                }
            )
    return found
