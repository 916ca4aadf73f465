"""What this machine has, found without loading a heavy library."""

from __future__ import annotations

import os
from pathlib import Path


def available_cpus() -> int:
    """Returns the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_gpus() -> int:
    """Returns the NVIDIA GPUs that this process may see."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = len(list(Path("/proc/driver/nvidia/gpus").glob("*")))
    if visible is None:
        return found
    return min(found, len([name for name in visible.split(",") if name.strip() not in ("", "-1")]))
