"""Ratios and tags: the rows of METHOD §5 one by one, ties, axes beyond the paper."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from deidsearch.annotate.ceilings import Rules, bands, identifier_tags, tag_identifiers
from deidsearch.annotate.matches import Matches
from deidsearch.annotate.ratios import count_occurrences, remaining_rates, sentence_ratios
from tests.oracle.plain_annotation import TYPES, Entry, dictionary_of

TENTH = Fraction(1, 10)


def outcome(entry: Entry, ratio: float, ceiling, **rules) -> str:
    """Returns the tags of one entry, as "NAME STREET +" (+: non-identifier)."""
    dictionary = dictionary_of([entry])
    row = identifier_tags(dictionary, 0, np.array([ratio]), Rules(**rules), [ceiling])[0]
    return " ".join([*row.types, *(["+"] if row.non_identifier else [])])


PLAIN = Entry(("kjeld",), {"NAME": TENTH})
BOTH = Entry(("holm",), {"NAME": TENTH, "STREET": TENTH})
WORD = Entry(("og",), {"NAME": TENTH}, listed=True)
BOTH_WORD = Entry(("vang",), {"NAME": TENTH, "STREET": TENTH}, listed=True)
PHRASE = Entry(("de", "la", "luz"), {"NAME": TENTH}, common_words=True)


@pytest.mark.parametrize(
    ("entry", "ratio", "ceiling", "rules", "expected"),
    [
        # the rows of the table
        (PLAIN, 1e6, 512, {}, "NAME"),
        (BOTH, 1e6, 512, {}, "NAME STREET"),
        (WORD, 513, 512, {}, "+"),
        (WORD, 0.9, 512, {}, "NAME"),
        (WORD, 100, 512, {}, "NAME +"),
        (BOTH_WORD, 0.9, 512, {}, "NAME STREET"),
        # ties: only above the ceiling and only below the floor
        (WORD, 512, 512, {}, "NAME +"),
        (WORD, 1, 512, {}, "NAME +"),
        (WORD, np.nextafter(512, 600) * (1 + 1e-12), 512, {}, "+"),
        (WORD, 0.1 + 0.2, 0.3, {"floor": None}, "NAME +"),
        # the two rules meet at 1; a ceiling under the floor is tried first
        (WORD, 0.9, 0.5, {}, "+"),
        (WORD, 0.9, 512, {"floor": None}, "NAME +"),
        # no ceiling, no ratio
        (WORD, 1e9, None, {}, "NAME +"),
        (WORD, np.nan, 1, {}, "NAME +"),
        (PLAIN, np.nan, 1, {"scope": "all"}, "NAME"),
        # one ceiling per type
        (BOTH_WORD, 100, {"NAME": 50, "STREET": 200}, {}, "STREET +"),
        (BOTH_WORD, 100, {"NAME": 50, "STREET": 60}, {}, "+"),
        (BOTH_WORD, 100, {"NAME": 50}, {}, "STREET +"),
        (BOTH_WORD, 0.6, {"NAME": 0.5}, {}, "STREET"),
        # scope all
        (PLAIN, 513, 512, {"scope": "all"}, "+"),
        (PLAIN, 0.5, 512, {"scope": "all"}, "NAME"),
        (BOTH, 513, {"NAME": 512}, {"scope": "all"}, "STREET"),
        # common words
        (PHRASE, 513, 512, {}, "NAME"),
        (PHRASE, 513, 512, {"multiword_ambiguous": True}, "+"),
        (PHRASE, 513, 512, {"multiword_ambiguous": frozenset({"NAME"})}, "+"),
        (PHRASE, 513, 512, {"multiword_ambiguous": frozenset({"STREET"})}, "NAME"),
    ],
)
def test_tags(entry, ratio, ceiling, rules, expected) -> None:
    assert outcome(entry, ratio, ceiling, **rules) == expected


def test_dominated_type_goes_before_all_else() -> None:
    city = Entry(
        ("barcelona",), {"NAME": TENTH, "LOCATION": 3 * TENTH, "STREET": 3 * TENTH}, listed=True
    )
    dictionary = dictionary_of([city])
    kept = remaining_rates(dictionary.rates, 3.0)[0]
    assert dict(zip(TYPES, kept.tolist(), strict=True)) == {
        "LOCATION": pytest.approx(0.3), "NAME": 0.0, "STREET": pytest.approx(0.3)
    }  # fmt: skip
    assert (remaining_rates(dictionary.rates, 3.1)[0] > 0).all()
    # The ratio takes the rates that remain.
    ratio = sentence_ratios(dictionary, np.array([6]), 10, type_dominance=3.0)
    assert ratio[0] == pytest.approx(1.0)
    assert sentence_ratios(dictionary, np.array([7]), 10)[0] == pytest.approx(1.0)
    rules = Rules(type_dominance=3.0)
    [row] = identifier_tags(dictionary, 0, ratio, rules, [1])
    assert (row.types, row.non_identifier, row.outcome) == (("LOCATION", "STREET"), True,
                                                            "ambiguous")  # fmt: skip


def test_ratio_counts_every_occurrence_by_sentence() -> None:
    dictionary = dictionary_of([WORD, PLAIN, PHRASE])
    matches = Matches(
        np.array([0, 0, 3], np.int32), np.zeros(3, np.int32), np.ones(3, np.int32),
        np.array([0, 0, 1], np.int32), np.array([True, False, True]), 4,
    )  # fmt: skip
    counts = count_occurrences(matches, 3)
    assert counts.tolist() == [2, 1, 0]
    ratio = sentence_ratios(dictionary, counts, 4)
    assert ratio[:2] == pytest.approx([5.0, 2.5]) and np.isnan(ratio[2])
    assert np.isnan(sentence_ratios(dictionary, np.zeros(3, np.int64), 0)).all()


def test_bands_lie_between_the_ratios_of_identifiers_a_ceiling_acts_on() -> None:
    dictionary = dictionary_of([WORD, BOTH_WORD, PLAIN, Entry(("x",), {"NAME": TENTH}, True)])
    ratio = np.array([3.0, 100.0, 40.0, np.nan])
    ceilings = [2.0**power for power in range(9)]
    assert bands(dictionary, ratio, Rules(), ceilings).tolist() == [0, 0, 2, 2, 2, 2, 2, 7, 7]
    wide = bands(dictionary, ratio, Rules(scope="all"), ceilings).tolist()
    assert wide == [0, 0, 2, 2, 2, 2, 6, 7, 7]
    mixed = [{"STREET": 64.0}, 64.0, None, {"NAME": 2.0, "STREET": 64.0}, {"NAME": 200.0}]
    assert bands(dictionary, ratio, Rules(), mixed).tolist() == [0, 1, 2, 3, 2]
    assert bands(dictionary, ratio, Rules(), []).tolist() == []
    assert len(bands(dictionary, ratio, Rules(), [float(n) for n in range(1, 200)])) == 199


def test_64_ceilings_fit_and_65_are_refused() -> None:
    dictionary = dictionary_of([WORD])
    ceilings = [float(number) for number in range(64)]
    tags = tag_identifiers(dictionary, np.array([31.5]), Rules(), ceilings)
    name = tags.types[0, TYPES.index("NAME")]
    assert [bool(int(name) >> bit & 1) for bit in range(64)] == [c >= 31.5 for c in ceilings]
    with pytest.raises(ValueError, match="at most 64 ceilings at once, got 65"):
        tag_identifiers(dictionary, np.array([31.5]), Rules(), [*ceilings, 64.0])


@pytest.mark.parametrize(
    ("entry", "ratio", "rules", "reason"),
    [
        (PLAIN, 900.0, {}, "in no non-identifier list"),
        (BOTH, 900.0, {}, "several types"),
        (WORD, np.nan, {}, "not seen in the sentences, so it has no ratio"),
        (WORD, 900.0, {}, "ratio above the ceiling"),
        (WORD, 0.1, {}, "ratio below the floor"),
        (WORD, 8.0, {}, "ratio not above the ceiling, and not below the floor"),
        (PLAIN, 8.0, {"scope": "all"}, "ratio not above the ceiling"),
    ],
)
def test_each_tag_has_its_reason(entry, ratio, rules, reason) -> None:
    row = identifier_tags(dictionary_of([entry]), 0, np.array([ratio]), Rules(**rules), [512])[0]
    assert row.reason == reason
