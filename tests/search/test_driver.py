"""The driver's lock and the space a sweep needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deidsearch.errors import RunError
from deidsearch.search.driver import driver_lock, require_space
from deidsearch.search.sweep import Sweep
from deidsearch.track.tracker import NoopTracker

HOLD = (
    "import sys; from pathlib import Path; from deidsearch.search.driver import driver_lock\n"
    "with driver_lock(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
)


class Untouchable(NoopTracker):
    """A tracker that must not be told of anything."""

    def start_sweep(self, name, params, tags) -> None:
        raise AssertionError


def test_blocks_nest_in_one_process_and_free_the_lock_at_the_end(tmp_path: Path) -> None:
    for _ in range(2):
        with driver_lock(tmp_path / "output"), driver_lock(tmp_path / "output"):
            assert (tmp_path / "output" / "driver.lock").read_text().split()[0].isdigit()


def test_another_process_is_refused_until_the_owner_is_gone(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert owner.stdout is not None and owner.stdin is not None
    assert owner.stdout.readline() == b"held\n"
    with pytest.raises(RunError, match=f"process {owner.pid} on host .* is running this sweep"):
        with driver_lock(tmp_path):
            pass
    # A sweep looks at the lock before anything else: no tracker or store is touched.
    with pytest.raises(RunError, match="is running this sweep"):
        Sweep(tmp_path, [], dict, name="second", tracker=Untouchable()).run()
    owner.kill()
    owner.wait()
    with driver_lock(tmp_path):
        pass


def test_want_of_space_is_said_before_the_start(tmp_path: Path) -> None:
    require_space(tmp_path, 1)
    with pytest.raises(RunError, match=r"needs about 1000000000\.0 GB of disk, .* GB are free"):
        require_space(tmp_path, 10**18)
