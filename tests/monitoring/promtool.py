"""Prometheus' own tool, as the judge of what is written for Prometheus."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool (Debian package prometheus)"
)


def promtool(*words: str | Path, text: str | None = None) -> str:
    """Run it, and return what it says. A complaint fails the test."""
    ran = subprocess.run(
        ["promtool", *map(str, words)], input=text, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr
