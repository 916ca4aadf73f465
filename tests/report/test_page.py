"""The report as a whole: what it says, that it stands alone, and what it leaves beside itself."""

from __future__ import annotations

import csv
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from deidsearch.evaluate.choice import choose
from deidsearch.report.page import distinguish, read_counts, write_report

Sweep = tuple[Path, list[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="session")
def sweep(fake_sweep, tmp_path_factory) -> Sweep:
    output = tmp_path_factory.mktemp("sweep")
    results, about = fake_sweep(
        output, [1, 512, None], [None, 8000], [1, 2], failed=1, tests=("test", "news")
    )
    return output, results, about


@pytest.fixture(scope="session")
def page(sweep: Sweep) -> str:
    output, results, about = sweep
    return write_report(results, about, output / "report").read_text()


def words(page: str) -> str:
    """Returns what a reader sees, figures and style left out."""
    shown = re.sub(r"<(style|svg)\b.*?</\1>", " ", page, flags=re.S)
    shown = re.sub(r"</?(?:strong|b|small)\b[^>]*>", "", shown)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", shown)).replace("&nbsp;", " ")


def test_report_leaves_page_figures_and_tables_private(sweep: Sweep, page: str) -> None:
    folder = sweep[0] / "report"
    assert sorted(file.name for file in folder.iterdir()) == [
        "cells.csv",
        "f1_by_ceiling.csv",
        "f1_by_ceiling.png",
        "f1_by_ceiling_news.png",
        "f1_by_ceiling_test.png",
        "f1_by_sentences.csv",
        "f1_by_sentences.png",
        "report.html",
    ]
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        if file.suffix == ".png":
            assert file.read_bytes().startswith(b"\x89PNG")


def test_page_stands_alone(page: str) -> None:
    addresses = set(re.findall(r"https?://[^\"' <)]+", page))
    # Names of XML vocabularies, never fetched.
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"<script|<link|<img|<iframe|@import|url\((?!#)", page)
    assert "default-src 'none'" in page


def test_ids_are_unique_and_references_lead_somewhere(page: str) -> None:
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:href="#|url\(#)([^")]+)', page)
    assert used and set(used) <= set(ids)


def test_figures_follow_the_theme(page: str) -> None:
    figures = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.S))
    assert "var(--model)" in figures and "var(--dictionary)" in figures
    assert set(re.findall(r"#[0-9a-f]{6}\b", figures)) <= {"#000000", "#ffffff"}
    for variable in set(re.findall(r"var\((--[a-z0-9-]+)\)", page)):
        # Once light and once dark.
        assert page.count(f"{variable}:") == 2, variable


def test_best_setting_comes_first_with_its_test_scores(sweep: Sweep, page: str) -> None:
    best = choose(sweep[1]).best
    assert best is not None
    text = words(page)
    answer = text.index(f"The best setting is ceiling {best.settings['annotation.ceiling']}")
    assert answer < text.index("Which ceiling")
    assert f"{100 * best.best_cell['test']['f1']:.1f} %" in text[answer:]
    assert "highest mean F1 on validation over 2 seeds" in text


def test_ceilings_that_can_not_be_told_apart_are_named(sweep: Sweep, page: str) -> None:
    output, results, _ = sweep
    choice = choose(results)
    found = distinguish(choice, read_counts(results, output / "trials", "validation"))
    assert len(found) == len(choice.ranking) - 1
    best = choice.best
    assert best is not None
    for setting in choice.ranking[1:]:
        if setting.settings["training.sentences"] != best.settings["training.sentences"]:
            continue
        if not found[setting.key].is_clear:
            assert "can't be told apart from" in words(page)
    assert "over the sentences of validation" in words(page)


def test_without_sentence_counts_the_page_says_that_it_can_not_tell(fake_sweep, tmp_path) -> None:
    made = tmp_path / "made"
    results, about = fake_sweep(made, [1, 512], [None], [1], num_sentences=60, tests=())
    text = words(write_report(results, about, tmp_path / "report").read_text())
    assert "isn't known: the counts per sentence of these cells are missing" in text
    assert "not compared" in text


def test_failed_cells_are_shown_with_their_reason(page: str) -> None:
    assert "1 failed" in words(page)
    assert "did not learn: F1 stayed 0 for 10 epochs" in words(page)


def test_strictness_and_the_rule_of_choice_are_stated(page: str) -> None:
    text = words(page)
    assert "only where start, end and type all equal a human mention's (strict micro-F1" in text
    assert "The test sets chose nothing" in text


