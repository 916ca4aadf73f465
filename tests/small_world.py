"""A world small enough to sweep in a minute: names, streets, notes, gold and a random encoder.

The signal is in the context ("patient NAME", "bor på STREET", "i PLACE"), so that a model trained
on dictionary labels can find identifiers that no dictionary holds.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

_SYLLABLES = ["an", "be", "do", "fre", "gor", "hel", "iv", "jon", "ka", "li", "mo", "ra", "tu"]
_SPELT = [first + last for first in _SYLLABLES for last in _SYLLABLES if first != last]
NAMES = ["anna", "bent", *_SPELT[::3]]
AMBIGUOUS = ["hans", "per"]  # also words: "his" and "per"
UNLISTED = ["quirin", "zelda", *_SPELT[1::3]]
STREETS = ["algade", "lindevej", *(name + "gade" for name in _SPELT[2::6])]
PLACES = ["odense", "aarhus", *(name + "by" for name in _SPELT[5::6])]
FRAMES = [
    "patient {NAME} bor på {STREET} i {LOCATION} og kommer i dag",
    "talt med {NAME} om smerter i benet efter fald i hjemmet",
    "sygeplejerske {NAME} ringer fra {LOCATION} om ny tid i morgen",
    "der gives to tabletter per dag til natten efter aftale",
    "patienten har glemt hans medicin og kommer derfor igen i morgen",
    "ingen feber og ingen hoste siden i går men træt",
    "flyttet til {STREET} i {LOCATION} sammen med datter {NAME}",
    "blodtryk er fint og der er ingen smerter i brystet nu",
]
WORDS = sorted({word for frame in FRAMES for word in frame.split() if "{" not in word})


def _fill(frame: str, rng: random.Random, unseen: float) -> tuple[str, list[dict]]:
    text, spans = "", []
    for word in frame.split():
        text += " " if text else ""
        if word.startswith("{"):
            label = word.strip("{}")
            pool = {"NAME": NAMES + AMBIGUOUS, "STREET": STREETS, "LOCATION": PLACES}[label]
            value = rng.choice(pool)
            if label == "NAME" and rng.random() < unseen:
                value = rng.choice(UNLISTED)
            spans.append({"start": len(text), "end": len(text) + len(value), "label": label})
            word = value
        text += word
    return text, spans


def write_data(folder: Path, sentences: int = 300, seed: int = 1) -> None:
    """Writes dictionaries, corpus and gold into the folder."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)

    def table(name: str, rows: list[tuple[str, int]]) -> None:
        lines = "".join(f"{entry},{count}\n" for entry, count in rows)
        (folder / name).write_text(f"identifier,count\n{lines}", encoding="utf-8")

    table("names.csv", [(n.title(), 100 + 7 * i) for i, n in enumerate(NAMES + AMBIGUOUS)])
    table("streets.csv", [(n, 5 + i) for i, n in enumerate(STREETS)])
    table("places.csv", [(n, 1000 + i) for i, n in enumerate(PLACES)])
    (folder / "words.txt").write_text("\n".join([*WORDS, "hans", "per"]), encoding="utf-8")
    for name, count, unseen in (("notes", sentences, 0.05), ("dev", 80, 0.9), ("test", 80, 0.9),
                                ("train", 150, 0.2)):  # fmt: skip
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(count):
                # A running number keeps gold and corpus apart: equal sentences would be dropped.
                text, spans = _fill(rng.choice(FRAMES), rng, unseen)
                record = {"id": f"{name}-{number}", "text": f"{text} {name}{number} ."}
                if name != "notes":
                    record["spans"] = spans
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


def write_encoder(folder: Path, layers: int = 1, hidden: int = 32) -> None:
    """Writes a random BERT that knows the world's common words whole."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [
        f"{sign}{c}" for c in "abcdefghijklmnopqrstuvwxyzæøå0123456789.," for sign in ("", "##")
    ]
    # Identifiers are spelt letter by letter: a model that knew them whole would learn the list.
    pieces = dict.fromkeys([*special, *letters, *WORDS])
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=hidden, num_hidden_layers=layers,
        num_attention_heads=2, intermediate_size=2 * hidden, max_position_embeddings=64,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    fast.save_pretrained(str(folder))


GRID = """\
name: small-world
output: runs/small
dictionaries:
  NAME: [{path: data/names.csv}]
  STREET: [{path: data/streets.csv}]
  LOCATION: [{path: data/places.csv}]
non_identifiers:
  - {name: words, path: data/words.txt}
corpus: {path: data/notes.jsonl}
text: {min_words: 3}
gold:
  validation: {path: data/dev.jsonl}
  test: {path: data/test.jsonl}
  train: {path: data/train.jsonl}
model: {encoder: encoder, max_span_width: 3}
training: {epochs: 12, learning_rate: 2e-3, head_learning_rate: 5e-3, batch_size: 8}
evaluation: {resamples: 200}
search:
  space:
    annotation.ceiling: [1, 1000000]
    training.sentences: [300, 150]
ray: {cpus_per_trial: 1}
"""


def write_world(folder: Path, **data: int) -> Path:
    """Returns the grid of a world written into the folder."""
    write_data(folder / "data", **data)
    write_encoder(folder / "encoder")
    grid = folder / "grid.yaml"
    grid.write_text(GRID, encoding="utf-8")
    return grid
