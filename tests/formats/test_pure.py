"""PURE's forms: inclusive token numbers outside, half-open ones inside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deidsearch.errors import InputError
from deidsearch.formats.labelled import LabelledTokens, TokenSpan
from deidsearch.formats.pure import read_pure, write_pure
from deidsearch.records import Span


def write(tmp_path: Path, *records: object) -> Path:
    path = tmp_path / "dev.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_sentences_and_documents_give_the_same_spans(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"id": "s", "tokens": ["Hans", "Holm", "bor"], "ner": [[0, 1, "NAME"]]},
        {
            "doc_key": "d",
            "sentences": [["Ja"], ["Hans", "Holm", "bor"], []],
            "ner": [[], [[1, 2, "NAME"], [1, 1, "NAME"]], []],
            "relations": [[], [], []],
        },
        {"doc_key": "e", "sentences": [["Nej"]]},
    )
    holm = ("Hans", "Holm", "bor")
    assert list(read_pure(path)) == [
        LabelledTokens("s", holm, (TokenSpan(0, 2, "NAME"),)),
        LabelledTokens("d-0", ("Ja",), (), "d"),
        LabelledTokens("d-1", holm, (TokenSpan(0, 2, "NAME"), TokenSpan(0, 1, "NAME")), "d"),
        LabelledTokens("d-2", (), (), "d"),
        LabelledTokens("e-0", ("Nej",), (), "e"),
    ]


def test_faults_are_told_together(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"id": "a", "tokens": ["x"], "ner": [[0, 1, "NAME"]]},
        {"id": "b", "ner": []},
        {"id": "c", "tokens": ["x", 3], "ner": [["x"]]},
        {"doc_key": "d", "sentences": [["x"], ["y"]], "ner": [[]]},
        {"doc_key": "e", "sentences": [["x"], ["y"]], "ner": [[], [[0, 1, "NAME"]]]},
        {"id": "f", "tokens": ["x"], "ner": [[0, 0, "NAME"]]},
        {"id": "f", "tokens": ["x"]},
    )
    with pytest.raises(InputError) as caught:
        list(read_pure(path))
    assert str(caught.value).splitlines() == [
        "dev.jsonl:1: span 1 covers tokens 0 to 1, the sentence has 0 to 0. "
        "Both ends are inclusive and count from 0.",
        "dev.jsonl:2: the key 'tokens' is missing.",
        "dev.jsonl:3: 'tokens' must be a list of strings.",
        "dev.jsonl:4: 'ner' has 1 lists, 'sentences' has 2. Write one list a sentence.",
        "dev.jsonl:5: sentence 2, span 1 covers tokens 0 to 1, the sentence has 1 to 1. "
        "Both ends are inclusive and count from 0.",
        "dev.jsonl:7: the id is that of line 6 too. Give each record an id of its own.",
    ]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    made = [
        LabelledTokens("a", ("Å", "-", "😀"), (TokenSpan(0, 3, "NAME"), TokenSpan(1, 2, "X"))),
        LabelledTokens("b", ()),
    ]
    assert write_pure(tmp_path / "a.jsonl", made) == 2
    assert list(read_pure(tmp_path / "a.jsonl", need_spans=True)) == made


def test_tokens_become_text_with_characters() -> None:
    sentence = LabelledTokens("a", ("😀", "Hans", "Holm"), (TokenSpan(1, 3, "NAME"),))
    document = sentence.to_document()
    assert document.text == "😀 Hans Holm"
    assert document.spans == (Span(2, 11, "NAME"),)