def test_gold_trained_model_is_a_bound_and_no_contender(sweep: Sweep, page: str) -> None:
    assert "trained on human annotation reaches" in words(page)
    with (sweep[0] / "report" / "f1_by_ceiling.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["system"] for row in rows} == {"model", "dictionary", "trained on gold"}
    assert sum(row["best"] == "true" for row in rows if row["set"] == "validation") == 2


def test_page_is_the_same_for_the_same_results(sweep: Sweep, page: str) -> None:
    output, results, about = sweep
    assert write_report(results, about, output / "report").read_text() == page


def test_cells_csv_has_every_cell_and_leaves_undefined_fields_empty(sweep: Sweep, page) -> None:
    output, results, _ = sweep
    with (output / "report" / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(results)
    assert rows[0]["state"] == "failed" and rows[0]["test/f1"] == ""
    assert float(rows[1]["test/f1"]) == results[1]["test"]["f1"]
    assert float(rows[1]["dictionary/news/f1"]) == results[1]["dictionary"]["news"]["f1"]


def test_undefined_scores_are_shown_as_such(fake_sweep, tmp_path) -> None:
    # A type without any gold mention or prediction; no spread of seeds, no gold-trained cell.
    results, about = fake_sweep(tmp_path, [512], [None], [1], num_sentences=60, upper_bound=False)
    for block in (results[0]["test"], results[0]["dictionary"]["test"]):
        for field in ("precision", "recall", "f1"):
            block["per_type"]["STREET"][field] = None
    text = words(write_report(results, about, tmp_path / "report").read_text())
    row = text[text.index("STREET") :]
    assert row.split()[1:5] == ["undefined"] * 4
    assert "(one seed)" in text
    assert "No other ceiling has a score under the same settings." in text


def test_nothing_finished_still_gives_a_page(tmp_path) -> None:
    results = [
        {"cell": "a", "settings": {"annotation.ceiling": 1}, "state": "failed", "reason": "no GPU"},
        {"cell": "b", "settings": {"annotation.ceiling": 2}, "state": "pending"},
    ]
    text = words(write_report(results, {"name": "x"}, tmp_path / "report").read_text())
    assert "No cell is finished with a defined score yet." in text
    assert "no GPU" in text
    assert not (tmp_path / "report" / "f1_by_ceiling.png").exists()


def test_whatever_a_result_holds_is_escaped(fake_sweep, tmp_path) -> None:
    results, about = fake_sweep(tmp_path, [1, 2], [None], [1], num_sentences=60, failed=1)
    hostile = '<script>alert("1")</script>'
    results[0]["reason"] = results[1]["versions"]["torch"] = hostile
    results[1]["settings"]["model.encoder"] = hostile
    about |= {"name": hostile, "notes": [hostile], "data": {hostile: hostile}}
    page = write_report(results, about, tmp_path / "report").read_text()
    assert "<script" not in page and "&lt;script&gt;" in page


def test_sweep_notes_come_before_the_answer(fake_sweep, tmp_path) -> None:
    results, about = fake_sweep(tmp_path, [1], [None], [1], num_sentences=60)
    about["notes"] = ["12 rows of the corpus were unreadable."]
    text = words(write_report(results, about, tmp_path / "report").read_text())
    assert text.index("12 rows") < text.index("The best setting")


def test_model_below_the_dictionary_is_said_plainly(fake_sweep, tmp_path) -> None:
    results, about = fake_sweep(tmp_path, [1], [None], [1], num_sentences=60)
    results[0]["test"]["versus_dictionary"]["f1_difference"] = {
        "value": -0.05, "interval": [-0.08, -0.02], "is_clear": True,
    }  # fmt: skip
    text = words(write_report(results, about, tmp_path / "report").read_text())
    assert "the model lies below the dictionary of the same ceiling by 5.0 points" in text
    assert "(paired 95 % interval −8.0 to −2.0)" in text


def test_named_test_sets_are_shown_once_under_their_own_names(fake_sweep, tmp_path) -> None:
    results, about = fake_sweep(tmp_path, [1], [None], [1], num_sentences=60, tests=("news", "web"))
    results[0]["test"] = results[0]["tests"]["news"]
    text = words(write_report(results, about, tmp_path / "report").read_text())
    assert "F1 on news" in text and "web, dictionary" in text
    assert "test, model" not in text
