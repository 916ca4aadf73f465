"""Gold sets: mentions on tokens, reasons for those out of reach, forms, filters and faults."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deidsearch.dataset.gold import REASONS, GoldSet, read_gold
from deidsearch.errors import InputError

TYPES = ("NAME", "LOC")


def marked(text: str) -> dict[str, Any]:
    """Returns text and spans of "[Anna](NAME) bor i [Odense](LOC)"; marks may nest."""
    plain, spans, opened = "", [], []
    for part in re.split(r"(\[|\]\(\w+\))", text):
        if part == "[":
            opened.append(len(plain))
        elif part.startswith("](") and opened:
            spans.append({"start": opened.pop(), "end": len(plain), "label": part[2:-1]})
        else:
            plain += part
    return {"text": plain, "spans": spans}


def write(tmp_path: Path, *records: dict[str, Any] | str, name: str = "dev.jsonl") -> Path:
    shown = []
    for number, record in enumerate(records):
        record = marked(record) if isinstance(record, str) else record
        shown.append(json.dumps({"id": f"d{number}"} | record, ensure_ascii=False))
    path = tmp_path / name
    path.write_text("\n".join(shown), encoding="utf-8")
    return path


def gold(tmp_path: Path, *records: dict[str, Any] | str, **options: Any) -> GoldSet:
    return read_gold("dev", write(tmp_path, *records), **{"types": TYPES} | options)


def rows(found: GoldSet) -> list[tuple[Any, ...]]:
    """Returns (sentence, characters, start token, end token, type, reason) of each mention."""
    return [
        (
            int(found.sentence[i]),
            found.text[found.sentence[i]][found.start_char_m[i] : found.end_char_m[i]],
            int(found.start_token[i]),
            int(found.end_token[i]),
            found.types[found.label[i]],
            REASONS[found.reason[i]],
        )
        for i in range(len(found.label))
    ]


def test_mentions_become_tokens_of_their_sentences(tmp_path: Path) -> None:
    found = gold(
        tmp_path,
        "Set i går. [Anne-Marie Holm](NAME) bor i [Odense](LOC).\n\nRask.",
        {"text": "", "spans": []},
        "\ufeff[Bo](NAME) 😀 fra [Århus](LOC)",
    )
    assert found.text == [
        "Set i går.", "Anne-Marie Holm bor i Odense.", "Rask.", "Bo 😀 fra Århus",
    ]  # fmt: skip
    assert found.document == ["d0", "d0", "d0", "d2"]
    assert found.start_char.tolist() == [0, 11, 42, 1]
    assert rows(found) == [
        (1, "Anne-Marie Holm", 0, 4, "NAME", "reachable"),
        (1, "Odense", 6, 7, "LOC", "reachable"),
        (3, "Bo", 0, 1, "NAME", "reachable"),
        (3, "Århus", 3, 4, "LOC", "reachable"),
    ]
    assert len(found.mentions) == len(found.flat()) == 4


def test_mentions_out_of_reach_stay_with_their_reason(tmp_path: Path) -> None:
    found = gold(
        tmp_path,
        "Bor på [Vestre. Stationsvej](LOC) nu.",
        "En [49](NAME)årig fra [[Odense](LOC) Kommune](LOC).",
    )
    assert [row[1:] for row in rows(found)] == [
        ("Vestre.", -1, -1, "LOC", "split"),
        ("49", -1, -1, "NAME", "alignment"),
        ("Odense", 3, 4, "LOC", "nested"),
        ("Odense Kommune", 3, 5, "LOC", "reachable"),
    ]
    # The end of a cut mention lies past its sentence.
    assert found.end_char_m[0] == len("Vestre. Stationsvej") + found.start_char_m[0]
    assert found.unreachable() == {"split": 1, "alignment": 1, "nested": 1}
    assert len(found.mentions) == 2 and len(found.flat()) == 1


def test_outer_leaves_inner_mentions_out_and_counts_them(tmp_path: Path) -> None:
    found = gold(tmp_path, "[[Odense](LOC) Kommune](LOC) og [[Bo](LOC)](NAME)", nested="outer")
    assert [row[1:] for row in rows(found)] == [
        ("Odense Kommune", 0, 2, "LOC", "reachable"),
        ("Bo", 3, 4, "NAME", "reachable"),
    ]
    assert found.ignored == {"inner spans": 2}


def test_labels_are_mapped_and_the_others_counted(tmp_path: Path) -> None:
    text = "[Bo](PER) og [Carl](DOC) fra [SID](ORG), [Fyn](ORG)"
    found = gold(tmp_path, text, labels={"PER": "NAME", "DOC": "NAME"})
    assert [row[1:] for row in rows(found)] == [
        ("Bo", 0, 1, "NAME", "reachable"),
        ("Carl", 2, 3, "NAME", "reachable"),
    ]
    assert found.ignored == {"ORG": 2}


def test_an_unmapped_label_without_labels_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        gold(tmp_path, "[Bo](NAME)", "[Bo](PER) [Carl](PER)")
    assert str(caught.value) == (
        "dev.jsonl:2: the label 'PER' is none of the types NAME, LOC. "
        "Say what it means, or leave it out, with labels: {label: TYPE}."
    )
    with pytest.raises(InputError, match=r"'PER' is mapped to 'NAMES'.*Did you mean 'NAME'\?"):
        gold(tmp_path, "[Bo](PER)", labels={"PER": "NAMES"})


def test_equal_spans_are_one_and_blanks_at_their_ends_are_none(tmp_path: Path) -> None:
    spans = [
        {"start": 0, "end": 2, "label": "NAME"},
        {"start": 0, "end": 3, "label": "NAME"},
        {"start": 2, "end": 4, "label": "NAME"},
    ]
    found = gold(tmp_path, {"text": "Bo  ja", "spans": spans})
    assert [row[1:] for row in rows(found)] == [("Bo", 0, 1, "NAME", "reachable")]
    assert found.ignored == {"blank spans": 1, "equal spans": 1}


def test_where_chooses_spans_and_a_key_that_none_has_is_a_fault(tmp_path: Path) -> None:
    record = {
        "text": "Bo Holm",
        "spans": [
            {"start": 0, "end": 7, "label": "NAME", "layer": 1},
            {"start": 0, "end": 2, "label": "NAME", "layer": 2},
        ],
    }
    found = gold(tmp_path, record, where={"layer": 1})
    assert [row[1] for row in rows(found)] == ["Bo Holm"]
    assert found.ignored == {"spans not where asked": 1}
    with pytest.raises(InputError, match=r"no span has the key 'layr' of 'where'. Did you mean"):
        gold(tmp_path, record, where={"layr": 1})


def test_parts_are_contiguous_blocks_that_make_the_whole(tmp_path: Path) -> None:
    records = [f"[Bo](NAME) {number}. Ja." for number in range(7)]
    whole = gold(tmp_path, *records)
    parts = [gold(tmp_path, *records, part=(k, 3)) for k in (1, 2, 3)]
    assert [document for part in parts for document in part.document] == whole.document
    assert [len(set(part.document)) for part in parts] == [2, 2, 3]
    assert len({part.digest for part in parts}) == 3
    with pytest.raises(InputError, match="7 documents cannot be parted into 8 blocks"):
        gold(tmp_path, *records, part=(1, 8))


def test_a_sentence_a_record_is_not_split(tmp_path: Path) -> None:
    found = gold(tmp_path, " [Bo](NAME). Ja.\nNej ", unit="sentence")
    assert found.text == ["Bo. Ja.\nNej"] and found.start_char.tolist() == [1]


def test_sentences_with_tokens_are_read_beside_documents(tmp_path: Path) -> None:
    found = gold(
        tmp_path,
        {"tokens": ["Anne-Marie", "bor", ".", "Ja"], "ner": [[0, 0, "NAME"], [1, 3, "LOC"]]},
        {"doc_key": "x", "sentences": [["Ja"], ["i", "Odense"]], "ner": [[], [[2, 2, "LOC"]]]},
        "[Bo](NAME)",
    )
    assert found.text == ["Anne-Marie bor . Ja", "Ja", "i Odense", "Bo"]
    assert found.document == ["d0", "x", "x", "d2"]
    assert found.start_char.tolist() == [0, 0, 3, 0]
    assert [row[:5] for row in rows(found)] == [
        (0, "Anne-Marie", 0, 3, "NAME"),
        (0, "bor . Ja", 3, 6, "LOC"),
        (2, "Odense", 1, 2, "LOC"),
        (3, "Bo", 0, 1, "NAME"),
    ]


def test_faults_of_all_records_come_together_and_quote_no_text(tmp_path: Path) -> None:
    bad = {"text": "Anna Holm", "spans": [{"start": 0, "end": 99, "label": "NAME"}]}
    with pytest.raises(InputError) as caught:
        gold(tmp_path, bad, {"id": "d0"} | marked("Bo"), {"text": "Carl"}, {"tokens": ["Dorte"]})
    shown = str(caught.value)
    assert [line.split(":")[1] for line in shown.splitlines()] == ["1", "3", "4"]
    assert not any(name in shown for name in ("Anna", "Bo", "Carl", "Dorte"))


def test_an_empty_file_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="dev.jsonl: the file holds no record"):
        gold(tmp_path)


def test_digests_name_content_and_types(tmp_path: Path) -> None:
    first = gold(tmp_path, "[Bo](NAME) bor.")
    assert first.digest == gold(tmp_path, "[Bo](NAME) bor.").digest
    assert first.digest != gold(tmp_path, "[Bo](LOC) bor.").digest
    assert first.digest != gold(tmp_path, "Bo bor.").digest
    assert first.digest != gold(tmp_path, "[Bo](NAME) bor.", types=("LOC", "NAME")).digest


def test_sentence_hashes_know_duplicates(tmp_path: Path) -> None:
    first = gold(tmp_path, "Bo bor  i Ørby. Ja.").sentence_hashes
    assert first >= gold(tmp_path, "BO BOR I ØRBY .").sentence_hashes
    plain = gold(tmp_path, "Jose bor.", fold_accents=True).sentence_hashes
    assert plain == gold(tmp_path, "José bor.", fold_accents=True).sentence_hashes
    assert plain != gold(tmp_path, "José bor.").sentence_hashes


_WORDS = st.sampled_from(["Bo", "anne-marie", "dr.", "ja.", "😀", "\n", "\r\n\r\n", " ", "Å", "é."])


@given(st.lists(_WORDS, min_size=1, max_size=30).map(" ".join), st.data())
def test_aligned_mentions_cover_just_their_characters(
    tmp_path_factory: pytest.TempPathFactory, text: str, data: st.DataObject
) -> None:
    spans = []
    for _ in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(text) - 1))
        end = data.draw(st.integers(start + 1, min(len(text), start + 12)))
        label = data.draw(st.sampled_from(TYPES))
        spans.append({"start": start, "end": end, "label": label})
    found = gold(tmp_path_factory.mktemp("gold"), {"text": text, "spans": spans})
    distinct = {
        (s["label"], s["start"] + len(p) - len(p.lstrip()), s["start"] + len(p.rstrip()))
        for s in spans
        if (p := text[s["start"] : s["end"]]).strip()
    }
    assert len(found.label) == len(distinct)
    tokens = found.tokens
    seen = set()
    for i in range(len(found.label)):
        sentence = found.sentence[i]
        first = found.start_char[sentence] + found.start_char_m[i]
        last = found.start_char[sentence] + found.end_char_m[i]
        seen.add((TYPES[found.label[i]], int(first), int(last)))
        reason = REASONS[found.reason[i]]
        length = len(found.text[sentence])
        assert (reason == "split") == (found.end_char_m[i] > length)
        base = tokens.offsets[sentence]
        bounds = range(base, tokens.offsets[sentence + 1])
        starts = {int(tokens.start_char[t]): t - base for t in bounds}
        ends = {int(tokens.end_char[t]): t - base + 1 for t in bounds}
        on_bounds = found.start_char_m[i] in starts and found.end_char_m[i] in ends
        assert (found.start_token[i] >= 0) == on_bounds
        if on_bounds:
            assert starts[int(found.start_char_m[i])] == found.start_token[i]
            assert ends[int(found.end_char_m[i])] == found.end_token[i]
        contained = any(a <= first and last <= b for _, a, b in distinct if (a, b) != (first, last))
        if reason == "nested":
            twins = sum((a, b) == (first, last) for _, a, b in distinct)
            assert contained or twins > 1
        elif reason == "reachable":
            assert not contained
    assert seen == distinct
    assert (np.diff(found.sentence) >= 0).all()


def test_real_notes_with_byte_order_marks_keep_their_offsets(shared: Path) -> None:
    path = shared / "data/corpora/meddocan/dev.names.jsonl"
    types = ("NAME", "STREET", "LOCATION")
    found = read_gold("dev", path, types=types)
    counts = np.bincount(found.label, minlength=3).tolist()
    assert counts == [1000, 424, 923]
    assert sum(found.unreachable().values()) <= 10
    surfaces = set()
    for line in path.read_text("utf-8").split("\n"):
        if line:
            record = json.loads(line)
            surfaces |= {record["text"][s["start"] : s["end"]].strip() for s in record["spans"]}
    for row in rows(found):
        assert row[5] == "split" or row[1] in surfaces


def test_nested_news_keeps_inner_mentions_in_gold(shared: Path) -> None:
    path = shared / "data/corpora/danish_ddt_danplus/train.jsonl"
    labels = {"PER": "NAME", "LOC": "LOC"}
    whole = read_gold("train", path, types=TYPES, labels=labels, unit="sentence")
    assert np.bincount(whole.label).sum() + whole.ignored.get("equal spans", 0) == 1249 + 959
    layer = read_gold("t", path, types=TYPES, labels=labels, unit="sentence", where={"layer": 1})
    assert layer.unreachable() == {"split": 0, "alignment": 0, "nested": 0}
    assert len(whole.flat()) < len(whole.mentions)
