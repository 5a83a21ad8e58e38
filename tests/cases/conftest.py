"""Behaviours that real proxies and clients got wrong in public, each tried on a real sidecar between real sockets."""

from __future__ import annotations

from tests.support.fixtures import budget, shared_sidecar, sidecar

__all__ = ["budget", "shared_sidecar", "sidecar"]
