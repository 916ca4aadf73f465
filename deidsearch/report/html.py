"""Small pieces of HTML; whatever comes from a result is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

UNDEFINED = '<span class="undefined">undefined</span>'
MISSING = '<span class="undefined">–</span>'


def text(value: Any) -> str:
    """Returns a value as escaped text."""
    if isinstance(value, Mapping):
        return escape(", ".join(f"{key} {plain(item)}" for key, item in value.items()))
    return escape(plain(value))


def plain(value: Any) -> str:
    """Returns a setting's value as a reader writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        # Years, seeds and sizes alike: separators from five digits on.
        return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def percent(value: float | None, digits: int = 1) -> str:
    """Returns a share as "89.6 %", or that it is undefined (0/0)."""
    return UNDEFINED if value is None else f"{100 * value:.{digits}f}&nbsp;%"


def bounds(interval: Sequence[float] | None, digits: int = 1) -> str:
    """Returns "87.9 to 91.2", or nothing where there is no interval."""
    if not interval:
        return ""
    low, high = (f"{100 * bound:.{digits}f}".replace("-", "−") for bound in interval)
    return f"{low} to {high}"


def with_bounds(value: float | None, interval: Sequence[float] | None) -> str:
    """Returns a share with its interval below it in small type."""
    low_high = bounds(interval)
    return percent(value) + (f' <small class="bounds">{low_high}</small>' if low_high else "")


def points(value: float | None, digits: int = 1) -> str:
    """Returns a difference of shares in percentage points, signed."""
    if value is None:
        return UNDEFINED
    return f"{100 * value:+.{digits}f}".replace("-", "−")


def number(value: float | None) -> str:
    """Returns a count with separators, or a dash where it isn't known."""
    return MISSING if value is None else f"{value:,.0f}"


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    words: int = 1,
    marked: int | None = None,
) -> str:
    """Returns a table that scrolls sideways where the page is too narrow.

    Args:
        caption: HTML.
        head: HTML of the column heads.
        rows: HTML of the cells; the first of each row heads it.
        words: so many columns from the left hold words, the others numbers.
        marked: the row to stress.
    """
    heads = "".join(
        f'<th scope="col"{"" if n < words else " class=num"}>{cell}</th>'
        for n, cell in enumerate(head)
    )
    body = []
    for place, row in enumerate(rows):
        cells = "".join(
            f"<td{'' if n < words else ' class=num'}>{cell}</td>" for n, cell in enumerate(row) if n
        )
        mark = " class=marked" if place == marked else ""
        body.append(f'<tr{mark}><th scope="row">{row[0]}</th>{cells}</tr>')
    # The caption stands outside of what scrolls, so that a narrow page doesn't cut it.
    label = escape(strip(caption))
    return (
        f'<p class="caption">{caption}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f'<table aria-label="{label}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def strip(html: str) -> str:
    """Returns HTML of this module without its tags."""
    out, inside = [], False
    for character in html:
        if character == "<":
            inside = True
        elif character == ">":
            inside = False
        elif not inside:
            out.append(character)
    return "".join(out).replace("&nbsp;", " ")


def section(name: str, title: str, *parts: str) -> str:
    """Returns a section with its heading, or nothing where it has no content."""
    content = "".join(part for part in parts if part)
    if not content:
        return ""
    return f'<section id="{name}"><h2>{escape(title)}</h2>{content}</section>'


def paragraph(*sentences: str, kind: str | None = None) -> str:
    """Returns a paragraph of HTML sentences; empty ones are left out."""
    said = " ".join(sentence for sentence in sentences if sentence)
    return f"<p{f' class={kind}' if kind else ''}>{said}</p>" if said else ""


def listed(items: Sequence[str], last: str = "and") -> str:
    """Returns "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def counted(amount: int, one: str, many: str | None = None) -> str:
    """Returns "1 seed" or "3 seeds"."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"
