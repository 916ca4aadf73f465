"""Batches: all sentences once an epoch, all spans once, labels in their places."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deidsearch.dataset.batches import SORTED_STEPS, SpanBatches
from deidsearch.records import SpanTable
from tests.dataset.test_windows import SENTENCES, SPECIAL, make_encoded


def make_batches(sizes, mentions=None, *, max_pieces=64, width=8) -> SpanBatches:
    """Returns batches over sentences whose tokens have these numbers of pieces."""
    return SpanBatches(
        make_encoded(sizes), max_pieces=max_pieces, max_span_width=width, mentions=mentions
    )


@settings(deadline=None)
@given(SENTENCES, st.integers(10, 40), st.integers(1, 8), st.integers(1, 200), st.data())
def test_slices_hold_every_reachable_span_once_with_its_pieces_and_label(
    sizes, max_pieces, width, budget, data
) -> None:
    spans = [
        (number, first, last)
        for number, row in enumerate(sizes)
        for first in range(len(row))
        for last in range(first + 1, min(first + width, len(row)) + 1)
    ]
    chosen = data.draw(st.lists(st.sampled_from(spans), unique=True, max_size=8)) if spans else []
    labels = {span: data.draw(st.integers(0, 3)) for span in chosen}
    rows = [(*span, label) for span, label in labels.items()]
    mentions = SpanTable.build(*zip(*rows, strict=True)) if rows else SpanTable.empty()
    batches = make_batches(sizes, mentions, max_pieces=max_pieces, width=width)
    encoded = batches.encoded
    seen = []
    for piece_rows in batches.all_slices(budget):
        batch = batches.batch(piece_rows)
        assert batch.piece.size <= budget or len(piece_rows) == 1
        flat = batch.piece.ravel()
        for k in range(batch.num_spans):
            sentence, start = int(batch.sentence[k]), int(batch.start_token[k])
            end = int(batch.end_token[k])
            seen.append((sentence, start, end))
            token = encoded.token_offsets[sentence] + start
            base = encoded.piece_offsets[sentence]
            assert flat[batch.first[k]] == encoded.piece[base + encoded.first_piece[token]]
            last = encoded.last_piece[token + end - start - 1]
            assert flat[batch.last[k]] == encoded.piece[base + last]
            assert batch.width[k] == end - start
            assert batch.label[k] == labels.get((sentence, start, end), -1) + 1
        for row, length in zip(batch.piece, batch.length, strict=True):
            assert row[0] == SPECIAL.first and row[length - 1] == SPECIAL.last
            assert (row[length:] == SPECIAL.padding).all()
            assert (row[1 : length - 1] >= 1000).all()
    table = SpanTable.build(*zip(*spans, strict=True), np.zeros(len(spans))) if spans else None
    reachable = batches.windows.is_reachable(table) if table else []
    assert sorted(seen) == [span for span, there in zip(spans, reachable, strict=True) if there]


@given(
    st.lists(st.integers(0, 12), max_size=80),
    st.integers(1, 7),
    st.integers(0, 3),
    st.integers(1, 3),
)
def test_an_epoch_takes_each_sentence_once_in_full_steps(lengths, size, seed, epoch) -> None:
    batches = make_batches([[1] * length for length in lengths])
    steps = batches.steps(size, seed, epoch)
    there = [number for number, length in enumerate(lengths) if length]
    assert sorted(np.concatenate([[], *steps]).astype(int).tolist()) == there
    assert len(steps) == -(-len(there) // size)
    assert sorted(len(step) for step in steps)[1:] == [size] * (len(steps) - 1)


def test_order_hangs_on_seed_and_epoch_alone_and_batches_vary() -> None:
    lengths = np.random.default_rng(0).integers(1, 40, 400)
    batches = make_batches([[1] * int(length) for length in lengths])

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [step.tolist() for step in batches.steps(8, seed, epoch)]

    assert order(1, 1) == order(1, 1)
    assert order(1, 1) != order(2, 1)
    first, second = ({frozenset(step) for step in order(1, epoch)} for epoch in (1, 2))
    assert len(first & second) < len(first) / 5


def test_sorted_input_does_not_give_sorted_batches() -> None:
    """All sentences with a mention first, as they may come from a file."""
    batches = make_batches([[1] * 10] * 1600)
    shares = [float((step < 800).mean()) for step in batches.steps(16, 1, 1)]
    assert 0.4 < np.mean(shares[:30]) < 0.6
    assert np.std(shares) < 0.2


def test_buckets_leave_little_padding() -> None:
    lengths = np.clip(np.random.default_rng(1).lognormal(3, 0.6, 16 * SORTED_STEPS * 3), 3, 400)
    batches = make_batches([[1] * int(length) for length in lengths], max_pieces=512)
    real = computed = 0
    for step in batches.steps(16, 1, 1):
        for rows in batches.slices(step, 4096):
            batch = batches.batch(rows)
            real += int(batch.length.sum())
            computed += batch.piece.size
    assert computed < 1.15 * real


def test_steps_hold_short_and_long_sentences() -> None:
    lengths = np.random.default_rng(2).integers(1, 100, 1600)
    batches = make_batches([[1] * int(length) for length in lengths], max_pieces=512)
    ranges = [np.ptp(batches.encoded.lengths[step]) for step in batches.steps(16, 1, 1)]
    assert np.median(ranges) > 30


def test_all_windows_of_a_sentence_are_in_its_step() -> None:
    batches = make_batches([[1] * 200, [1] * 5], max_pieces=32)
    rows = np.concatenate(batches.slices(np.array([0]), 64))
    assert sorted(rows.tolist()) == np.flatnonzero(batches.windows.sentence == 0).tolist()


@pytest.mark.parametrize("width", [1, 8, 64])
def test_no_mentions_label_everything_none(width: int) -> None:
    batches = make_batches([[1] * 6], SpanTable.empty(), width=width)
    assert not batches.batch(np.array([0])).label.any()
    assert make_batches([[1] * 6]).batch(np.array([0])).label is None
