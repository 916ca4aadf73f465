"""What a sweep takes beside its trainings: the quick start from an empty folder, by the clock.

    python experiments/bench/overhead.py [--quick]

The trainings' time is the time in which at least one was going on, from building its model to
having saved it. Annotation is everything from reading dictionaries to training sets, as the run
itself tells it. The rest is overhead: starting Python, Ray and MLflow, scoring, tracking, the
report. ``--quick`` runs two cells instead of eight, whose short trainings leave a larger share. The
last line printed is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GRID = ROOT / "experiments" / "quickstart.yaml"
QUICK = ("search.space={annotation.ceiling: [16, 256], training.sentences: [800]}",)
STEP = re.compile(
    r"^(compiling dictionaries|reading the corpus|matching|annotating) \((\d+\.\d) s\)$", re.M
)


def covered(intervals: list[tuple[float, float]]) -> float:
    """Returns the length of the union of intervals (start, end), in their unit."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def run_sweep(output: Path, *settings: str) -> tuple[float, float, str]:
    """Returns when a sweep began (Unix time), the seconds it took and what it printed."""
    command = [sys.executable, "-m", "deidsearch", "run", str(GRID), "--set", f"output={output}"]
    for setting in settings:
        command += ["--set", setting]
    began, clock = time.time(), time.monotonic()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return began, time.monotonic() - clock, done.stdout + done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two cells instead of eight")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "sweep"
        began, wall, printed = run_sweep(output, *(QUICK if quick else ()))
        files = output.glob("trainings/*/training.json")
        records = [json.loads(file.read_text()) for file in files]
    intervals = [(row["started"], row["started"] + row["elapsed"]) for row in records]
    training = covered(intervals)
    annotation = sum(float(seconds) for _, seconds in STEP.findall(printed))
    first, last = min(start for start, _ in intervals), max(end for _, end in intervals)
    gaps = (last - first) - training
    rest = wall - training - annotation
    rows = [
        ("the whole sweep", wall),
        (f"{len(records)} trainings, at least one going on", training),
        ("annotation", annotation),
        ("overhead", rest),
        ("  before the first training, annotation apart", first - began - annotation),
        ("  between trainings", gaps),
        ("  after the last training", began + wall - last),
    ]
    print(f"{'':<48}{'s':>7}{'share':>8}")
    for name, seconds in rows:
        print(f"{name:<48}{seconds:>7.1f}{seconds / wall:>8.1%}")
    summary = {
        "benchmark": "overhead",
        "quick": quick,
        "share": round(rest / wall, 4),
        "wall_seconds": round(wall, 1),
        "training_seconds": round(training, 1),
        "annotation_seconds": round(annotation, 1),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
