"""The policy of a soak: everything that the mix of calls needs, and stores that are full soon.

There are two of it, that differ in one cap: a reload goes from one to the other and back.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Final

from bench.procs import HOST
from trials.soak.length import Length

CACHE: Final = "512KiB"


def policy(ports: tuple[int, int, int], journal: Path, length: Length, turn: int) -> str:
    """Return the policy as YAML. `ports`: outbound, control, metrics. `turn`: how many reloads there were before."""
    outbound, control, metrics = ports
    kept = f"{length.kept_ms}ms"
    return dedent(f"""\
        listen: {{outbound: {HOST}:{outbound}, control: {HOST}:{control}, metrics: {HOST}:{metrics}}}
        journal: {{path: {journal}, retention: {kept}}}
        ledger: {{retention: {kept}, budgets: 5000, bytes: 2MiB}}
        writes: {{linger: 1s, hold: {length.kept_ms // 2}ms}}
        connections: {{idle: 2s}}
        cache: {{bytes: {CACHE}}}
        budget: {{default: 30s}}
        shutdown: {{grace: 2s}}
        routes:
          - name: cached
            match: {{host: {HOST}, path: "/cached/**", methods: [GET]}}
            cache: {{ttl: 10s, first: true, share: true}}
          - name: laddered
            match: {{host: {HOST}, path: "/laddered/**", methods: [GET]}}
            ladder:
              - {{name: full, needs: 400ms}}
              - {{name: sorry, answer: {{text: "later"}}}}
          - name: bounded
            match: {{host: {HOST}, path: "/orders/**"}}
            concurrency: 64
            queue: {{size: 1000}}
        fallback: {{cap: {60 + turn % 2}s}}
        """)
