"""The tables of the report, each from blocks of result.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deidsearch.evaluate.bootstrap import Difference
from deidsearch.evaluate.choice import SEED, Choice, Setting
from deidsearch.report.data import CEILING, SENTENCES, Result, block_of, ceiling_label
from deidsearch.report.html import (
    bounds,
    counted,
    number,
    paragraph,
    percent,
    points,
    table,
    text,
    with_bounds,
)

Block = Mapping[str, Any]
GROUP_NAMES = {
    "unambiguous": "in a dictionary, unambiguous",
    "ambiguous": "in a dictionary, ambiguous",
    "unlisted": "in no dictionary",
}
REASON_NAMES = {
    "split": "cut by the sentence splitter",
    "alignment": "boundaries inside a word",
    "nested": "inside another mention",
    "width": "longer than the model's span width",
    "truncated": "past what the encoder reads",
}
MAX_RANKS = 15


def metric_name(metric: str) -> str:
    """Returns "validation F1" for "validation/f1"."""
    return text(metric.replace("/", " ").replace("f1", "F1"))


def setting_value(path: str, value: Any) -> str:
    """Returns a setting's value for a table; no ceiling is "none", no size is "all"."""
    if path == CEILING:
        named = text(ceiling_label(value))
        # One type a line, or this column alone fills a narrow page.
        return named.replace(", ", "<br>") if isinstance(value, Mapping) else named
    if path == SENTENCES:
        return "all" if value is None else number(value)
    return text(value)


def per_type_table(model: Block, dictionary: Block | None, set_name: str) -> str:
    """Returns scores per type and pooled, of model and dictionary."""
    head = ["type", "precision", "recall", "F1"]
    head += ["dictionary F1"] if dictionary else []
    head += ["gold", "predicted", "right"]
    rows = []
    for name, own in [*model["per_type"].items(), ("all types", None)]:
        own = own or {**model, **model["counts"]}
        row = [text(name), percent(own["precision"]), percent(own["recall"]), percent(own["f1"])]
        if dictionary:
            theirs = dictionary["per_type"].get(name, dictionary)
            row.append(percent(theirs["f1"]))
        row += [number(own["support"]), number(own["positives"]), number(own["tp"])]
        rows.append(row)
    return table(f"Strict scores on {text(set_name)}", head, rows, marked=len(rows) - 1)


def scores_table(result: Result, set_names: Sequence[str]) -> str:
    """Returns precision, recall and F1 with intervals on every set, model beside dictionary."""
    rows = []
    for name in set_names:
        for system, who in enumerate(("model", "dictionary")):
            block = block_of(result, name, system)
            if block is None:
                continue
            interval = block.get("interval") or {}
            row = [f"{text(name)}, {who}"]
            row += [with_bounds(block[m], interval.get(m)) for m in ("precision", "recall", "f1")]
            row += [percent((block.get("leakage") or {}).get("mention_share"))]
            row += [number(block["counts"]["support"]), number(block["counts"].get("sentences"))]
            rows.append(row)
    head = ["set", "precision", "recall", "F1", "hidden", "mentions", "sentences"]
    caption = (
        "The exported model, small type: 95&nbsp;% interval. Hidden: gold mentions fully covered "
        "whatever the predicted type"
    )
    return table(caption, head, rows)


def versus_table(versus: Block) -> str:
    """Returns the 2x2 table of gold mentions with McNemar's test in words."""
    rows = [
        ["model right", number(versus["both_right"]), number(versus["model_only"])],
        ["model wrong", number(versus["dictionary_only"]), number(versus["both_wrong"])],
    ]
    grid = table(
        "Gold mentions by who found them exactly",
        ["", "dictionary right", "dictionary wrong"],
        rows,
    )
    p_value = versus["p_value"]
    said = "below 0.001" if p_value < 0.001 else f"{p_value:.3f}"
    verdict = "differ by more than chance" if p_value < 0.05 else "can't be told apart by this test"
    return grid + paragraph(
        f"McNemar's exact test on the {number(versus['model_only'] + versus['dictionary_only'])} "
        f"mentions that only one of them found: p {'' if p_value < 0.001 else '= '}{said}; the two "
        f"{verdict}.",
        kind="note",
    )


def groups_table(groups: Block) -> str:
    """Returns recall of model and dictionary by what the dictionaries know of a mention."""
    has_dictionary = any("dictionary" in row for row in groups.values())
    rows = []
    for name, row in groups.items():
        cells = [GROUP_NAMES.get(name, text(name)), number(row["support"])]
        cells.append(percent(row["model"]["recall"]))
        if has_dictionary:
            cells.append(percent((row.get("dictionary") or {}).get("recall")))
        rows.append(cells)
    head = ["gold mention", "mentions", "model recall"]
    head += ["dictionary recall"] if has_dictionary else []
    return table("Recall by what the dictionaries know of a mention", head, rows)


def shared_words_table(shared: Block) -> str:
    """Returns who got words right that occur both as identifier and as non-identifier."""
    if not shared.get("words"):
        return ""
    rows = []
    for kind, title in (("identifiers", "identifier"), ("non_identifiers", "non-identifier")):
        row = [f"as {title}", number(shared[kind]), percent(shared["model"][kind])]
        if "dictionary" in shared:
            row.append(percent(shared["dictionary"][kind]))
        rows.append(row)
    head = ["the word stands", "times", "model right"]
    head += ["dictionary right"] if "dictionary" in shared else []
    caption = (
        f"{counted(shared['words'], 'word')} of the set "
        f"{'occurs' if shared['words'] == 1 else 'occur'} both inside and outside gold mentions"
    )
    return table(caption, head, rows)


