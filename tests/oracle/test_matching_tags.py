"""Ratios, tags, bands, postprocessing and training sets against METHOD in plain Python."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deidsearch.annotate.ceilings import bands, identifier_tags, tag_identifiers
from deidsearch.annotate.postprocess import annotate
from deidsearch.annotate.ratios import count_occurrences, sentence_ratios
from deidsearch.annotate.training_sets import training_set
from deidsearch.annotate.trie import Trie, find_matches
from deidsearch.text.tokens import fold, fold_vocabulary, tokenise
from tests.oracle import plain_annotation as plain

ceiling_lists = st.lists(plain.ceilings, min_size=1, max_size=5)


class Case:
    """The same sentences and entries for the product and for the plain method."""

    def __init__(self, entries, sentences, rules, ceilings, available: int) -> None:
        self.entries, self.sentences, self.rules = entries, sentences, rules
        self.ceilings = ceilings
        self.dictionary = plain.dictionary_of(entries)
        self.table = tokenise([" ".join(sentence) for sentence in sentences])
        self.key = fold_vocabulary(self.table.vocabulary)
        every = find_matches(Trie.compile(self.dictionary), self.table, self.key)
        self.matches = every.until(available)
        counts = count_occurrences(self.matches, len(entries))
        self.ratio = sentence_ratios(self.dictionary, counts, available, rules.type_dominance)
        self.tags = tag_identifiers(self.dictionary, self.ratio, rules, ceilings)
        self.annotation = annotate(every, self.table, self.key, self.dictionary, self.tags, rules)

        self.words = [[fold(surface) for surface in sentence] for sentence in sentences]
        seen = [0] * len(entries)
        for words in self.words[:available]:
            for _, _, number in plain.occurrences(words, entries):
                seen[number] += 1
        assert counts.tolist() == seen
        self.plain_ratio = [
            plain.ratio_of(entry, number, available, rules.type_dominance)
            for entry, number in zip(entries, seen, strict=True)
        ]
        self.plain = [
            [
                plain.annotate_sentence(surfaces, words, entries, self.plain_ratio, rules, ceiling)
                for surfaces, words in zip(sentences, self.words, strict=True)
            ]
            for ceiling in ceilings
        ]


@st.composite
def cases(draw) -> Case:
    sentences = draw(plain.sentence_lists)
    available = draw(st.integers(1, len(sentences)))
    return Case(
        draw(plain.entry_lists()), sentences, draw(plain.rule_sets), draw(ceiling_lists), available
    )


def spans(table, types) -> list[tuple[int, int, int, str]]:
    columns = (table.sentence, table.start_token, table.end_token)
    return [
        (int(s), int(b), int(e), types[label])
        for s, b, e, label in zip(*columns, table.label, strict=True)
    ]


@settings(max_examples=100, deadline=None)
@given(cases())
def test_ratios_and_tags_follow_the_table(case) -> None:
    for number, entry in enumerate(case.entries):
        exact = case.plain_ratio[number]
        if exact is None:
            assert np.isnan(case.ratio[number])
        else:
            assert np.isclose(case.ratio[number], float(exact), rtol=1e-13)
        explained = identifier_tags(case.dictionary, number, case.ratio, case.rules, case.ceilings)
        for place, ceiling in enumerate(case.ceilings):
            types, common = plain.tags_of(entry, exact, case.rules, ceiling)
            bit = np.uint64(1 << place)
            masks = case.tags.types[number]
            found = {n for n, mask in zip(plain.TYPES, masks, strict=True) if mask & bit}
            assert (found, bool(case.tags.non_identifier[number] & bit)) == (types, common)
            row = explained[place]
            assert (set(row.types), row.non_identifier) == (types, common)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_annotation_equals_the_plain_method(case) -> None:
    annotation = case.annotation
    for place in range(len(case.ceilings)):
        bit = np.uint64(1 << place)
        mentions, ambiguous, baseline = [], [], []
        for number, sentence in enumerate(case.plain[place]):
            mentions += [(number, *span) for span in sentence.mentions()]
            ambiguous += [(number, *span) for span in sentence.ambiguous()]
            best = sentence.pieces(lambda i: plain.best_type(i, case.entries, plain.TYPES))
            baseline += [(number, *span) for span in best]
            assert bool(annotation.has_mention[number] & bit) == bool(sentence.mentions())
            assert bool(annotation.has_ambiguous[number] & bit) == bool(sentence.ambiguous())
        assert spans(annotation.mentions(place), plain.TYPES) == mentions
        assert spans(annotation.baseline(place), plain.TYPES) == mentions
        assert spans(annotation.baseline(place, "identifier"), plain.TYPES) == baseline
        left = annotation.ambiguous(place)
        assert [
            (
                int(left.sentence[row]), int(left.start_token[row]), int(left.end_token[row]),
                frozenset(n for t, n in enumerate(plain.TYPES) if int(left.types[row]) >> t & 1),
                bool(left.non_identifier[row]),
            )
            for row in range(len(left))
        ] == ambiguous  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(cases())
def test_ceilings_of_one_band_and_only_they_have_equal_tags(case) -> None:
    first = bands(case.dictionary, case.ratio, case.rules, case.ceilings)

    def column(place: int) -> tuple:
        bit = np.uint64(1 << place)
        types = (case.tags.types & bit) != 0
        return types.tobytes(), ((case.tags.non_identifier & bit) != 0).tobytes()

    for place, leader in enumerate(first.tolist()):
        assert leader <= place
        same = [other for other in range(len(first)) if column(other) == column(place)]
        assert leader == same[0]


@settings(max_examples=100, deadline=None)
@given(cases(), st.integers(0, 2**32))
def test_training_set_equals_the_plain_method(case, seed) -> None:
    keep = np.random.default_rng(seed).integers(0, 4, len(case.sentences)).astype(np.uint64)
    for place in range(len(case.ceilings)):
        chosen = training_set(case.annotation, place, keep)
        sentences = case.plain[place]
        clean = [n for n, sentence in enumerate(sentences) if not sentence.ambiguous()]
        positive = [n for n in clean if sentences[n].mentions()]
        negative = [n for n in clean if not sentences[n].mentions()]
        negative.sort(key=lambda n: (keep[n], n))
        expected = sorted(positive + negative[: len(positive)])
        assert chosen.sentence.tolist() == expected
        assert chosen.num_with_mention == len(positive)
        assert chosen.num_without_before == len(negative)
        assert chosen.num_ambiguous == len(sentences) - len(clean)
        mentions = [
            (row, *span) for row, n in enumerate(expected) for span in sentences[n].mentions()
        ]
        assert spans(chosen.mentions, plain.TYPES) == mentions


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_long_runs_of_neighbours_resolve_as_repeated_reading_does(data) -> None:
    """Chains of touching matches, ambiguous in every way: the fixpoint is the sweeps' own."""
    words = ["aa", "bb", "cc", "dd", "ee", "ff", "gg"]
    types = st.dictionaries(
        st.sampled_from(plain.TYPES), st.just(Fraction(1, 10)), min_size=1, max_size=3
    )
    entries = [
        plain.Entry((word,), data.draw(types), listed=data.draw(st.booleans())) for word in words
    ]
    sentence = tuple(data.draw(st.lists(st.sampled_from([*words, "nu"]), max_size=40)))
    rules = plain.Rules(floor=None, initials="off")
    case = Case(entries, [sentence], rules, [None, 10.0, 40.0], 1)
    for place in range(3):
        assert spans(case.annotation.mentions(place), plain.TYPES) == [
            (0, *span) for span in case.plain[place][0].mentions()
        ]
