"""Where the sentences of a clinical text lie, by rules that need no model.

Notes are written in haste: templated lines without full stops, hard-wrapped paragraphs, lists,
abbreviations. The rules read the text once, from the left; their cost grows with its length alone.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from deidsearch.text.abbreviations import ABBREVIATIONS, MONTHS, PREFIXES

LineBreaks = Literal["auto", "always", "blank"]

# What the tokeniser calls blank: white space, control characters, byte order mark, U+200B.
_BLANK_CLASS = r"\s\x00-\x1f\x7f-\x9f\ufeff\u200b"
BLANKS = "".join(
    chr(code)
    for code in range(0x10000)
    if unicodedata.category(chr(code)) in ("Zs", "Zl", "Zp", "Cc") or code in (0xFEFF, 0x200B)
)
_IS_BLANK = frozenset(BLANKS)
_BREAK_CLASS = r"\n\r\x0b\x0c\x85\u2028\u2029"
_STOPS = ".!?…"
_OPENERS = "\"'“”„‟‘‚«»‹›([{¿¡"
_SURE_OPENERS = "„‚«¿¡"
_CLOSERS = r"\"'“”’»«›‹)\]}"

# A line break with the blanks after it, or terminal punctuation with closing marks and blanks.
# It begins with one set of characters, which the engine looks for at full speed, and it never
# fails once it has begun (nothing is read twice), so the cost is linear.
_CANDIDATE = re.compile(
    rf"[{_STOPS}{_BREAK_CLASS}]"
    rf"(?:(?<=[{_BREAK_CLASS}])[{_BLANK_CLASS}]*+"
    rf"|(?P<stops>[{_STOPS}]*+)(?P<closers>[{_CLOSERS}]*+)(?P<gap>[{_BLANK_CLASS}]*+))"
)
_BREAK = re.compile(rf"\r\n|[{_BREAK_CLASS}]")
# The word that a full stop ends; longer words are no abbreviations.
_LONGEST_WORD = 24
# Paragraphs are wrapped at widths like these, in characters.
_NARROWEST_WRAP, _WIDEST_WRAP = 40, 140


def split_sentences(text: str, *, line_breaks: LineBreaks = "auto") -> list[tuple[int, int]]:
    """Returns the sentences as half-open ranges of code points, blanks at their ends left out.

    Every non-blank character lies in exactly one range; ranges stand in the text's order.

    Args:
        text: a note.
        line_breaks: "always": every line break ends a sentence; "blank": only blank lines do;
            "auto": a blank line does, and a single break does unless it only wraps a sentence (the
            next line begins in lower case, or the text is hard-wrapped and the line is full).

    >>> split_sentences("Set af dr. Holm. Bor på Vestre\\nstationsvej 3.")
    [(0, 16), (17, 47)]
    """
    is_auto = line_breaks == "auto"
    wrapped = _wrapped_breaks(text) if is_auto else frozenset()
    sentences: list[tuple[int, int]] = []
    length = len(text)
    begin, _ = trim(text)
    for found in _CANDIDATE.finditer(text, begin):
        after = found.end()
        if after == length:
            break
        start = found.start()
        gap_start = found.start("gap")
        if gap_start < 0:  # a line break without terminal punctuation
            end = start
            breaks = _count_breaks(text[start:after])
            ends = breaks > 1 or line_breaks == "always"
            if not ends and is_auto:
                ends = end not in wrapped and _line_ends_sentence(text, begin, end, after)
        elif gap_start == after:  # "3.5": no blank follows
            continue
        else:
            end = gap_start
            breaks = 0 if after - end == 1 and text[end] == " " else _count_breaks(text[end:after])
            ends = breaks > 1 or (breaks == 1 and line_breaks == "always")
            if not ends:
                at_line_end = breaks == 1 and is_auto and end not in wrapped
                # Only a lone full stop may belong to an abbreviation.
                is_full_stop = text[start] == "." and found.start("closers") == start + 1
                ends = _opens_sentence(text, after, at_line_end) and not (
                    is_full_stop and _keeps_full_stop(text, begin, start, after, at_line_end)
                )
        if ends:
            _append(sentences, text, begin, end)
            begin = after
    _append(sentences, text, begin, length)
    return sentences


def trim(text: str, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """Returns the range without the blanks at its ends; empty (end == start) if all is blank."""
    piece = text[start:end]
    left = piece.lstrip(BLANKS)
    start += len(piece) - len(left)
    return start, start + len(left.rstrip(BLANKS))


def _append(sentences: list[tuple[int, int]], text: str, begin: int, end: int) -> None:
    # Most sentences end in punctuation, so the slice of trim() is seldom needed.
    if begin < end and (text[end - 1] in _IS_BLANK or text[begin] in _IS_BLANK):
        begin, end = trim(text, begin, end)
    if begin < end:
        sentences.append((begin, end))


def _count_breaks(gap: str) -> int:
    if "\u2029" in gap:  # a paragraph separator is as good as a blank line
        return 2
    return len(_BREAK.findall(gap))


def _line_ends_sentence(text: str, begin: int, end: int, after: int) -> bool:
    """Returns whether a line without a final full stop ends its sentence at a single break."""
    if text[after].islower():
        return False
    line = text[max(begin, end - _LONGEST_WORD) : end].rstrip(BLANKS)
    # "c/" and "(" wait for what follows, and so does a word cut at its hyphen.
    if line.endswith(("/", "&", "(", "[")):
        return False
    return not (line.endswith(("-", "–")) and line[-2:-1].isalpha())


def _keeps_full_stop(text: str, begin: int, end: int, after: int, at_line_end: bool) -> bool:
    """Returns whether a full stop belongs to its word, so that the sentence goes on.

    Args:
        text: the note.
        begin: where the sentence begins.
        end: where the full stop stands.
        after: the next character that isn't blank.
        at_line_end: a line break follows that doesn't wrap a paragraph.
    """
    word = _word_before(text, begin, end)
    if not word:
        return False
    if word.isdecimal():
        return not _number_ends_sentence(text, begin, end, word, after)
    folded = word.casefold()
    # At a line's end only what calls for a name goes on ("Dr.\nHolm"), not "Vægt 80 kg.\nPuls".
    if at_line_end:
        return folded in PREFIXES
    if folded == "med":  # a title after "Dr.", else a Danish word
        return text[max(begin, end - 7) : end].casefold() == "dr. med"
    return (len(word) == 1 and word.isalpha()) or _is_abbreviation(folded)


def _opens_sentence(text: str, after: int, at_line_end: bool) -> bool:
    """Returns whether what stands at ``after`` can begin a sentence."""
    character = text[after]
    if character in _SURE_OPENERS:
        return True
    # A bracket or a straight quotation mark says nothing yet: the character after it decides.
    if character in _OPENERS and after + 1 < len(text):
        character = text[after + 1]
    if character.isalpha():
        # Scripts without case (isalpha but neither upper nor lower) begin sentences too.
        return not character.islower()
    # A new line may also begin with a bullet or any other mark.
    return character.isdigit() or at_line_end


def _word_before(text: str, begin: int, end: int) -> str:
    """Returns the word that a full stop at ``end`` belongs to, without opening marks."""
    piece = text[max(begin, end - _LONGEST_WORD) : end]
    words = piece.rsplit(None, 1)
    return words[-1].lstrip(_OPENERS + "-–—,;:") if words else ""


def _number_ends_sentence(text: str, begin: int, end: int, number: str, after: int) -> bool:
    """Returns whether "3." ends a sentence: not as an ordinal, a date's part or a list number."""
    # "2. Patienten": the number of a list, which stands first.
    if end - len(number) <= begin:
        return False
    if len(number) > 2:
        return True
    if text[after].isdigit():
        return False
    following = text[after : after + 12].split(None, 1)
    return not following or following[0].rstrip(".,;:").casefold() not in MONTHS


