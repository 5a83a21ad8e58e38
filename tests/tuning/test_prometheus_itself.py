"""A real Prometheus that has scraped a page: its answers mean what the reader takes them for."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final

import pytest
import yaml

from proxy.core.units import MILLISECOND
from proxy.observe.families import STAGE_CUTS, STAGE_RATIO
from proxy.tuning.asking import Prometheus
from proxy.tuning.faults import Untunable
from proxy.tuning.histograms import read_histograms, selector
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE, eventually
from tests.tuning.serving import Answer, Asked, serving
from tests.tuning.telling import policy

pytestmark = pytest.mark.timeout(120)

POLICY: Final = policy()
EDGES: Final = [*(bound / STAGE_RATIO.scale for bound in STAGE_RATIO.bounds), float("inf")]


class Page:
    """The metrics of a sidecar: at first nothing has happened, then a thousand jobs have, of which twenty were cut."""

    def __init__(self) -> None:
        self.busy = threading.Event()

    def __call__(self, _: Asked) -> Answer:
        jobs = {0.5: 900, 0.75: 80, 1.1: 20} if self.busy.is_set() else {}
        lines = ["# TYPE waterclock_stage_used_ratio histogram"]
        for edge, count in zip(EDGES, accumulate(jobs.get(edge, 0) for edge in EDGES), strict=True):
            name = "+Inf" if edge == float("inf") else str(edge)
            lines.append(f'{STAGE_RATIO.name}_bucket{{stage="llm",le="{name}"}} {count}')
        lines.append(f'{STAGE_RATIO.name}_count{{stage="llm"}} {sum(jobs.values())}')
        lines.append(f'{STAGE_RATIO.name}_sum{{stage="llm"}} 1')
        lines.append(f'{STAGE_CUTS.name}{{stage="llm"}} {jobs.get(1.1, 0)}')
        lines.append('waterclock_build_info{version="0"} 1')
        lines.append('waterclock_policy_info{digest="a",mode="enforce"} 1')
        return Answer(
            "\n".join([*lines, ""]).encode(), headers=(("Content-Type", "text/plain; version=0.0.4"),)
        )


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    if shutil.which("prometheus") is None:
        pytest.skip("needs prometheus (Debian package prometheus)")
    folder, port, page = tmp_path_factory.mktemp("prometheus"), free_port(), Page()
    with serving(page) as scraped:
        process = _started(folder, port, scraped)
        try:
            found = Prometheus(f"http://127.0.0.1:{port}")
            eventually(lambda: _value(found, "count_over_time(waterclock_build_info[1m])") >= 3, within=60)
            page.busy.set()
            eventually(
                lambda: _value(found, 'waterclock_stage_used_ratio_count{stage="llm"}') == 1000, within=60
            )
            yield found
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _started(folder: Path, port: int, scraped: int) -> subprocess.Popen[bytes]:
    target = {"targets": [f"127.0.0.1:{scraped}"], "labels": {"namespace": "agents"}}
    scrapes = [{"job_name": "sidecars", "static_configs": [target]}]
    (folder / "prometheus.yaml").write_text(
        yaml.safe_dump(
            {"global": {"scrape_interval": "300ms", "scrape_timeout": "300ms"}, "scrape_configs": scrapes}
        )
    )
    return subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]
    )


def _value(prometheus: Prometheus, query: str) -> float:
    try:
        found = prometheus.query(query)
    except Untunable:
        return 0.0  # it is still starting
    return found[0].value if found else 0.0


def test_what_it_says_is_what_was_counted(prometheus: Prometheus) -> None:
    """A thousand jobs, twenty of which were cut: 900 used half of the share at most, and one in a hundred needs more than all."""
    use = read_histograms(prometheus.query, POLICY, "2m", selector(["namespace=agents"])).stages["llm"]
    assert use.needs.total == pytest.approx(
        1000, rel=0.15
    )  # `increase` reckons with what lies before the first scrape
    assert use.cut == pytest.approx(20, rel=0.2)
    assert abs(use.needs.censored - use.cut) <= 1  # each of its series is rounded by itself
    share = 5500 * MILLISECOND
    assert use.needs.quantile(0.5).high == share // 2
    assert use.needs.quantile(0.95).high == share * 3 // 4
    assert use.needs.quantile(0.99) == (share, None)


def test_every_query_is_one(prometheus: Prometheus) -> None:
    """What is not there is empty; nothing is refused."""
    measured = read_histograms(prometheus.query, POLICY, "1d", "")
    assert measured.notes == ()
    assert {stage: use.needs.total > 0 for stage, use in measured.stages.items()} == {
        "retrieval": False,
        "llm": True,
        "formatting": False,
    }


def test_pods_that_there_are_not(prometheus: Prometheus) -> None:
    """No sidecar of that namespace has ever been scraped."""
    with pytest.raises(Untunable, match="no series of a sidecar"):
        read_histograms(prometheus.query, POLICY, "1h", selector(["namespace=other"]))


def test_a_wrong_expression_is_told(prometheus: Prometheus) -> None:
    """In the words of the server: here, a regular expression that is none."""
    with pytest.raises(Untunable, match="refuses the query"):
        read_histograms(prometheus.query, POLICY, "1h", selector(["namespace=~("]))
