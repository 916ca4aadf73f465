"""Word embeddings of which only the rows that occur in training are trained."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class CompactEmbedding(nn.Module):
    """An embedding table that trains some of its rows, kept apart in a small table.

    A row that occurs in no training sentence has no gradient and, without weight decay, never
    changes (PURE.md, "where its time goes"); so neither gradients nor moments are kept for it.
    In evaluation the whole table is read, the trained rows put back in their places.

    Args:
        table: the whole embedding.
        used: int64 ``(rows,)``, numbers of the rows to train, ascending.
    """

    def __init__(self, table: nn.Embedding, used: Tensor) -> None:
        super().__init__()
        self.embedding_dim = table.embedding_dim
        whole = table.weight.detach()
        place = torch.full((len(whole),), -1, dtype=torch.int64, device=whole.device)
        place[used] = torch.arange(len(used), device=whole.device)
        self.register_buffer("whole", whole, persistent=False)
        self.register_buffer("place", place, persistent=False)
        self.register_buffer("used", used.to(whole.device), persistent=False)
        self.rows = nn.Parameter(whole[used].clone())

    def forward(self, piece: Tensor) -> Tensor:
        """Returns the vectors, ``(rows, pieces, hidden)``, of pieces ``(rows, pieces)``."""
        if self.training:
            return functional.embedding(self.place[piece], self.rows)
        return functional.embedding(piece, self.whole)

    def train(self, mode: bool = True) -> CompactEmbedding:
        """Returns itself; leaving training puts the trained rows into the whole table."""
        if not mode:
            self.put_back()
        return super().train(mode)

    @torch.no_grad()
    def put_back(self) -> None:
        """Puts the trained rows into the whole table."""
        self.whole[self.used] = self.rows.detach()

    def expanded(self) -> nn.Embedding:
        """Returns the ordinary embedding with the trained rows in place."""
        self.put_back()
        return nn.Embedding.from_pretrained(self.whole, freeze=False)