def _is_abbreviation(folded: str) -> bool:
    if folded in ABBREVIATIONS:
        return True
    if "." not in folded:
        return False
    # "f.eks", "bl.a", "p.g.a", "u.s": short parts, all of letters; "cand.-jur" is a title.
    parts = folded.split(".")
    return ".-" in folded or (
        len(parts[0]) <= 2 and all(0 < len(part) <= 3 and part.isalpha() for part in parts)
    )


def _wrapped_breaks(text: str) -> frozenset[int]:
    """Returns where single line breaks only wrap a paragraph that was set to a fixed width.

    In such a text a line is full: the first word of the next one would not have fitted. That
    holds by chance too, so it counts only where a full line is seen to go on in lower case.
    """
    # Lines of other ends (CR alone, U+2028) are as good as never wrapped: a fast exit for most.
    if "\n" not in text:
        return frozenset()
    lines = text.split("\n")
    width = max(map(len, lines))
    if not _NARROWEST_WRAP <= width <= _WIDEST_WRAP:
        return frozenset()
    full = set()
    is_seen = False
    position = 0
    for line, following in zip(lines, lines[1:], strict=False):
        position += len(line)
        if len(line) >= _NARROWEST_WRAP and following:
            first = following.split(None, 1)[:1]
            if first and len(line) + 1 + len(first[0]) > width:
                full.add(position - 1 if line.endswith("\r") else position)
                is_seen = is_seen or first[0][0].islower()
        position += 1
    return frozenset(full) if is_seen else frozenset()
