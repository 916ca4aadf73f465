"""Keys of entries, what is cleaned away and why, and variants."""

from __future__ import annotations

import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deidsearch.store.entries import (
    PLACEHOLDERS,
    REASONS,
    entry_keys,
    make_variants,
    placeholder_keys,
)
from deidsearch.text.tokens import fold, fold_vocabulary, tokenise

CODES = placeholder_keys(PLACEHOLDERS)


def key_of(text: str, fold_accents: bool = False) -> str:
    return entry_keys(pa.array([text]), fold_accents).key[0].as_py()


def reason_of(text: str) -> str | None:
    code = int(entry_keys(pa.array([text]), placeholders=CODES).reason[0])
    return None if code == 0 else REASONS[code - 1]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Anne-Marie", "anne - marie"),  # CASES R03
        ("Anne--Marie", "anne - marie"),
        ("vestre\n Stationsvej", "vestre stationsvej"),  # CASES R34
        ("O'Brien", "o ' brien"),
        ("Dr. Tværgade", "dr . tværgade"),
        ("C/", "c /"),
        ("\ufeffJensen\u200b", "jensen"),
    ],
)
def test_key_is_the_folded_tokens(text: str, key: str) -> None:
    assert key_of(text) == key


@pytest.mark.parametrize("text", ["Store Kongensgade", "IJsselstraat", "Ærøvej", "Straße", "İnci"])
def test_all_caps_title_and_lower_case_have_one_key(text: str) -> None:  # CASES R02, R08
    assert key_of(text.upper()) == key_of(text.title()) == key_of(text)
    # NFD is how macOS writes file names, and lists copied from them.
    assert key_of(unicodedata.normalize("NFD", text)) == key_of(text)


def test_accents_fold_only_where_asked() -> None:
    assert key_of("GARCÍA") == "garcía"
    assert key_of("GARCÍA", fold_accents=True) == "garcia"
    assert key_of("Øster Søgade", fold_accents=True) == "øster søgade"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"), (" \t\u200b", "empty"),
        ("000", "placeholder"), ("Ej Efternavn", "placeholder"), ("ej  EFTERNAVN", "placeholder"),
        ("-", "placeholder"), ("---", "placeholder"), ("N/A", "placeholder"),
        ("Sin Apellido", "placeholder"), ("UNBEKANNT", "placeholder"), ("unknown", "placeholder"),
        ("Ø", "single letter"), ("J.", "single letter"), ("ß", "single letter"),
        ("e\u0301", "single letter"),
        ("25%", "no letter"), ("106", "no letter"), ("!!", "no letter"),
        ("Calle San Andr\ufffds", "can never match (damaged text)"),
        ("Anne \u00ad Marie", "can never match (damaged text)"),
        ("Bo", None), ("10. Februar Vej", None), ("R2", None), ("Barn", None), ("Nan", None),
        ("H&M", None), ("RENE'", None),
    ],
)  # fmt: skip
def test_what_is_removed_and_why(text: str, reason: str | None) -> None:
    assert reason_of(text) == reason


def test_placeholders_are_a_setting() -> None:
    own = entry_keys(pa.array(["Barn", "ukendt"]), placeholders=placeholder_keys(["BARN"]))
    assert own.reason.tolist() == [1 + REASONS.index("placeholder"), 0]


def test_placeholders_are_all_different() -> None:
    keys = CODES.to_pylist()
    assert len(set(keys)) == len(keys)


def variants_of(entry: str, *args: object, fold_accents: bool = False) -> list[str]:
    key = entry_keys(pa.array([entry]), fold_accents).key
    return make_variants(key, *args, fold_accents, CODES).key.to_pylist()  # type: ignore[arg-type]


def test_suffix_joins_the_last_token() -> None:
    assert variants_of("Keld", ["s", "'s"], {}) == ["kelds", "keld ' s"]
    assert variants_of("Anne-Marie", ["s"], {}) == ["anne - maries"]
    assert variants_of("Ring 4", ["s"], {}) == ["ring 4s"]
    assert variants_of("Chr.", ["s"], {}) == []


def test_variant_replaces_whole_words_wherever_they_stand() -> None:
    calle = {"calle": ["c/", "c."]}
    assert variants_of("Calle Mayor", [], calle) == ["c / mayor", "c . mayor"]
    assert variants_of("La CALLE Mayor", [], calle) == ["la c / mayor", "la c . mayor"]
    assert variants_of("Calle Calle", [], {"calle": ["c"]}) == ["c c"]
    assert variants_of("Callejón Mayor", [], calle) == []
    assert variants_of("Mayor calleja", [], calle) == []
    assert variants_of("Gran Vía 1", [], {"gran vía": ["g. v."]}) == ["g . v . 1"]
    assert variants_of("Gran Vía", [], {"Gran Via": ["GV"]}, fold_accents=True) == ["gv"]


def test_suffixes_and_replacements_are_not_combined() -> None:
    assert variants_of("Calle Mayor", ["s"], {"calle": ["c/"]}) == ["calle mayors", "c / mayor"]


def test_variant_equal_to_its_entry_is_none() -> None:
    assert variants_of("Calle Mayor", ["", " "], {"calle": ["CALLE"]}) == []


def test_bad_variants_are_removed_with_their_reason() -> None:
    key = entry_keys(pa.array(["Calle"])).key
    made = make_variants(key, [], {"calle": ["c.", "ukendt", "cl"]}, False, CODES)
    reasons = [REASONS[code - 1] if code else None for code in made.reason.tolist()]
    assert reasons == ["single letter", "placeholder", None]


@given(st.lists(st.text(max_size=12), max_size=6), st.booleans())
@settings(max_examples=150, deadline=None)
def test_key_equals_what_the_tokeniser_makes_of_the_same_words_in_a_note(
    entries: list[str], fold_accents: bool
) -> None:
    found = entry_keys(
        pa.array([text.encode("utf-8", "replace").decode() for text in entries], pa.string()),
        fold_accents,
        CODES,
    )
    for text, key, kept in zip(entries, found.key.to_pylist(), found.kept, strict=True):
        table = tokenise([f"before {text} after"])
        folded = fold_vocabulary(table.vocabulary, fold_accents).to_pylist()
        words = [folded[number] for number in table.token]
        assert " ".join(words[1:-1]) == key
        assert [fold(word, fold_accents) for word in words] == words
        if kept:
            assert key.split(" ") == words[1:-1]
