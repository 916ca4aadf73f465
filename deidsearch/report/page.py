"""The report: one page that stands alone, and the figures and tables as files beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deidsearch.evaluate.bootstrap import Difference, against, load_counts
from deidsearch.evaluate.choice import Choice, Setting, choose
from deidsearch.files import private_dir, write_atomic
from deidsearch.report import sections
from deidsearch.report.data import (
    CellCounts,
    Curve,
    Result,
    block_of,
    by_ceiling,
    by_sentences,
    thinned,
    varied,
)
from deidsearch.report.figures import draw_by_ceiling, draw_by_sentences, to_png
from deidsearch.report.findings import (
    answer,
    ceiling_caption,
    ceilings_text,
    failures_text,
    next_steps,
)
from deidsearch.report.html import (
    counted,
    paragraph,
    section,
    text,
)
from deidsearch.report.style import STYLE
from deidsearch.report.svg import to_svg
from deidsearch.report.tables import cells_csv, curves_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# So many settings are held against the best with resamples in common.
_MAX_COMPARED = 200


def write_report(
    results: Sequence[Result],
    sweep: Mapping[str, Any],
    folder: Path | str,
    counts: CellCounts | None = None,
) -> Path:
    """Returns the path of report.html after it and its figures and tables were written.

    Args:
        results: of every cell of the plan; one that isn't done needs "cell", "settings", "state"
            and, if it failed, "reason".
        sweep: what is said of the whole: "name", "types", "metric" and, where known, "command",
            "notes" (sentences the reader should see first), "data" (name to value), "versions".
        folder: where the files go.
        counts: per cell its sentence counts on validation; None: read from
            ``trials/<cell>/counts-validation`` beside the folder.
    """
    folder = private_dir(folder)
    if counts is None:
        counts = read_counts(results, folder.parent / "trials", "validation")
    choice = choose(results, sweep.get("metric") or "validation/f1")
    # Settings whose counts are missing, or on another number of sentences, can't be compared.
    differences = distinguish(choice, counts)
    set_names = _set_names(results)
    figures: list[str] = []
    curve = by_ceiling(results, choice, "validation", counts)
    drawn = ""
    if curve is not None and curve.num_scored:
        tests = [by_ceiling(results, choice, name) for name in set_names if name != "validation"]
        shown = [curve, *(one for one in tests if one is not None and one.num_scored)]
        write_atomic(folder / "f1_by_ceiling.csv", curves_csv(shown))
        drawn = _figure(folder, "f1_by_ceiling", draw_by_ceiling, curve, ceiling_caption(curve))
        figures.append("f1_by_ceiling")
        for one in shown[1:]:
            name = f"f1_by_ceiling_{_file_name(one.set_name)}"
            caption = f"The same on {text(one.set_name)}, for the record: nothing was chosen by it."
            picture = _figure(folder, name, draw_by_ceiling, one, caption)
            drawn += f"<details><summary>F1 by ceiling on {text(one.set_name)}</summary>"
            drawn += f"{picture}</details>"
            figures.append(name)
    lines = [c for c in by_sentences(results, choice, "validation", counts) if c.num_scored]
    sizes = ""
    if lines:
        write_atomic(folder / "f1_by_sentences.csv", curves_csv(lines))
        drawn_lines = thinned(lines)
        caption = (
            "Mean F1 over seeds with its 95&nbsp;% interval, one line per ceiling. Available "
            "sentences are those the dictionary annotated, before training sentences were picked."
        )
        if len(drawn_lines) < len(lines):
            caption += (
                f" Drawn are {len(drawn_lines)} of {len(lines)} ceilings; all are in "
                "f1_by_sentences.csv."
            )
        sizes = _figure(folder, "f1_by_sentences", draw_by_sentences, drawn_lines, caption)
        figures.append("f1_by_sentences")
    write_atomic(folder / "cells.csv", cells_csv(results, set_names))
    page = _page(results, sweep, choice, differences, set_names, curve, drawn, sizes)
    return write_atomic(folder / "report.html", page)


def read_counts(results: Sequence[Result], trials: Path, set_name: str) -> CellCounts:
    """Returns the sentence counts of each finished cell that has them on disk."""
    found = {}
    for result in results:
        folder = trials / str(result.get("cell")) / f"counts-{set_name}"
        if result.get("state") == "done" and folder.is_dir():
            found[str(result["cell"])] = load_counts(folder)
    return found


def distinguish(choice: Choice, counts: CellCounts) -> dict[str, Difference]:
    """Returns how far the best setting lies above each other one, by the setting's key.

    Paired over the sentences of validation, with the metric that chose; seeds are averaged
    within each resample. Settings without counts are left out.
    """
    best = choice.best
    if best is None:
        return {}
    systems, size = {}, None
    for setting in choice.ranking[:_MAX_COMPARED]:
        seeds = [counts[str(c["cell"])][0] for c in setting.cells if str(c["cell"]) in counts]
        size = len(seeds[0]) if setting is best and seeds else size
        if len(seeds) == len(setting.cells) and all(len(one) == size for one in seeds):
            systems[setting.key] = seeds
    metric = choice.metric.rsplit("/", 1)[-1]
    if best.key not in systems or metric not in ("precision", "recall", "f1"):
        return {}
    return against(systems, best.key, metric)


def _page(
    results: Sequence[Result],
    sweep: Mapping[str, Any],
    choice: Choice,
    differences: Mapping[str, Difference],
    set_names: Sequence[str],
    curve: Curve | None,
    drawn: str,
    sizes: str,
) -> str:
    name = text(sweep.get("name") or "sweep")
    best = choice.best
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # Nothing is loaded from anywhere, whatever a result may hold.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{name}: deidsearch report</title><style>{STYLE}</style></head><body>"
    )
    opening = f"<header><h1>{name}</h1>{_states(results)}</header>"
    notes = [paragraph(text(note), kind="warn") for note in sweep.get("notes") or ()]
    axes = varied(results)
    if best is None:
        body = paragraph("No cell is finished with a defined score yet.", kind="answer")
        body += section("failed", "What failed", sections.failures_table(results, axes))
    else:
        body = answer(choice, best, set_names)
        body += section(
            "ceiling",
            "Which ceiling",
            ceilings_text(choice, best, differences),
            drawn,
        )
        body += _dictionary_section(best, set_names)
        body += _scores_section(best, set_names)
        body += _next_section(choice, best, set_names)
        body += section("sentences", "How many sentences it takes", sizes)
        body += section(
            "settings",
            "All settings",
            sections.ranking_table(choice, axes, differences),
            paragraph(
                "Differences are the best setting's score minus the other's, with a paired "
                "95&nbsp;% interval over sentences. Each interval stands for itself: with many "
                "settings a few look clear by chance.",
                kind="note",
            ),
            sections.failures_table(results, axes),
            "<details><summary>Every cell</summary>"
            + sections.cells_table(results, axes, set_names)
            + "</details>",
        )
        body += _method(sweep, best, choice)
    return f"{head}{opening}<main>{''.join(notes)}{body}</main></body></html>\n"


def _states(results: Sequence[Result]) -> str:
    counts: dict[str, int] = {}
    for result in results:
        state = str(result.get("state", "pending"))
        counts[state] = counts.get(state, 0) + 1
    said = ", ".join(f"{count} {text(state)}" for state, count in sorted(counts.items()))
    trainings = len({r.get("training") for r in results if r.get("training")})
    return paragraph(
        f"{counted(len(results), 'cell')} from {counted(trainings, 'training')}: {said}.",
        kind="state",
    )


def _dictionary_section(best: Setting, set_names: Sequence[str]) -> str:
    shown = set_names[min(1, len(set_names) - 1)]
    block = block_of(best.best_cell, shown) or {}
    parts = []
    if block.get("versus_dictionary"):
        parts.append(sections.versus_table(block["versus_dictionary"]))
    if block.get("groups"):
        parts.append(sections.groups_table(block["groups"]))
    if block.get("shared_words"):
        parts.append(sections.shared_words_table(block["shared_words"]))
    return section("dictionary", f"Model and dictionary on {shown}", *parts)


def _scores_section(best: Setting, set_names: Sequence[str]) -> str:
    cell = best.best_cell
    shown = set_names[min(1, len(set_names) - 1)]
    block = block_of(cell, shown)
    if block is None:
        return ""
    baseline = block_of(cell, shown, 1)
    parts = [
        sections.scores_table(cell, set_names),
        sections.per_type_table(block, baseline, shown),
        sections.unreachable_text(block),
    ]
    if block.get("operating"):
        parts.append(sections.operating_table(block["operating"], shown))
    matrices = ""
    for one, who in ((block, "model"), (baseline, "dictionary")):
        if one and one.get("confusion"):
            matrices += sections.confusion_table(one["confusion"], who)
    if matrices:
        parts.append(
            f"<details><summary>Token confusion on {text(shown)}</summary>{matrices}</details>"
        )
    return section("scores", "Scores in detail", *parts)


def _next_section(choice: Choice, best: Setting, set_names: Sequence[str]) -> str:
    shown = set_names[min(1, len(set_names) - 1)]
    block = block_of(best.best_cell, shown)
    if block is None:
        return ""
    return section(
        "next",
        "Where it fails, and what to do next",
        failures_text(block, shown),
        next_steps(choice, best, block, shown),
    )


def _method(sweep: Mapping[str, Any], best: Setting, choice: Choice) -> str:
    cell = best.best_cell
    settings = "".join(
        f"<dt>{text(path)}</dt><dd>{sections.setting_value(path, value)}</dd>"
        for path, value in sorted(best.settings.items())
    )
    told: dict[str, Any] = {**(sweep.get("data") or {})}
    told["cell"], told["training"] = cell.get("cell"), cell.get("training")
    told |= {f"version of {k}": v for k, v in (cell.get("versions") or {}).items()}
    told |= {f"digest of {k}": v for k, v in (cell.get("digests") or {}).items()}
    if sweep.get("command"):
        told["made by"] = sweep["command"]
    facts = "".join(
        f"<dt>{text(key)}</dt><dd>{text(value)}</dd>"
        for key, value in told.items()
        if value is not None
    )
    return section(
        "method",
        "How this was measured",
        paragraph(
            "A predicted mention counts as right only where start, end and type all equal a human "
            "mention's (strict micro-F1, pooled over types); the same rule holds for every cell. "
            "A score of 0/0 is shown as undefined."
        ),
        paragraph(
            f"The setting was chosen by {sections.metric_name(choice.metric)} alone, by its mean "
            "over seeds. The test sets chose nothing. Intervals come from resampling sentences "
            "with replacement, so they speak for sentences like these, and not for the spread "
            "between trainings, which the seeds show."
        ),
        f"<details><summary>Settings of the best model</summary><dl>{settings}</dl></details>",
        f"<details><summary>Versions and digests</summary><dl>{facts}</dl></details>",
    )


def _set_names(results: Sequence[Result]) -> list[str]:
    """Returns validation and the test sets by name, the main one first.

    Named sets stand under "tests", and the first of them under "test" as well.
    """
    names = ["validation"]
    for result in results:
        tests = list(result.get("tests") or {})
        is_own = result.get("test") and result["test"] not in (result.get("tests") or {}).values()
        names += ["test", *tests] if is_own else tests
    return list(dict.fromkeys(names))


def _figure(
    folder: Path, name: str, draw: Callable[..., Figure], content: Any, caption: str
) -> str:
    """Returns the figure for the page in two widths, after its PNG was written."""
    figure = draw(content)
    write_atomic(folder / f"{name}.png", to_png(figure))
    wide = to_svg(figure, f"{name}-wide").replace("<svg", '<svg class="wide"', 1)
    narrow = to_svg(draw(content, narrow=True), f"{name}-narrow")
    narrow = narrow.replace("<svg", '<svg class="narrow"', 1)
    return f"<figure>{wide}{narrow}<figcaption>{caption}</figcaption></figure>"


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)
