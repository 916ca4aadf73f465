"""Grids are read whole: values, lines, cells, and every fault in one report."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deidsearch.config.grid import GridConfig
from deidsearch.config.load import flat_settings, load_grid
from deidsearch.config.space import field_fault, values_of, with_values
from deidsearch.config.template import template, write_template
from deidsearch.errors import InputError

GRID = """\
name: danish
dictionaries:
  NAME: [{path: names.csv}]
  LOCATION: [{path: places.csv, suffixes: ["s"]}]
non_identifiers:
  - {name: general, path: general.txt}
corpus: {path: notes.jsonl}
gold:
  validation: {path: dev.jsonl, labels: {PER: NAME}}
  test: {path: test.jsonl, labels: {PER: NAME}}
model: {encoder: some/encoder}
training: {epochs: 3, learning_rate: 1e-4}
search:
  space:
    annotation.ceiling: {pow2: [0, 4, 2]}
    training.sentences: [400, 200]
"""


@pytest.fixture
def write(tmp_path: Path):
    def _write(text: str) -> Path:
        path = tmp_path / "grid.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return _write


def faults(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_grid(path, overrides)
    return str(caught.value).splitlines()


def test_a_grid_spans_all_combinations_of_its_axes(write):
    grid = load_grid(write(GRID))
    seen = [(c.config.annotation.ceiling, c.config.training.sentences) for c in grid.cells]
    assert seen == [(1, 400), (1, 200), (4, 400), (4, 200), (16, 400), (16, 200)]
    assert grid.cells[0].config.training.learning_rate == 1e-4
    assert grid.output == grid.base / "runs/danish"


def test_faults_come_in_one_report_with_lines_and_nearest_key(write):
    text = (
        GRID.replace("space:", "spce:")
        .replace("epochs: 3", "epoch: 3")
        .replace("path: dev", "pth: dev")
    )
    assert faults(write(text)) == [
        "grid.yaml:9: 'path' is missing in 'gold.validation' "
        "(JSON Lines of documents or of sentences with spans). Add it.",
        "grid.yaml:9: unknown key 'pth' in 'gold.validation'. Did you mean 'path'?",
        "grid.yaml:12: unknown key 'epoch' in 'training'. Did you mean 'epochs'?",
        "grid.yaml:14: unknown key 'spce' in 'search'. Did you mean 'space'?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{pow2: [0, 4, 2]}", "[4, 0]",
         "grid.yaml:15: axis 'annotation.ceiling', value 0: "
            "a ceiling must be a number above 0, got 0."),
        ("{pow2: [0, 4, 2]}", "[.nan]",
         "grid.yaml:15: axis 'annotation.ceiling', value nan: "
         "a ceiling must be a number above 0, got nan."),
        ("{pow2: [0, 4, 2]}", "{pow: [0, 4]}",
         "grid.yaml:15: axis 'annotation.ceiling': unknown form 'pow'. Did you mean 'pow2'?"),
        ("training.sentences", "training.sentence",
         "grid.yaml:16: unknown field 'sentence' in 'training'. "
            "Did you mean 'sentences'?"),
        ("training.sentences: [400, 200]", "ray.address: [local]",
         "grid.yaml:16: 'ray.address' cannot be an axis: it does not change what is computed."),
        ("test: {path: test.jsonl, labels: {PER: NAME}}", "test: {path: t, labels: {PER: NAM}}",
         "grid.yaml:10: label 'PER' is mapped to 'NAM', which has no dictionary. "
            "Did you mean 'NAME'?"),
        ("training: {", "training: {source: gold, ",
         "grid.yaml:12: training.source 'gold' needs gold.train. "
         "Name the annotated sentences to train on under gold.train."),
        ("corpus: {path: notes.jsonl}", "corpus: null",
         "grid.yaml:7: there is no corpus. Name the unannotated text there."),
        ("[{path: names.csv}]", "[]",
         "grid.yaml:3: type 'NAME' has no dictionary. Name a source, or take the type out."),
        ("name: danish", "name: danish\nname: other",
         "grid.yaml:2: the key 'name' is given twice."),
        ("name: danish", "name: '../evil'", None),
    ],
)  # fmt: skip
def test_each_fault_is_one_clear_line(write, old, new, message):
    found = faults(write(GRID.replace(old, new)))
    assert len(found) == 1
    if message is not None:
        assert found == [message]


def test_values_from_the_command_line_win_and_are_named_in_faults(write):
    path = write(GRID)
    grid = load_grid(path, ["training.epochs=7", "search.space.annotation.ceiling=[8]"])
    assert {cell.config.training.epochs for cell in grid.cells} == {7}
    assert {cell.config.annotation.ceiling for cell in grid.cells} == {8.0}
    assert faults(path, "training.epochs=none at all") == [
        "--set training.epochs: 'epochs' in 'training' is 'none at all': input should be a valid "
        "integer, unable to parse string as an integer."
    ]
    assert faults(path, "training.epochs") == [
        "--set: 'training.epochs' is not key=value. Write --set a.b=value."
    ]


def test_duplicate_cells_are_said_and_merged(write):
    grid = load_grid(write(GRID.replace("[400, 200]", "[400, 400]")))
    assert len(grid.cells) == 3
    assert grid.warnings == ("grid.yaml:14: 3 duplicate cells are merged with equal ones.",)


def test_a_list_of_spaces_adds_their_cells_up(write):
    text = GRID[: GRID.index("  space:")] + (
        "  space:\n    - {annotation.ceiling: [1, 2]}\n    - {training.sentences: [5, 6]}\n"
    )
    grid = load_grid(write(text))
    assert [cell.axes for cell in grid.cells] == [
        {"annotation.ceiling": 1}, {"annotation.ceiling": 2},
        {"training.sentences": 5}, {"training.sentences": 6},
    ]  # fmt: skip


def test_gold_for_training_adds_one_upper_bound_per_model_setting_and_seed(write):
    text = GRID.replace(
        "  validation:", "  train: {path: train.jsonl, labels: {PER: NAME}}\n  validation:"
    ).replace("training.sentences: [400, 200]", "training.seed: [1, 2]")
    grid = load_grid(write(text))
    bounds = [cell for cell in grid.cells if cell.upper_bound]
    assert len(grid.cells) == 3 * 2 + 2
    assert [cell.config.training.seed for cell in bounds] == [1, 2]
    assert not any(path.startswith("annotation.") for path in flat_settings(bounds[0]))
    without = load_grid(write(text), ["training.upper_bound=false"])
    assert not any(cell.upper_bound for cell in without.cells)


def test_one_ceiling_per_type_is_an_axis_of_its_own(write):
    grid = load_grid(write(GRID.replace("annotation.ceiling:", "annotation.ceiling.NAME:")))
    assert grid.cells[-1].config.annotation.ceiling == {"NAME": 16.0}


def test_variables_take_their_default_or_stay_visible(write, monkeypatch):
    monkeypatch.delenv("DATA_HOME", raising=False)
    path = write(GRID.replace("notes.jsonl", "'${DATA_HOME:-data}/notes.jsonl'"))
    assert load_grid(path).config.corpus.path == "data/notes.jsonl"
    path = write(GRID.replace("notes.jsonl", "'${DATA_HOME}/notes.jsonl'"))
    assert load_grid(path).unset == {"DATA_HOME"}
    monkeypatch.setenv("DATA_HOME", "/data")
    assert load_grid(path).config.corpus.path == "/data/notes.jsonl"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "grid.yaml: byte 0 is not UTF-8. Save the file as UTF-8."),
        (b"- a", "grid.yaml: a grid is a mapping of keys. See: deidsearch init."),
        (b"", "grid.yaml: a grid is a mapping of keys. See: deidsearch init."),
        (b"a: [", "grid.yaml:1: not valid YAML: expected the node content, but found "
                  "'<stream end>'. Check indentation and quotes there."),
    ],
)  # fmt: skip
def test_files_that_are_no_grid_get_one_line(tmp_path, content, message):
    path = tmp_path / "grid.yaml"
    path.write_bytes(content)
    assert faults(path) == [message]


def test_yaml_never_builds_python_objects(write):
    for tag in ("!!python/object/apply:os.system ['true']", "!!python/name:os.system"):
        found = faults(write(GRID + f"evil: {tag}\n"))
        assert len(found) == 1 and "python/" in found[0]


def test_aliases_that_never_end_are_refused(write):
    assert "too many levels" in faults(write(GRID + "x: &a [*a]\n"))[0]


def test_merge_keys_share_labels_between_sets(write):
    text = GRID.replace("labels: {PER: NAME}}\n  test", "labels: &l {PER: NAME}}\n  test")
    text = text.replace(
        "test.jsonl, labels: {PER: NAME}", "test.jsonl, labels: {<<: *l, P: NAME, PER: LOCATION}"
    )
    assert load_grid(write(text)).config.gold.test["test"].labels == {
        "PER": "LOCATION", "P": "NAME",
    }  # fmt: skip


def test_the_template_is_a_valid_grid_and_is_never_written_over(tmp_path):
    path = tmp_path / "new" / "grid.yaml"
    write_template(path)
    assert path.read_text(encoding="utf-8") == template()
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(load_grid(path).cells) == 30
    with pytest.raises(InputError, match="this file exists. Choose another name."):
        write_template(path)


@given(st.integers(-20, 30), st.integers(0, 30), st.integers(1, 7))
def test_powers_of_two_include_both_ends_where_the_step_divides(first, span, step):
    values = values_of({"pow2": [first, first + span, step]})
    assert values[0] == 2.0**first
    assert len(values) == span // step + 1
    if span % step == 0:
        assert values[-1] == 2.0 ** (first + span)


@given(st.floats(-100, 100), st.integers(0, 50), st.sampled_from([0.1, 0.25, 0.3, 1, 2]))
def test_ranges_include_their_end_in_spite_of_rounding(first, count, step):
    values = values_of({"range": [first, first + count * step, step]})
    assert len(values) == count + 1


@pytest.mark.parametrize(
    "raw", [[], {}, None, {"pow2": 3}, {"pow2": [3, 1]}, {"range": [0, 1, 0]}, {"range": ["a", 2]},
            {"uniform": [0, 1]}, {"pow2": [0, 5000]}]
)  # fmt: skip
def test_axes_that_mean_nothing_are_refused(raw):
    with pytest.raises(ValueError):
        values_of(raw)


def test_values_are_set_in_a_copy():
    content = {"annotation": {"ceiling": 3}, "dictionaries": {"NAME": [{"path": "a"}]}}
    changed = with_values(content, {"annotation.ceiling.NAME": 5, "dictionaries.NAME.0.scale": 2})
    assert changed["annotation"]["ceiling"] == {"NAME": 5}
    assert changed["dictionaries"]["NAME"][0] == {"path": "a", "scale": 2}
    assert content["annotation"]["ceiling"] == 3


def test_every_field_of_the_grid_can_be_named_by_its_path():
    for path in ("annotation.ceiling", "annotation.ceiling.NAME", "dictionaries.NAME.0.scale",
                 "model.encoder_layers", "text.fold_accents", "corpus.sample",
                 "gold.validation.part"):  # fmt: skip
        assert field_fault(path, GridConfig) is None
    assert field_fault("model.encoder.x", GridConfig) == "'model.encoder' has no field 'x'"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("annotation={floor: 1, floor: 2}", "the key 'floor' is given twice"),
        ("search.space={corpus: [null]}", "there is no corpus"),
        ("search.space={annotation.ceiling: {range: [1, .inf]}}", "must be finite"),
        ("search.space={annotation.ceiling: {range: [1, 2, 1e-300]}}", "too many for one axis"),
        ("search.space={text.min_words: [50], text.max_words: [20]}", "do not go together"),
        ("annotation.ceiling=" + "9" * 400, "must be a number above 0"),
        ("annotation.ceiling={NAME: " + "9" * 400 + "}", "the ceiling of NAME must be a number"),
        ("dictionaries.NAME.\u00b2={path: a.csv}", "no such item in the list"),
        ("training.seed=99999999999999999999", "'seed' in 'training'"),
        ("corpus.sample=99999999999999999999", "'sample' in 'corpus'"),
        ("model.head_hidden=99999999999", "'head_hidden' in 'model'"),
        ("evaluation.resamples=99999999999", "'resamples' in 'evaluation'"),
        ("corpus.path=''", "it is empty"),
        ("output=''", "it is empty"),
        ('output="a\\0b"', "a character that no path can have"),
        ('output="a\\ud800b"', "a character that no path can have"),
        ("ray.address=nonsense", "'address' in 'ray'"),
        ("text.lowercase=2026-13-45", "this value cannot be used"),
        ("text.lowercase=!!int x", "this value cannot be used"),
        ("text={<<: x}", "<< merges something that is no mapping"),
        ("text=" + "[" * 5000 + "]" * 5000, "valid YAML"),
        ("training.source=gold", "needs gold.train"),
    ],
)
def test_a_hostile_value_is_one_clear_fault(write, override: str, said: str):
    (line, *others) = faults(write(GRID), override)
    assert said in line, line
    assert len(line) < 400 and len(others) <= 1


def test_a_grid_of_thousands_of_levels_is_refused(write):
    (line,) = faults(write("name: " + "[" * 5000 + "]" * 5000))
    assert "nested too deeply" in line


def test_a_test_set_that_is_the_validation_set_is_said(write):
    grid = load_grid(write(GRID.replace("test.jsonl", "dev.jsonl")))
    assert any("test is the validation set itself" in warning for warning in grid.warnings)
    parts = GRID.replace("test.jsonl,", "dev.jsonl, part: [2, 2],")
    assert not load_grid(write(parts)).warnings
