"""A tiny encoder with random weights, and sentences with a planted pattern."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from deidsearch.dataset.pieces import EncodedSentences, encode_sentences
from deidsearch.records import SpanTable
from deidsearch.text.tokens import TokenTable, tokenise
from deidsearch.train.encoder import EncoderRef, resolve_encoder

TYPES = ("NAME", "PLACE")
LETTERS = "abcdefghijklmnopqrstuvwxyzæøåéñ0123456789"
WORDS = ["jensen", "anne", "odense", "fru", "hr", "bor", "og", "i", "patienten", "indlægges"]
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Returns a WordPiece tokenizer of some words, single letters and signs."""
    pieces = [*SPECIAL.values(), *WORDS, *LETTERS, *("##" + letter for letter in LETTERS), *",.-"]
    tokenizer = Tokenizer(
        models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    # As real files do: what must not be taken over by whoever cuts words into pieces.
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **SPECIAL)


def make_encoder(folder: Path, *, layers: int = 2, seed: int = 0) -> EncoderRef:
    """Returns a tiny random BERT saved in the folder."""
    tokenizer = make_tokenizer()
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return resolve_encoder(str(folder))


def make_sentences(num: int, seed: int = 0) -> tuple[list[str], list[list[tuple[int, int, int]]]]:
    """Returns sentences, and mentions as (start token, end token, label).

    Pattern: what follows "fru" or "hr" is a name of one or two words; what follows "i" a place.
    """
    chance = random.Random(seed)
    texts, mentions = [], []
    for _ in range(num):
        words: list[str] = []
        found = []
        for _ in range(chance.randint(1, 6)):
            kind = chance.random()
            if kind < 0.3:
                words.append(chance.choice(["fru", "hr"]))
                size = chance.randint(1, 2)
                found.append((len(words), len(words) + size, 0))
                words += ["jensen"] if size == 1 else ["anne", "jensen"]
            elif kind < 0.5:
                words.append("i")
                found.append((len(words), len(words) + 1, 1))
                words.append("odense")
            else:
                words.append(chance.choice(["patienten", "bor", "og", "indlægges", "x7", ","]))
        texts.append(" ".join(words))
        mentions.append(found)
    return texts, mentions


def span_table(mentions: list[list[tuple[int, int, int]]]) -> SpanTable:
    """Returns the table of mentions given per sentence."""
    rows = [(number, *mention) for number, found in enumerate(mentions) for mention in found]
    return SpanTable.build(*zip(*rows, strict=True)) if rows else SpanTable.empty()


def encode(texts: list[str], max_pieces: int = 64) -> tuple[TokenTable, EncodedSentences]:
    """Returns the tokens and pieces of the texts."""
    tokens = tokenise(texts)
    return tokens, encode_sentences(tokens, make_tokenizer(), max_pieces=max_pieces)


def f1(gold: SpanTable, pred: SpanTable) -> float:
    """Returns the strict micro-F1, 0-1."""
    wanted, found = set(gold.keys().tolist()), set(pred.keys().tolist())
    return 2 * len(wanted & found) / max(1, len(wanted) + len(found))
