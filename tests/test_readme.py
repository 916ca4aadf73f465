"""The README tells the truth: its commands, options, files and figures are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from deidsearch.cli import cli
from deidsearch.config.grid import GridConfig, Section
from deidsearch.config.load import load_grid

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
# Commands stand in shell blocks and, in code style, in the text and its tables.
TOLD = [
    part.split("#")[0].strip()
    for text in [*BLOCKS, *re.findall(r"`(deidsearch [^`]*)`", README)]
    for line in text.splitlines()
    for part in line.split("&&")
    if part.strip().startswith("deidsearch ")
]


def test_the_readme_tells_of_every_command():
    assert {shlex.split(line)[1] for line in TOLD} == set(cli.commands)


@pytest.mark.parametrize("line", TOLD)
def test_each_told_command_is_understood(line):
    _, name, *words = shlex.split(line.replace("[FILE]", "grid.yaml").replace("...", ""))
    command = cli.commands[name]
    options = {option for param in command.params for option in param.opts}
    assert {word for word in words if word.startswith("-")} <= options
    for word in words:
        if word.startswith("experiments/"):
            assert (ROOT / word).exists()
    # Parses as the command line would; nothing is run.
    command.make_context(name, list(words))


@pytest.mark.parametrize("option", ["--fresh", "--json", "--set", "--metric", "--min-recall"])
def test_options_named_alone_exist(option):
    assert option in README
    options = {
        o for command in cli.commands.values() for param in command.params for o in param.opts
    }
    assert option in options


def test_the_two_set_up_commands_are_those_of_ci():
    install, test = BLOCKS[0], BLOCKS[1]
    assert "pip install -c constraints.txt -e '.[quickstart]'" in install
    assert "deidsearch run experiments/quickstart.yaml" in install
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    for step in test.strip().split("&&"):
        wanted = step.strip().replace("'", "").replace('"', "")
        told = (
            ci.replace('"', "").replace("'", "").replace(" --quiet --disable-pip-version-check", "")
        )
        assert wanted in told


def test_links_and_pictures_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_grid_reference_names_every_field():
    reference = README[README.index("## Grid reference") :]
    for name, field in GridConfig.model_fields.items():
        if name == "documents":
            continue  # long documents are not part of this version
        assert f"`{name}`" in reference, name
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            for inner in section.model_fields:
                if (name, inner) in NOT_TOLD:
                    continue
                assert re.search(rf"\b{inner}\b", reference), f"{name}.{inner}"


NOT_TOLD = {  # not part of this version
    ("model", "context_window"), ("model", "document_encoder"), ("model", "mask_weight"),
    ("search", "trials"), ("search", "time_budget"),
}  # fmt: skip


@pytest.mark.parametrize(
    "path", sorted((ROOT / "experiments").glob("*.yaml")), ids=lambda p: p.name
)
def test_every_grid_that_is_shipped_is_valid(path):
    grid = load_grid(path)
    assert grid.cells and not grid.warnings
    assert (grid.base / "..").resolve() == ROOT
