import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"


def environment():
    known = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *([known] if known else [])])}


@pytest.fixture
def command():
    """Run a module as users do; return the finished process."""

    def run(module, *args, **options):
        return subprocess.run(
            [sys.executable, "-m", module, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=280,
            env=environment(),
            **options,
        )

    return run


@pytest.fixture
def started():
    """Start a module and leave it running; what still runs at the end is killed."""
    running = []

    def start(module, *args):
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()
