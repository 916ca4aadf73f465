"""JSON Lines of documents: offsets kept, faults listed by line, files whole and private."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deidsearch.errors import InputError
from deidsearch.formats.jsonl import SpanFilter, document_record, read_jsonl, write_jsonl
from deidsearch.records import Document, Span


def lines(tmp_path: Path, *records: object, name: str = "dev.jsonl") -> Path:
    path = tmp_path / name
    shown = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(shown) + "\n", encoding="utf-8")
    return path


def test_documents_come_in_order_with_spans_and_other_fields(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        {"id": "a", "text": "Anna bor her", "spans": [{"start": 0, "end": 4, "label": "PER"}]},
        "",
        {"id": 7, "text": "", "ward": {"no": 3}},
    )
    assert list(read_jsonl(path)) == [
        Document("a", "Anna bor her", (Span(0, 4, "PER"),)),
        Document("7", "", (), {"ward": {"no": 3}}),
    ]


def test_text_is_taken_as_it_is(tmp_path: Path) -> None:
    # Byte order marks, CRs, emoji and U+2028 count; a raw U+2028 does not end the line.
    text = "\ufeffÅse 😀\r\nbor\rher\u2028 ja"
    path = tmp_path / "a.jsonl"
    record = {"id": "a", "text": text, "spans": [{"start": 7, "end": 11, "label": "X"}]}
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(record, ensure_ascii=False).encode() + b"\r\n")
    [document] = read_jsonl(path)
    assert document.text == text
    assert document.text[document.spans[0].start : document.spans[0].end] == "\nbor"[0:4]


def test_where_keeps_spans_with_these_values_and_counts_the_others(tmp_path: Path) -> None:
    spans = [
        {"start": 0, "end": 9, "label": "ORG", "layer": 1},
        {"start": 0, "end": 4, "label": "PER", "layer": 2},
        {"start": 5, "end": 9, "label": "PER"},
    ]
    path = lines(tmp_path, {"id": "a", "text": "Anna Holm", "spans": spans})
    keep = SpanFilter({"layer": 1})
    assert [document.spans for document in read_jsonl(path, where=keep)] == [(Span(0, 9, "ORG"),)]
    assert (keep.num_spans, keep.num_dropped, keep.keys >= {"layer"}) == (3, 2, True)


def test_all_faults_are_told_with_their_lines_and_without_text(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        {"id": "a", "text": "Anna", "spans": [{"start": 0, "end": 9, "label": "PER"}]},
        {"id": "b", "text": "Anna", "spans": [{"start": 2, "end": 2, "label": "PER"}]},
        {"id": "c", "text": "Anna", "spans": [{"start": -1, "end": 2, "label": "PER"}, 5]},
        {"id": "d", "text": "Anna", "spans": [{"start": 1.5, "end": 2, "label": "PER"}]},
        {"id": "e", "text": "Anna", "spans": [{"start": 1, "end": 2}]},
        {"id": "f"},
        {"text": "Anna"},
        "{Anna",
        ["Anna"],
        {"id": "ok", "text": "Anna"},
        {"id": "ok", "text": "Anna"},
        {"id": None, "text": 3},
    )
    good = []
    with pytest.raises(InputError) as caught:
        for document in read_jsonl(path):
            good.append(document.id)
    assert good == ["ok"]
    assert str(caught.value).splitlines() == [
        "dev.jsonl:1: span 1 ends at character 9, text has 4. "
        "Check line endings and count code points, not bytes or UTF-16 units.",
        "dev.jsonl:2: span 1 ends at character 2, before or where it starts (2). "
        "Ends are exclusive.",
        "dev.jsonl:3: span 1 starts at character -1. Count from 0.",
        "dev.jsonl:3: span 2 must be an object, got a number.",
        "dev.jsonl:4: span 1 needs a whole number as 'start', got a number.",
        "dev.jsonl:5: span 1 lacks 'label'.",
        "dev.jsonl:6: the key 'text' is missing.",
        "dev.jsonl:7: the key 'id' is missing.",
        "dev.jsonl:8: the line is not JSON (character 2). Write one JSON object a line.",
        "dev.jsonl:9: expected a JSON object, got a list. Write one JSON object a line.",
        "dev.jsonl:11: the id is that of line 10 too. Give each record an id of its own.",
        "dev.jsonl:12: 'id' must be a string or a whole number, got null.",
        "dev.jsonl:12: 'text' must be a string, got a number.",
    ]
    assert caught.value.exit_code == 2


def test_only_the_first_faults_are_shown_but_all_are_counted(tmp_path: Path) -> None:
    path = lines(tmp_path, *["{"] * 50)
    with pytest.raises(InputError) as caught:
        list(read_jsonl(path))
    shown = str(caught.value).splitlines()
    assert len(shown) == 21 and shown[-1] == "... and 30 more faults like these."


def test_gold_without_spans_is_a_fault_when_they_are_needed(tmp_path: Path) -> None:
    path = lines(tmp_path, {"id": "a", "text": "Anna"})
    with pytest.raises(InputError, match=r"dev.jsonl:1: the key 'spans' is missing. Write"):
        list(read_jsonl(path, need_spans=True))


def test_bytes_of_another_encoding_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes('{"id": "a", "text": "Åse"}\n'.encode("latin-1"))
    with pytest.raises(InputError, match=r"a.jsonl:1: byte 22 of the line is not UTF-8. Save it"):
        list(read_jsonl(path))
    path.write_bytes('{"id": "a", "text": "Åse"}\n'.encode("utf-16"))
    with pytest.raises(InputError, match="It looks like UTF-16"):
        list(read_jsonl(path))


def test_a_missing_and_a_cut_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file 'a.jsonl'"):
        list(read_jsonl(tmp_path / "a.jsonl"))
    packed = gzip.compress(b'{"id": "a", "text": "x"}\n' * 9)
    (tmp_path / "b.jsonl.gz").write_bytes(packed[:-12])
    with pytest.raises(InputError, match="compressed data end early"):
        list(read_jsonl(tmp_path / "b.jsonl.gz"))


def test_half_a_character_becomes_a_replacement_and_offsets_hold(tmp_path: Path) -> None:
    path = lines(tmp_path, r'{"id": "a", "text": "\ud83d Anna \ud83d\ude00"}')
    [document] = read_jsonl(path)
    assert document.text == "\ufffd Anna 😀"


@given(
    documents=st.lists(
        st.tuples(st.text(min_size=1, max_size=30), st.data(), st.booleans()), max_size=5
    )
)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, documents: list[tuple[str, st.DataObject, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("round")
    made = []
    for number, (text, data, has_score) in enumerate(documents):
        start = data.draw(st.integers(0, len(text) - 1))
        end = data.draw(st.integers(start + 1, len(text)))
        span = Span(start, end, "NAME", 0.5 if has_score else None, "model" if has_score else None)
        made.append(Document(f"d{number}", text, (span,), {"ward": text}))
    for name in ("a.jsonl", "a.jsonl.gz"):
        assert write_jsonl(folder / name, made) == len(made)
        assert list(read_jsonl(folder / name)) == made
        assert (folder / name).stat().st_mode & 0o777 == 0o600


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [Document("a", "x")])
    before = path.read_bytes()

    def broken():
        yield Document("b", "y")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_jsonl(path, broken())
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]


def test_the_record_of_a_document_shows_only_what_there_is() -> None:
    record = document_record(Document("a", "Anna", (Span(0, 4, "NAME"),), {"x": 1}))
    span = {"start": 0, "end": 4, "label": "NAME"}
    assert record == {"id": "a", "text": "Anna", "x": 1, "spans": [span]}