def confusion_table(block: Block, who: str) -> str:
    """Returns the token-level confusion matrix."""
    labels = [text(label) for label in block["labels"]]
    rows = [
        [label, *(number(count) for count in counts)]
        for label, counts in zip(labels, block["matrix"], strict=True)
    ]
    return table(f"Tokens, {who}: rows gold, columns predicted", ["gold", *labels], rows)


def unreachable_text(block: Block) -> str:
    """Returns how many gold mentions no prediction could equal, and why."""
    reasons = {name: count for name, count in (block.get("unreachable") or {}).items() if count}
    total = block["counts"]["support"]
    if not reasons:
        return paragraph(f"The model could have found each of the {number(total)} gold mentions.")
    rows = [[REASON_NAMES.get(name, text(name)), number(n)] for name, n in reasons.items()]
    lost = sum(reasons.values())
    return paragraph(
        f"{number(lost)} of {number(total)} gold mentions are out of the model's reach; they count "
        f"as misses all the same, so recall can't exceed {percent(1 - lost / total)}."
    ) + table("Out of reach", ["reason", "mentions"], rows)


def operating_table(test: Sequence[Block], set_name: str) -> str:
    """Returns what the thresholds found on validation give on another set."""
    rows = []
    for point in test:
        reached = point["threshold"] is not None
        title = f"{text(point['metric'])} of {percent(point['target'], 0)}"
        row = [title, f"{point['threshold']:.3f}" if reached else "not reached"]
        row += [percent(point[m]) if reached else "" for m in ("precision", "recall")]
        rows.append(row)
    caption = (
        f"Span score thresholds that reach a target on validation, and what they give on "
        f"{text(set_name)}"
    )
    return table(caption, ["aim on validation", "threshold", "precision", "recall"], rows)


def ranking_table(
    choice: Choice, axes: Sequence[str], differences: Mapping[str, Difference]
) -> str:
    """Returns the best settings with how far the best lies above each of them."""
    shown = [axis for axis in axes if axis != SEED] or [CEILING]
    rows = []
    for rank, setting in enumerate(choice.ranking[:MAX_RANKS], start=1):
        difference = differences.get(setting.key)
        row = [str(rank)]
        row += [setting_value(axis, setting.settings.get(axis)) for axis in shown]
        row.append(percent(setting.mean) + _spread(setting))
        row.append(_verdict(difference) if rank > 1 else "the best")
        rows.append(row)
    more = len(choice.ranking) - len(rows)
    caption = f"Settings by mean {metric_name(choice.metric)} over seeds"
    if more > 0:
        caption += f"; the first {len(rows)} of {len(choice.ranking)}"
    head = [
        "",
        *(_axis_name(axis) for axis in shown),
        "mean",
        "best lies above by, points",
    ]
    return table(caption, head, rows, words=1, marked=0)


def failures_table(results: Sequence[Result], axes: Sequence[str]) -> str:
    """Returns the failed cells with their reasons, or nothing."""
    failed = [result for result in results if result.get("state") == "failed"]
    if not failed:
        return ""
    rows = [
        [
            f"<code>{text(result.get('cell'))}</code>",
            *(setting_value(axis, result["settings"].get(axis)) for axis in axes),
            text(result.get("reason") or "not said"),
        ]
        for result in failed
    ]
    head = ["cell", *(_axis_name(axis) for axis in axes), "reason"]
    return table("Cells without a result", head, rows, words=len(head))


def cells_table(results: Sequence[Result], axes: Sequence[str], set_names: Sequence[str]) -> str:
    """Returns every cell with its F1 on each set."""
    rows = []
    for result in results:
        is_bound = bool(result.get("upper_bound"))
        row = [f"<code>{text(str(result.get('cell'))[:10])}</code>"]
        for axis in axes:
            # Ceiling and size mean nothing to a cell trained on human annotation.
            known = axis in result["settings"] and not (is_bound and axis == CEILING)
            row.append(setting_value(axis, result["settings"].get(axis)) if known else "")
        row.append(text(result.get("state")) + (", on gold" if is_bound else ""))
        row.append(number(result.get("training_sentences")))
        for name in set_names:
            for system in (0, 1):
                block = block_of(result, name, system)
                row.append(percent(block["f1"]) if block else "")
        rows.append(row)
    head = ["cell", *(_axis_name(axis) for axis in axes), "state", "training sentences"]
    for name in set_names:
        head += [f"{text(name)} F1", f"dictionary {text(name)} F1"]
    return table("All cells; the same with more columns is in cells.csv", head, rows)


def _spread(setting: Setting) -> str:
    """Returns a setting's lowest and highest seed in small type, and seeds without a score."""
    said = ""
    if len(setting.cells) > 1:
        said += f' <small class="bounds">{bounds((setting.low, setting.high))}</small>'
    if setting.num_missing:
        missing = f"{counted(setting.num_missing, 'seed')} missing"
        said += f' <small class="bounds">{missing}</small>'
    return said


def _verdict(difference: Difference | None) -> str:
    if difference is None or difference.value is None:
        return "not compared"
    pair = None if difference.low is None else (difference.low, difference.high or 0.0)
    said = "" if difference.is_clear else "<br>includes 0"
    return f'{points(difference.value)} <small class="bounds">{bounds(pair)}{said}</small>'


def _axis_name(path: str) -> str:
    names = {CEILING: "ceiling", "training.sentences": "available sentences", SEED: "seed"}
    return names.get(path, text(path))
