"""The figures: F1 against ceiling and against available sentences (L22, figs. 3 and 4)."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deidsearch.report.data import CEILING, Curve, Point, Score, ceiling_label, is_log, positions
from deidsearch.report.svg import BAR, DICTIONARY, GOLD, GRID, INK, MODEL, MUTED, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches; a phone gets its own drawing, since a wide one shrunk to it can't be read.
WIDE = (8.4, 5.4)
NARROW = (4.1, 4.8)
_MARKERS = "os^Dv<>P"
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (2, 2)), (0, (6, 2, 1, 2)))


def draw_by_ceiling(curve: Curve, narrow: bool = False) -> Figure:
    """Returns model and dictionary F1 against the ceiling, training sentences below."""
    figure, (top, low) = _figure(narrow, rows=(3.0, 1.0))
    places = positions(curve)
    _line(top, places, [p.dictionary for p in curve.points], DICTIONARY, "s", "dictionary")
    _line(top, places, [p.model for p in curve.points], MODEL, "o", "model")
    if curve.upper_bound is not None:
        top.axhline(
            100 * curve.upper_bound.mean,
            color=GOLD,
            linestyle=(0, (5, 3)),
            linewidth=1.6,
            label="trained on gold",
        )
    for place, point in zip(places, curve.points, strict=True):
        if point.is_best and point.model is not None:
            _ring(top, place, 100 * point.model.mean)
        elif point.model is None:
            top.axvline(place, color=GRID, linewidth=6, zorder=0)
    top.set_ylabel(f"F1 on {curve.set_name}, %", color=INK)
    _legend(figure, top, narrow)

    sizes = [p.training_sentences or 0 for p in curve.points]
    gaps = [b - a for a, b in zip(places, places[1:], strict=False)]
    span = max(places[-1] - places[0], 1.0)
    width = 0.62 * min(*gaps, span / 8) if gaps else 0.2
    low.bar(places, sizes, width=width, color=BAR)
    low.set_ylabel("training\nsentences", color=INK)
    low.set_ylim(0, 1.08 * max(max(sizes, default=0), 1))
    low.yaxis.set_major_formatter(lambda value, _: _short(value))
    scale = " (log scale)" if is_log(curve) else ""
    low.set_xlabel(f"ceiling on the sentence ratio{scale}", color=INK)
    _ceiling_ticks(low, curve.points, places, narrow)
    return figure


def draw_by_sentences(curves: Sequence[Curve], narrow: bool = False) -> Figure:
    """Returns model F1 against available sentences, one line per ceiling."""
    figure, (axes,) = _figure(narrow, rows=(1.0,))
    ticks: dict[float, str] = {}
    others = 0
    for curve in curves:
        points = [p for p in curve.points if p.value]
        if curve.holds_best:
            colour, marker, dash, wide = MODEL, "o", _DASHES[0], True
        else:
            colour = SERIES[others % len(SERIES)]
            marker = _MARKERS[1 + others % (len(_MARKERS) - 1)]
            dash = _DASHES[1 + others // len(SERIES) % (len(_DASHES) - 1)]
            dash = _DASHES[0] if others < len(SERIES) else dash
            wide = False
            others += 1
        places = [math.log2(p.value) for p in points]
        ticks |= {place: _short(p.value) for place, p in zip(places, points, strict=True)}
        label = ceiling_label(curve.fixed.get(CEILING))
        _line(axes, places, [p.model for p in points], colour, marker, label, dash, wide)
        for place, point in zip(places, points, strict=True):
            if point.is_best and point.model is not None:
                _ring(axes, place, 100 * point.model.mean)
    axes.set_ylabel(f"F1 on {curves[0].set_name}, %", color=INK)
    axes.set_xlabel("available sentences (log scale)", color=INK)
    kept = _apart(sorted(ticks), 0.09 if narrow else 0.05)
    axes.set_xticks(kept, [ticks[place] for place in kept])
    _legend(figure, axes, narrow, title="ceiling")
    return figure


def to_png(figure: Figure) -> bytes:
    """Returns the figure as PNG on white, 2 pixels a point."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=144, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def _figure(narrow: bool, rows: tuple[float, ...]) -> tuple[Figure, list[Axes]]:
    """Returns an empty figure, made without pyplot so that none stays in memory."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.family": "sans-serif", "font.size": 10}):
        figure = Figure(figsize=NARROW if narrow else WIDE, layout="constrained")
        grid = figure.subplots(
            len(rows), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": rows}
        )
    axes = list(grid[:, 0])
    for one in axes:
        one.grid(axis="y", color=GRID, linewidth=0.8)
        one.set_axisbelow(True)
        one.tick_params(colors=MUTED, length=0, labelsize=9)
        for side, spine in one.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(MUTED)
    return figure, axes


def _line(
    axes: Axes,
    places: Sequence[float],
    scores: Sequence[Score | None],
    colour: str,
    marker: str,
    label: str,
    dash: Any = "-",
    wide: bool = True,
) -> None:
    """Draws means as a line that breaks where there is no score, intervals and single seeds."""
    means = [math.nan if s is None else 100 * s.mean for s in scores]
    known = [(place, s) for place, s in zip(places, scores, strict=True) if s is not None]
    bars = [(place, *s.interval) for place, s in known if s.interval is not None]
    if bars:
        at, low, high = zip(*bars, strict=True)
        low_ends, high_ends = ([100 * bound for bound in side] for side in (low, high))
        axes.vlines(at, low_ends, high_ends, color=colour, linewidth=1.3, alpha=0.55)
    seeds = [(place, 100 * value) for place, s in known if len(s.seeds) > 1 for value in s.seeds]
    if seeds:
        at, values = zip(*seeds, strict=True)
        axes.plot(at, values, "_", color=colour, markersize=8, alpha=0.8)
    axes.plot(
        places,
        means,
        color=colour,
        marker=marker,
        markersize=5,
        linewidth=2.2 if wide else 1.5,
        linestyle=dash,
        label=label,
    )


def _ring(axes: Axes, place: float, value: float) -> None:
    axes.plot(
        [place],
        [value],
        "o",
        markersize=13,
        markerfacecolor="none",
        markeredgecolor=INK,
        markeredgewidth=1.5,
        label="best",
        zorder=5,
    )


def _legend(figure: Figure, axes: Axes, narrow: bool, title: str | None = None) -> None:
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda n: labels[n] == "best")
    legend = figure.legend(
        [handles[n] for n in order],
        [labels[n] for n in order],
        loc="outside upper left",
        ncols=(4 if title else 2) if narrow else 6,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        title=title,
        alignment="left",
        handletextpad=0.5,
        columnspacing=1.2,
    )
    legend.get_title().set_color(MUTED)
    legend.get_title().set_fontsize(9)
    for handle in legend.get_lines():
        handle.set_markersize(min(handle.get_markersize(), 8))


def _ceiling_ticks(
    axes: Axes, points: Sequence[Point], places: Sequence[float], narrow: bool
) -> None:
    kept = _apart(list(places), 0.085 if narrow else 0.045, keep_last=points[-1].value is None)
    chosen = {place: point for place, point in zip(places, points, strict=True)}
    labels = [
        _short(p.value) if isinstance(p.value, (int, float)) else p.label.replace(", ", "\n")
        for p in (chosen[place] for place in kept)
    ]
    axes.set_xticks(kept, labels)


def _apart(places: list[float], share: float, keep_last: bool = False) -> list[float]:
    """Returns the places to label: each at least this share of the axis from the one before."""
    if len(places) < 2:
        return places
    # A slack for rounding: log2 steps are even.
    least = share * (places[-1] - places[0]) - 1e-9
    kept: list[float] = []
    for place in places:
        if not kept or place - kept[-1] >= least:
            kept.append(place)
    if keep_last and kept[-1] != places[-1]:
        kept[-1] = places[-1]
    return kept


def _short(value: float) -> str:
    """Returns a number in few letters.

    >>> [_short(value) for value in (0.5, 512, 4096, 262144, 1_500_000)]
    ['0.5', '512', '4,096', '262k', '1.5M']
    """
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value / 1e3:.0f}k" if value >= 1e4 else f"{value:,g}"
