"""Pods that are created all the while something else goes on, to see that none of them is missed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.cluster.harness import objects
from tests.cluster.harness.commands import admitted
from tests.cluster.harness.settings import AGENTS
from tests.cluster.harness.world import sidecar_of

PAUSE = 0.3


@dataclass(slots=True)
class Created:
    """What became of each pod."""

    injected: int = 0
    missed: list[str] = field(default_factory=list)
    """The pods that came back without a sidecar, or not at all, with what was said."""


@contextmanager
def pods_created_all_along() -> Iterator[Created]:
    """Have the API server admit a pod every few tenths of a second (a dry run: each is reviewed, none is kept)."""
    created, stop = Created(), threading.Event()

    def work() -> None:
        number = 0
        while not stop.wait(PAUSE):
            number += 1
            pod = objects.pod(f"stream-{number}", AGENTS, objects.pod_spec(objects.container("idle.py")))
            try:
                made = admitted(pod)
            except AssertionError as failure:
                created.missed.append(str(failure))
                continue
            if sidecar_of(made) is None:
                created.missed.append(f"{number} has no sidecar")
            else:
                created.injected += 1

    thread = threading.Thread(target=work, name="pods")
    thread.start()
    try:
        yield created
    finally:
        stop.set()
        thread.join()
