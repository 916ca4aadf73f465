"""What this machine has, found without loading a heavy library."""

from __future__ import annotations

import os
import socket
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


def cluster_fault(address: str) -> str | None:
    """Returns why no Ray cluster can be joined at an address, or None; takes seconds at most."""
    if address == "local":
        return None
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "")
        if not address:
            # Where `ray start` notes the cluster of this machine.
            notes = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray/ray_current_cluster"
            return None if notes.exists() else "no Ray cluster runs on this machine"
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return None
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "no answer"
        return f"no Ray cluster answers at {address} ({reason.lower()})"
