"""Windows: every span that can be whole in a window is in just one that owns it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deidsearch.dataset.pieces import EncodedSentences, SpecialPieces
from deidsearch.dataset.windows import plan_windows
from deidsearch.records import SpanTable

SPECIAL = SpecialPieces(first=101, last=102, padding=0, unknown=100)


def make_encoded(pieces_per_token: list[list[int]]) -> EncodedSentences:
    """Returns sentences whose tokens have these numbers of pieces."""
    sizes = [np.array(row, dtype=np.int64) for row in pieces_per_token]
    ends = [np.cumsum(row) for row in sizes]
    lengths = [int(row.sum()) for row in sizes]
    join = [np.empty(0, np.int64)]
    return EncodedSentences(
        np.arange(sum(lengths), dtype=np.int32) + 1000,
        np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        np.concatenate(join + [e - s for e, s in zip(ends, sizes, strict=True)]).astype(np.int32),
        np.concatenate(join + [e - 1 for e in ends]).astype(np.int32),
        np.concatenate(([0], np.cumsum([len(row) for row in sizes]))).astype(np.int64),
        SPECIAL,
    )


SENTENCES = st.lists(st.lists(st.integers(1, 6), max_size=40), max_size=5)


@settings(deadline=None)
@given(SENTENCES, st.integers(8, 40), st.integers(1, 8))
def test_each_span_that_fits_is_owned_by_exactly_one_window_that_holds_it(
    sizes: list[list[int]], max_pieces: int, width: int
) -> None:
    encoded = make_encoded(sizes)
    windows = plan_windows(encoded, max_pieces, width)
    owners: dict[tuple[int, int, int], int] = {}
    for row in range(len(windows)):
        sentence = int(windows.sentence[row])
        start, end = int(windows.start_token[row]), int(windows.end_token[row])
        assert sum(sizes[sentence][start:end]) <= max_pieces - 2
        for first in range(windows.own_start[row], windows.own_end[row]):
            for last in range(first + 1, min(first + width, end) + 1):
                assert start <= first
                key = (sentence, first, last)
                owners[key] = owners.get(key, 0) + 1
    assert set(owners.values()) <= {1}
    spans = [
        (number, first, last)
        for number, row in enumerate(sizes)
        for first in range(len(row))
        for last in range(first + 1, min(first + width, len(row)) + 1)
    ]
    reachable = (
        plan_windows(encoded, max_pieces, width)
        .is_reachable(SpanTable.build(*zip(*spans, strict=True), np.zeros(len(spans))))
        .tolist()
        if spans
        else []
    )
    assert [span in owners for span in spans] == reachable
    # Where any span of the width fits into three quarters of a window, none is lost.
    most = max((max(row, default=0) for row in sizes), default=0)
    if most * width <= (max_pieces - 2):
        assert all(reachable)


def test_sentences_that_fit_are_one_window_and_empty_ones_none() -> None:
    windows = plan_windows(make_encoded([[1, 1], [], [1] * 30]), 32, 8)
    assert windows.sentence.tolist() == [0, 2]
    assert windows.own_end.tolist() == [2, 30]
    assert windows.row_offsets.tolist() == [0, 1, 1, 2]
    assert windows.num_windowed == 0


def test_span_on_a_seam_has_text_on_either_side() -> None:
    windows = plan_windows(make_encoded([[1] * 300]), 102, 8)
    assert len(windows) > 2 and windows.num_windowed == 1
    # First owned spans stand some tokens into their window, last ones end before it does.
    assert (windows.own_start[1:] - windows.start_token[1:] >= 5).all()
    assert (windows.end_token[:-1] - (windows.own_end[:-1] - 1 + 8) >= 5).all()


def test_spans_wider_than_the_width_are_out_of_reach() -> None:
    windows = plan_windows(make_encoded([[1] * 20]), 64, 4)
    spans = SpanTable.build([0, 0], [3, 3], [7, 8], [0, 0])
    assert windows.is_reachable(spans).tolist() == [True, False]


def test_very_long_sentence_takes_few_windows() -> None:
    windows = plan_windows(make_encoded([[2] * 50_000]), 512, 8)
    assert len(windows) < 300
