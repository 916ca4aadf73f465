"""The report's findings in sentences: what is best, by how much, and what can't be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deidsearch.evaluate.bootstrap import Difference
from deidsearch.evaluate.choice import Choice, Setting
from deidsearch.report.data import CEILING, SENTENCES, Curve, block_of, ceiling_label
from deidsearch.report.html import (
    bounds,
    counted,
    listed,
    number,
    paragraph,
    percent,
    points,
    text,
)

GROUPS = {
    "unambiguous": "that a dictionary lists and nothing else does",
    "ambiguous": "whose words are common words too",
    "unlisted": "that no dictionary lists",
}


def answer(choice: Choice, best: Setting, set_names: Sequence[str]) -> str:
    """Returns the best setting in a sentence, and its scores as tiles."""
    cell = best.best_cell
    what: list[str] = []
    if CEILING in best.settings:
        value = best.settings[CEILING]
        said = f"ceiling {ceiling_label(value)}" if value is not None else "no ceiling"
        what.append(f"<strong>{text(said)}</strong>")
    if SENTENCES in best.settings:
        size = best.settings[SENTENCES]
        what.append("all sentences" if size is None else f"{number(size)} available sentences")
    metric = choice.metric.split("/")[-1].replace("f1", "F1")
    seeds = len(best.cells)
    how = (
        f"it has the highest mean {metric} on validation over {counted(seeds, 'seed')}, "
        f"{percent(best.mean)}"
        if seeds > 1
        else f"it has the highest {metric} on validation, {percent(best.mean)} (one seed)"
    )
    trained = cell.get("training_sentences")
    size_said = f" It trained on {number(trained)} sentences." if trained else ""
    lead = paragraph(
        f"The best setting is {listed(what) or 'the only one'}: {how}.{size_said}", kind="answer"
    )
    shown = set_names[min(1, len(set_names) - 1)]
    block = block_of(cell, shown)
    if block is None:
        return lead
    baseline = block_of(cell, shown, 1)
    interval = block.get("interval") or {}
    tiles = [
        _tile(f"F1 on {shown}", block["f1"], interval.get("f1"), "model"),
        _tile("precision", block["precision"], interval.get("precision")),
        _tile("recall", block["recall"], interval.get("recall")),
    ]
    if baseline is not None:
        pair = (baseline.get("interval") or {}).get("f1")
        tiles.append(_tile("dictionary F1", baseline["f1"], pair, "dictionary"))
    told = [_against_dictionary(block, shown), _seeds_text(best, shown), _bound_text(choice, shown)]
    if shown == "validation":
        told.append("There is no test set: these scores are on the sentences that chose, so high.")
    return lead + f'<div class="tiles">{"".join(tiles)}</div>' + paragraph(*told)


def _tile(title: str, value: float | None, interval: Sequence[float] | None, kind: str = "") -> str:
    low_high = bounds(interval)
    under = f"<span>95&nbsp;%: {low_high}</span>" if low_high else ""
    return (
        f'<div class="tile {kind}"><span>{text(title)}</span><b>{percent(value)}</b>{under}</div>'
    )


def _against_dictionary(block: Mapping[str, Any], set_name: str) -> str:
    difference = (block.get("versus_dictionary") or {}).get("f1_difference")
    if not difference or difference["value"] is None:
        return ""
    value, pair = difference["value"], difference["interval"]
    if not difference["is_clear"]:
        return (
            f"On {text(set_name)} the model and the dictionary of the same ceiling can't be told "
            f"apart in F1: {points(value)} points, paired 95&nbsp;% interval {bounds(pair)}."
        )
    return (
        f"On {text(set_name)} the model lies {'above' if value > 0 else '<strong>below</strong>'} "
        f"the dictionary of the same ceiling by {points(abs(value)).lstrip('+')} points of F1 "
        f"(paired 95&nbsp;% interval {bounds(pair)})."
    )


def _seeds_text(best: Setting, set_name: str) -> str:
    blocks = [block_of(cell, set_name) for cell in best.cells]
    values = [block["f1"] for block in blocks if block and block["f1"] is not None]
    if not values:
        return ""
    if len(best.cells) < 2:
        return (
            "Each setting was trained once: another seed moves such scores too, often by as much "
            "as neighbouring ceilings differ."
        )
    return (
        f"The scores are those of the exported model, the best of its {len(best.cells)} seeds on "
        f"validation; over all its seeds F1 on {text(set_name)} is "
        f"{percent(sum(values) / len(values))} in the mean ({bounds((min(values), max(values)))})."
    )


def _bound_text(choice: Choice, set_name: str) -> str:
    if not choice.upper_bounds:
        return ""
    block = block_of(choice.upper_bounds[0].best_cell, set_name)
    if block is None or block["f1"] is None:
        return ""
    return f"The same kind of model trained on human annotation reaches {percent(block['f1'])}."


def failures_text(block: Mapping[str, Any], set_name: str) -> str:
    """Returns where the model misses most: by type, and by what the dictionaries know."""
    counts = block["counts"]
    missed = counts["support"] - counts["tp"]
    if not missed:
        return paragraph(f"It found every mention of {text(set_name)}.")
    per_type = {n: one for n, one in block["per_type"].items() if one["recall"] is not None}
    said = [f"It missed {number(missed)} of {counted(counts['support'], 'mention')}"]
    if len(per_type) > 1:
        name, one = min(per_type.items(), key=lambda item: item[1]["recall"])
        said.append(f"most often {text(name)} (recall {percent(one['recall'])})")
    groups = {
        n: one
        for n, one in (block.get("groups") or {}).items()
        if one["model"]["recall"] is not None
    }
    if len(groups) > 1:
        name, one = min(groups.items(), key=lambda item: item[1]["model"]["recall"])
        said.append(
            f"and of mentions {GROUPS.get(name, text(name))} it found "
            f"{percent(one['model']['recall'])}"
        )
    leaked = (block.get("leakage") or {}).get("mention_share")
    hidden = (
        f" Whatever the type and the exact ends, {percent(leaked)} of the mentions were hidden in "
        "full."
        if leaked is not None
        else ""
    )
    false = counts["positives"] - counts["tp"]
    return paragraph(
        f"{', '.join(said)}.{hidden} {number(false)} of its {number(counts['positives'])} "
        "predictions were wrong in type, in an end, or altogether."
    )


def next_steps(choice: Choice, best: Setting, block: Mapping[str, Any], set_name: str) -> str:
    """Returns what a reader can do about what the figures show, as a list; empty where nothing."""
    steps = []
    tried = {
        float(one.settings[CEILING])
        for one in choice.ranking
        if isinstance(one.settings.get(CEILING), (int, float))
    }
    own = best.settings.get(CEILING)
    if isinstance(own, (int, float)) and len(tried) > 1 and own in (min(tried), max(tried)):
        side = "lowest" if own == min(tried) else "highest"
        steps.append(
            f"The best ceiling is the {side} that was tried. Widen "
            "<code>annotation.ceiling</code> on that side before you trust it."
        )
    sizes = {one.settings.get(SENTENCES) for one in choice.ranking}
    if len(sizes) > 1 and best.settings.get(SENTENCES) == max(
        sizes, key=lambda size: float("inf") if size is None else float(size)
    ):
        steps.append("The largest number of sentences won: more text may still help.")
    if len(best.cells) < 2:
        steps.append(
            "Add <code>training.seed: [1, 2, 3]</code> to <code>search.space</code>; finished "
            "cells are kept."
        )
    difference = (block.get("versus_dictionary") or {}).get("f1_difference") or {}
    if difference.get("value") is not None and not (
        difference["value"] > 0 and difference["is_clear"]
    ):
        steps.append(
            f"The model is not clearly above its dictionary on {text(set_name)}: try more "
            "sentences, epochs or a larger encoder, or use the dictionary."
        )
    unreachable = sum((block.get("unreachable") or {}).values())
    if unreachable:
        steps.append(
            f"{counted(unreachable, 'gold mention')} of {text(set_name)} could not be found by any "
            "model of this kind; the table above says why."
        )
    if not steps:
        return ""
    return "<ul>" + "".join(f"<li>{step}</li>" for step in steps) + "</ul>"


def ceilings_text(choice: Choice, best: Setting, differences: Mapping[str, Difference]) -> str:
    """Returns which ceilings are as good as the best one, as far as validation can tell."""
    if CEILING not in best.settings:
        return ""
    rest = {p: v for p, v in best.settings.items() if p != CEILING}
    others = [
        setting
        for setting in choice.ranking[1:]
        if {p: v for p, v in setting.settings.items() if p != CEILING} == rest
    ]
    if not others:
        return paragraph("No other ceiling has a score under the same settings.")
    compared = [setting for setting in others if setting.key in differences]
    if not compared:
        return paragraph(
            "Whether the other ceilings are worse by more than chance isn't known: the counts per "
            "sentence of these cells are missing."
        )
    alike = [setting for setting in compared if not differences[setting.key].is_clear]
    # From low to high, ceilings per type after the numbers, no ceiling last.
    alike.sort(key=lambda s: _ceiling_order(s.settings[CEILING]))
    labels = [text(ceiling_label(s.settings[CEILING])) for s in alike]
    own = text(ceiling_label(best.settings[CEILING]))
    if not alike:
        others_said = "the other ceiling"
        if len(compared) > 1:
            others_said = f"each of the {len(compared)} other ceilings"
        said = (
            f"Ceiling {own} is better than {others_said} by more than chance (paired "
            f"95&nbsp;% interval{'s' if len(compared) > 1 else ''} over the sentences of "
            "validation)."
        )
    else:
        said = (
            f"Ceiling {own} can't be told apart from <strong>{listed(labels)}</strong>: "
            f"{'their intervals' if len(alike) > 1 else 'its interval'} (paired, 95&nbsp;%, over "
            f"the sentences of validation) include{'' if len(alike) > 1 else 's'} 0. "
        )
        worse = len(compared) - len(alike)
        if worse:
            said += f"It is clearly better than {counted(worse, 'other ceiling')}."
    missing = len(others) - len(compared)
    if missing:
        said += f" {counted(missing, 'ceiling')} could not be compared."
    return paragraph(said)


def _ceiling_order(value: Any) -> tuple[int, float]:
    if isinstance(value, (int, float)):
        return 0, float(value)
    return (2, 0.0) if value is None else (1, 0.0)


def ceiling_caption(curve: Curve) -> str:
    seeds = max((len(p.model.seeds) for p in curve.points if p.model), default=1)
    said = "F1 on validation" if seeds == 1 else f"Mean F1 on validation over {seeds} seeds"
    said += "; the bars are 95&nbsp;% bootstrap intervals over sentences"
    said += "." if seeds == 1 else ", the ticks single seeds."
    said += " Below: the sentences that were left to train on."
    if curve.upper_bound is not None:
        said += " Dashed: the same model trained on human annotation."
    absent = [text(p.label) for p in curve.points if p.model is None]
    if absent:
        said += f" Without a score (shaded): {listed(absent)}."
    if not curve.holds_best:
        size = curve.fixed.get(SENTENCES)
        where = "all sentences" if size is None else f"{number(size)} available sentences"
        said += f" Drawn at {where}, where most ceilings were tried; the best setting differs."
    return said
