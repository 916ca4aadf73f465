"""Sentences: boundaries, abbreviations, wrapped and templated lines, offsets into the original."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deidsearch.text.sentences import BLANKS, split_sentences, trim
from deidsearch.text.tokens import tokenise


def cut(text: str, line_breaks: str = "auto") -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, line_breaks=line_breaks)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Hun har det godt.", "Kontrol om 3 uger."],
        ["Er der feber?", "Nej!", "Ingen hoste … men 38,2 i går."],
        ['Hun sagde: "Jeg har ondt."', "Derefter gik hun."],
        ["(Se notat af 3/4.)", "Udskrives."],
        ["¿Tiene fiebre?", "¡No!", "«Está bien.»", "Ingresa 28 días."],
        ["Set af dr. Holm og prof. Dr. med. Vogel i dag.", "Ny tid."],
        ["Får f.eks. Panodil, bl.a. Ipren og p.g.a. Smerter mere.", "Slut."],
        ["Vive en Avda. Libertad 3 o en c/ Mayor, tel. 600.", "Sano."],
        ["Født d. 3. maj, set den 12. 4. 2012 af H. C. Andersen.", "Rask."],
        ["Aufnahme am 3. Januar durch Fr. Weber.", "Entlassung am 5. März."],
        ["Seen by Mr. Smith, e.g. Tuesday.", "Dr. No left."],
        ["1. Patienten er vågen.", "2. Patienten sover."],
        ["Blodtryk 120.", "Puls 80."],
        ["Værdi 3.5 mg og www.rh.dk er fine.", "Ok."],
        ["cand.-jur. Vagn Greve kom.", "Han gik."],
        ["ok. og så videre"],
    ],
)
def test_sentences_on_one_line_are_told_apart(sentences: list[str]) -> None:
    assert cut(" ".join(sentences)) == sentences


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r", "\x85", "\u2028"])
def test_templated_lines_are_sentences_whatever_their_line_ends(line_end: str) -> None:
    lines = ["Nombre: Pedro.", "Apellidos: De Miguel", "NHC: 2569870.", "Sexo: H.", "- sano"]
    assert cut(line_end.join(lines)) == lines


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r", "  \n  ", "\u2028"])
def test_a_place_name_over_two_lines_stays_whole(line_end: str) -> None:
    text = f"hun bor på vestre{line_end}stationsvej i odense"
    assert cut(text) == [text]


def test_a_title_at_the_end_of_a_line_waits_for_its_name() -> None:
    assert cut("Set af Dr.\nHolm.\nVægt 80 kg.\nPuls 60.") == [
        "Set af Dr.\nHolm.",
        "Vægt 80 kg.",
        "Puls 60.",
    ]
    assert cut("Bor i c/\nMayor.\nHedder Anne-\nMarie") == [
        "Bor i c/\nMayor.",
        "Hedder Anne-\nMarie",
    ]


def test_full_lines_of_a_hard_wrapped_paragraph_do_not_end_sentences() -> None:
    text = (
        "Patienten er en 45-årig mand, som bor i lejlighed på Vestre\n"
        "Stationsvej sammen med sin kone og deres to børn, og som\n"
        "indlægges akut. Tidligere rask.\n"
        "Kontrol Hos Egen Læge"
    )
    assert [len(sentence.splitlines()) for sentence in cut(text)] == [3, 1, 1]
    assert "Vestre\nStationsvej" in cut(text)[0]


def test_a_blank_line_always_ends_a_sentence() -> None:
    for mode in ("auto", "always", "blank"):
        for gap in ("\n\n", "\r\n \r\n", "\u2029", "\r\r"):
            assert cut(f"set af dr.{gap}holm", mode) == ["set af dr.", "holm"]


def test_line_breaks_can_be_all_or_none() -> None:
    text = "vestre\nstationsvej\nOdense. By"
    assert cut(text, "always") == ["vestre", "stationsvej", "Odense.", "By"]
    assert cut(text, "blank") == ["vestre\nstationsvej\nOdense.", "By"]


@pytest.mark.parametrize("text", ["", " \n\t", "\ufeff", "\u200b\u00a0\n\n"])
def test_blank_text_has_no_sentence(text: str) -> None:
    assert split_sentences(text) == []


def test_a_byte_order_mark_counts_in_offsets_and_belongs_to_no_sentence() -> None:
    assert split_sentences("\ufeffHej.") == [(1, 5)]


def test_blanks_are_those_of_the_tokeniser() -> None:
    assert not tokenise(list(BLANKS)).num_tokens
    others = [chr(code) for code in range(0x3100) if chr(code) not in BLANKS]
    assert (tokenise(others).lengths == 1).all()


_PIECES = st.sampled_from(
    list("aAåÅ1 .,!?…\n\r\t\"'()«»-/\u2028\u2029\x85\ufeff\u200b\u00a0😀")
    + ["\r\n", "dr.", "f.eks.", "Vestre", "stationsvej", " \n", "3.", "c/", "word " * 15]
)


@given(st.lists(_PIECES, max_size=60).map("".join) | st.text(max_size=80))
def test_every_visible_character_lies_in_exactly_one_sentence(text: str) -> None:
    for mode in ("auto", "always", "blank"):
        ranges = split_sentences(text, line_breaks=mode)
        covered = [0] * len(text)
        last = 0
        for start, end in ranges:
            assert last <= start < end <= len(text)
            assert trim(text, start, end) == (start, end)
            covered[start:end] = [1] * (end - start)
            last = end
        assert all(covered[i] or text[i] in BLANKS for i in range(len(text)))


@given(st.lists(_PIECES, max_size=40).map("".join))
def test_a_splits_pieces_do_not_split_again_at_blank_lines(text: str) -> None:
    for piece in cut(text, "blank"):
        assert "\n\n" not in piece and "\u2029" not in piece


@pytest.mark.parametrize("unit", [".", "a.", ". ", "\n", " \n", "a\n", "A \r\n", '"', '.")', "1. "])
def test_hostile_repetition_is_read_in_linear_time(unit: str) -> None:
    # A quadratic reader would need hours here, so no clock is needed.
    ranges = split_sentences(unit * (300_000 // len(unit)))
    assert len(ranges) <= 300_000


def test_a_very_long_note_without_stops_is_one_sentence() -> None:
    text = "ord " * 50_000
    assert split_sentences(text) == [(0, len(text) - 1)]


def test_gold_mentions_of_clinical_notes_are_seldom_cut(shared: Path) -> None:
    with open(shared / "data/corpora/meddocan/dev.names.jsonl", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    whole = total = 0
    for document in documents:
        ranges = split_sentences(document["text"])
        for span in document["spans"]:
            total += 1
            whole += any(a <= span["start"] and span["end"] <= b for a, b in ranges)
    assert whole >= 0.995 * total


def test_blank_characters_are_named_by_unicode() -> None:
    assert all(unicodedata.category(c)[0] in "ZC" for c in BLANKS)
