"""Predictions of a span model over any number of sentences."""

from __future__ import annotations

import numpy as np
import torch

from deidsearch.dataset.batches import SpanBatches
from deidsearch.dataset.decode import decode
from deidsearch.dataset.pieces import EncodedSentences
from deidsearch.records import SpanTable
from deidsearch.train.span_model import SpanModel, autocast

# Pieces computed at once: more would fall out of a processor's caches.
_CPU_BUDGET = 2048


def predict(
    model: SpanModel,
    encoded: EncodedSentences,
    *,
    decoding: str | None = None,
    precision: str = "auto",
    token_budget: int = 16_384,
    min_score: float | None = None,
) -> SpanTable:
    """Returns the predicted spans of the sentences, with scores.

    Args:
        model: trained.
        encoded: the sentences, as pieces of the model's own tokenizer.
        decoding: ``greedy`` or ``independent``; default: the model's setting.
        precision: ``auto``, ``fp32`` or ``bf16``.
        token_budget: pieces computed at once, padding included.
        min_score: also take spans whose best type has this share at least although "none" has
            more. A span's score is the share 0-1 of its best type.
    """
    batches = SpanBatches(
        encoded, max_pieces=model.max_pieces, max_span_width=model.settings.max_span_width
    )
    return predict_batches(
        model,
        batches,
        decoding=decoding,
        precision=precision,
        token_budget=token_budget,
        min_score=min_score,
    )


def predict_batches(
    model: SpanModel,
    batches: SpanBatches,
    *,
    decoding: str | None = None,
    precision: str = "auto",
    token_budget: int = 16_384,
    min_score: float | None = None,
) -> SpanTable:
    """Returns what `predict` does, for sentences whose batches are planned already."""
    if model.device.type == "cpu":
        token_budget = min(token_budget, _CPU_BUDGET)
    was_training = model.training
    model.eval()
    columns: list[tuple[np.ndarray, ...]] = []
    try:
        with torch.inference_mode(), autocast(precision, model.device):
            for rows in batches.all_slices(token_budget):
                batch = batches.batch(rows)
                logits = model(batch).float()
                chosen, label, score = _candidates(logits, min_score)
                columns.append(
                    (
                        batch.sentence[chosen],
                        batch.start_token[chosen],
                        batch.end_token[chosen],
                        label,
                        score,
                    )
                )
    finally:
        model.train(was_training)
    if not columns:
        return SpanTable.build([], [], [], [], [])
    spans = SpanTable.build(*(np.concatenate(column) for column in zip(*columns, strict=True)))
    return decode(spans, decoding or model.settings.decode)


def _candidates(
    logits: torch.Tensor, min_score: float | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns positions, labels and scores of the spans that are not none, each ``(chosen,)``."""
    best_type, label = logits[:, 1:].max(dim=1)
    if min_score is None:
        chosen = torch.nonzero(best_type > logits[:, 0]).squeeze(1)
        score = logits[chosen].softmax(dim=1)[:, 1:].amax(dim=1)
    else:
        share = logits.softmax(dim=1)[:, 1:].amax(dim=1)
        chosen = torch.nonzero((best_type > logits[:, 0]) | (share >= min_score)).squeeze(1)
        score = share[chosen]
    return chosen.cpu().numpy(), label[chosen].cpu().numpy(), score.cpu().numpy()
