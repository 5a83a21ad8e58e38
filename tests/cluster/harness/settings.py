"""What the test is told, by the environment (`make cluster-test`)."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "waterclock"

IMAGE = os.environ.get("IMAGE") or "waterclock:dev"
"""The image under test; the nodes have it, or can pull it."""
CACHE_IMAGE = os.environ.get("CACHE_IMAGE", "")
"""The image of the semantic cache; where none is named, its tests are skipped."""
PULL_POLICY = os.environ.get("PULL_POLICY") or "IfNotPresent"
KEEP = os.environ.get("KEEP", "") not in ("", "0")
"""Leave everything in the cluster at the end, to look at it."""

RELEASE = "waterclock"
SYSTEM = "waterclock-system"
"""The release's namespace."""
AGENTS = "wct-agents"
"""Opted in, and held to the restricted Pod Security Standard, with a quota on limits."""
REDIRECTED = "wct-redirected"
"""Opted in; pods may have NET_ADMIN."""
TOOLS = "wct-tools"
"""Not opted in: the tools, and the driver that sends requests from inside the cluster."""
NAMESPACES = (AGENTS, REDIRECTED, TOOLS)

CONTROLLER = "waterclock-injector"
"""The name of the injector's Deployment, Service, webhook configuration and Lease."""


def image_parts() -> tuple[str, str]:
    """Return the image's repository and tag."""
    repository, colon, tag = IMAGE.rpartition(":")
    if not colon or "/" in tag:
        return IMAGE, "latest"
    return repository, tag
