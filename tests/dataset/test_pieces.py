"""Words as pieces: each by itself, none without, offsets that hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deidsearch.dataset.pieces import EncodedSentences, encode_sentences, encode_vocabulary
from deidsearch.text.tokens import tokenise
from tests.train.tiny import make_tokenizer

TOKENIZER = make_tokenizer()
TEXT = st.text(
    st.sampled_from("aeåøß -_./0\u00a0\u200d\ufeff") | st.characters(codec="utf-8"), max_size=60
)


def _pieces_of_token(encoded: EncodedSentences, sentence: int, token: int) -> list[int]:
    flat = encoded.token_offsets[sentence] + token
    base = encoded.piece_offsets[sentence]
    return encoded.piece[
        base + encoded.first_piece[flat] : base + encoded.last_piece[flat] + 1
    ].tolist()


@settings(deadline=None, max_examples=60)
@given(st.lists(TEXT, max_size=6), st.booleans())
def test_pieces_are_those_of_each_word_by_itself(texts: list[str], lowercase: bool) -> None:
    tokens = tokenise(texts)
    encoded = encode_sentences(tokens, TOKENIZER, lowercase=lowercase, max_pieces=1000)
    assert len(encoded) == len(texts)
    for sentence in range(len(tokens)):
        end = 0
        for token, flat in enumerate(range(*tokens.offsets[sentence : sentence + 2])):
            word = tokens.vocabulary[int(tokens.token[flat])].as_py()
            word = word.lower() if lowercase else word
            wanted = TOKENIZER.convert_tokens_to_ids(TOKENIZER.tokenize(word))
            forbidden = set(TOKENIZER.all_special_ids)
            wanted = [TOKENIZER.unk_token_id if p in forbidden else p for p in wanted]
            assert _pieces_of_token(encoded, sentence, token) == (
                wanted or [TOKENIZER.unk_token_id]
            )
            assert encoded.first_piece[flat] == end  # tokens tile the sentence's pieces
            end = encoded.last_piece[flat] + 1
        assert end == encoded.lengths[sentence]


def test_truncation_and_padding_of_the_tokenizer_file_are_not_taken_over() -> None:
    pieces, offsets = encode_vocabulary(["abcdefghijkl", "a"], TOKENIZER)
    assert np.diff(offsets).tolist() == [12, 1]


def test_word_without_a_piece_gets_the_unknown_one() -> None:
    pieces, offsets = encode_vocabulary(["a", "", "\u200d", "b"], TOKENIZER)
    assert np.diff(offsets).tolist() == [1, 1, 1, 1]
    assert pieces[1] == pieces[2] == TOKENIZER.unk_token_id


def test_special_strings_in_text_are_text() -> None:
    special = ["[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    pieces, _ = encode_vocabulary(special, TOKENIZER)
    assert not set(pieces.tolist()) & {
        TOKENIZER.cls_token_id, TOKENIZER.sep_token_id, TOKENIZER.pad_token_id,
        TOKENIZER.mask_token_id,
    }  # fmt: skip


def test_word_longer_than_the_window_is_cut_and_counted() -> None:
    encoded = encode_sentences(tokenise(["x " + "a" * 90, "a" * 90]), TOKENIZER, max_pieces=20)
    assert encoded.num_cut == 2
    assert encoded.lengths.tolist() == [19, 18]
    assert encoded.last_piece.tolist() == [0, 18, 17]


def test_saved_sentences_load_equal_and_mapped(tmp_path: Path) -> None:
    encoded = encode_sentences(tokenise(["hr jensen", "", "bor i odense" * 50]), TOKENIZER)
    encoded.save(tmp_path / "pieces")
    loaded = EncodedSentences.load(tmp_path / "pieces")
    assert isinstance(loaded.piece, np.memmap)
    assert loaded.special == encoded.special
    for name in ("piece", "piece_offsets", "first_piece", "last_piece", "token_offsets"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(encoded, name))


@given(st.lists(st.integers(0, 3), max_size=6))
def test_taken_sentences_are_the_chosen_ones_in_order(chosen: list[int]) -> None:
    texts = ["hr jensen", "", "i odense , ja", "x"]
    whole = encode_sentences(tokenise(texts), TOKENIZER)
    taken = whole.take(np.array(chosen, dtype=np.int64))
    wanted = encode_sentences(tokenise([texts[k] for k in chosen]), TOKENIZER)
    np.testing.assert_array_equal(taken.piece, wanted.piece)
    np.testing.assert_array_equal(taken.last_piece, wanted.last_piece)
    np.testing.assert_array_equal(taken.token_offsets, wanted.token_offsets)


@pytest.mark.parametrize("text", ["Brøndby, d. 3.", "niño c/ Mayor ß", "a\u00a0b\ufeffc"])
def test_real_unigram_tokenizer_gives_every_word_a_piece(shared: Path, text: str) -> None:
    from deidsearch.train.encoder import load_tokenizer, resolve_encoder

    tokenizer = load_tokenizer(
        resolve_encoder(str(shared / "models" / "multilingual-e5-small-latin"))
    )
    tokens = tokenise([text, "<s> </s> ▁ \u2028"])
    encoded = encode_sentences(tokens, tokenizer)
    assert (encoded.last_piece >= encoded.first_piece).all()
    assert encoded.special.padding == 1 and encoded.special.first == 0
    assert not set(encoded.piece.tolist()) & {0, 1, 2, 79999}
