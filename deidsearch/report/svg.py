"""Figures as SVG that follow the page's light or dark theme."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Drawn in the light colours; inlined in a page each becomes a variable of the style sheet. Model,
# dictionary, gold and the series are Okabe and Ito's colours, made for colour-blind readers.
INK = "#1c2733"
MUTED = "#5a6875"
GRID = "#dde3e9"
MODEL = "#0072b2"
DICTIONARY = "#d55e00"
GOLD = "#00805c"
BAR = "#9fb0bf"
SERIES = ("#c78501", "#009e72", "#b8578c", "#7a5cc7", "#8a6d01", "#4d4d4e")

_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--line",
    MODEL: "--model",
    DICTIONARY: "--dictionary",
    GOLD: "--gold",
    BAR: "--bar",
    **{colour: f"--series-{number}" for number, colour in enumerate(SERIES)},
}


def to_svg(figure: Figure, name: str) -> str:
    """Returns an ``<svg>`` element to stand in a page, its colours variables.

    Args:
        figure: drawn with the colours of this module.
        name: unique in the page: ids in the element begin with it.
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    # Text stays text: it can be read out, searched and copied, and takes the page's font. The
    # salt makes the ids, and so the page, the same for the same results.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"font: ([^;\"]*?)'[^;\"]*", r"font: \1inherit", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    size = re.search(r'<svg[^>]*? width="([\d.]+)pt"', text)
    text = re.sub(r'(<svg[^>]*?) (?:width|height)="[\d.]+pt"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) (?:width|height)="[\d.]+pt"', r"\1", text, count=1)
    width = f"{float(size[1]):.0f}pt" if size else "100%"
    return text.replace("<svg", f'<svg aria-hidden="true" style="max-width:{width}"', 1)
