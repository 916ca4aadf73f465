"""CoNLL columns and brat's standoff files, written and read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deidsearch.errors import InputError
from deidsearch.formats.brat import read_brat, write_brat
from deidsearch.formats.conll import read_conll, write_conll
from deidsearch.formats.labelled import LabelledTokens, TokenSpan, iob_tags, spans_of_tags
from deidsearch.records import Document, Span


def test_conll_keeps_the_outer_span_and_counts_the_inner(tmp_path: Path) -> None:
    spans = (TokenSpan(0, 1, "LOC"), TokenSpan(0, 2, "ORG"), TokenSpan(2, 3, "ORG"))
    sentence = LabelledTokens("s 1", ("Odense", "Skole", "Bilka", "#"), spans)
    assert write_conll(tmp_path / "a.conll", [sentence, LabelledTokens("t", ("Ja",))]) == (2, 1)
    assert (tmp_path / "a.conll").read_text() == (
        "# id = s 1\nOdense\tB-ORG\nSkole\tI-ORG\nBilka\tB-ORG\n#\tO\n\n# id = t\nJa\tO\n\n"
    )
    first, second = read_conll(tmp_path / "a.conll")
    assert first == LabelledTokens("s 1", sentence.tokens, spans[1:])
    assert second == LabelledTokens("t", ("Ja",))


def test_conll_with_blanks_and_more_columns_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("\ufeff-DOCSTART- -X- O\n\nAnna NNP I-PER\nHolm NNP I-PER\r\nbor VB O\n")
    [sentence] = read_conll(path)
    assert sentence == LabelledTokens("0", ("Anna", "Holm", "bor"), (TokenSpan(0, 2, "PER"),))


def test_conll_faults_name_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Anna\tB-PER\nHolm\nbor\tVERB\n")
    with pytest.raises(InputError) as caught:
        list(read_conll(tmp_path / "a.conll"))
    assert str(caught.value).splitlines() == [
        "a.conll:2: expected a token and its tag.",
        "a.conll:3: the last column is no IOB tag. Use O, B-TYPE and I-TYPE.",
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.sampled_from("AB")), max_size=8))
def test_tags_undo_spans(steps: list[tuple[int, int, str]]) -> None:
    spans, position = [], 0
    for gap, width, label in steps:
        spans.append(TokenSpan(position + gap, position + gap + width, label))
        position += gap + width
    assert spans_of_tags(iob_tags(position, spans)) == tuple(spans)


def test_brat_cuts_spans_at_line_breaks_and_joins_them_again(tmp_path: Path) -> None:
    text = "\ufeffBor på Vestre\r\n  Stationsvej 3, 😀 Odense"
    spans = (Span(8, 29, "STREET"), Span(35, 41, "LOC ATION"))
    write_brat(tmp_path / "out", [Document("a/b", text, spans), Document("tom", "")])
    # Line ends are kept as they are, so offsets hold on every platform.
    assert (tmp_path / "out/a%2Fb.txt").read_bytes().decode() == text
    assert (tmp_path / "out/a%2Fb.ann").read_text() == (
        "T1\tSTREET 8 14;18 29\tVestre Stationsvej\nT2\tLOC_ATION 35 41\tOdense\n"
    )
    assert list(read_brat(tmp_path / "out")) == [
        Document("a/b", text, (spans[0], Span(35, 41, "LOC_ATION"))),
        Document("tom", ""),
    ]


def test_a_brat_folder_is_whole_or_absent(tmp_path: Path) -> None:
    def documents() -> Iterator[Document]:
        yield Document("a", "Anna")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_brat(tmp_path / "out", documents())
    with pytest.raises(InputError, match="two documents have the same id"):
        write_brat(tmp_path / "out", [Document("a", "Anna"), Document("a", "Bo")])
    assert list(tmp_path.iterdir()) == []
    write_brat(tmp_path / "out", [Document("a", "Anna")])
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "out").iterdir()} == {0o600}


def test_brat_annotations_that_do_not_fit_the_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Vestre\n   Stationsvej 3")
    (tmp_path / "a.ann").write_bytes(
        b"\xef\xbb\xbfT1\tSTREET 0 6;10 21\tVestre Stationsvej\r\n"
        b"#1\tAnnotatorNotes T1\tok\n"
        b"T2\tSTREET 0 6;7 18\tVestre Stationsvej\n"
        b"T3\tSTREET 0 99\tVestre\n"
        b"T4\tSTREET\n"
        b"T5\tSTREET 0 2;10 21\tVe Stationsvej\n"
    )
    with pytest.raises(InputError) as caught:
        list(read_brat(tmp_path))
    assert str(caught.value).splitlines() == [
        "a.ann:3: the stored text is not the text at its offsets. "
        "Check line endings and byte order marks.",
        "a.ann:4: the span ends at character 99, text has 23. Check line endings.",
        "a.ann:5: expected: T1, tab, label start end, tab, text.",
        "a.ann:6: the span is in parts with other text between.",
    ]
    assert "Vestre" not in str(caught.value)


@given(st.text(min_size=1, max_size=300))
def test_any_id_names_a_brat_file(tmp_path_factory: pytest.TempPathFactory, identity: str) -> None:
    folder = tmp_path_factory.mktemp("brat")
    write_brat(folder, [Document(identity, "x")])
    [document] = read_brat(folder)
    assert document.id == identity or len(identity.encode()) > 60
