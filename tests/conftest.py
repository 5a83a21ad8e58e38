"""What holds for every test, whatever it is about: the event loop, the environment, and how properties are tried."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Mapping

import hypothesis
import pytest
import uvloop

# A property that fails in CI has to fail again on the next run and on anybody's machine, so CI draws no fresh examples
# and remembers none. By hand, new ones are tried each time, and a failing one is kept in .hypothesis until it passes.
# No example has a time limit: two busy cores say nothing about the code.
hypothesis.settings.register_profile(
    "ci",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=200,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=5_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))

# A shell lets what it starts in the background ignore SIGINT, which is handed down to all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Clients obey these by themselves. Left in place, a developer's own proxy or CA bundle would decide what a test sees.
_PROXY_SETTINGS = [f"{what}_PROXY" for what in ("HTTP", "HTTPS", "ALL", "NO")]
_CA_SETTINGS = ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"]
_NODE_SETTINGS = ["NODE_EXTRA_CA_CERTS", "NODE_OPTIONS", "NODE_USE_ENV_PROXY"]
_FOREIGN_SETTINGS = [*_PROXY_SETTINGS, *map(str.lower, _PROXY_SETTINGS), *_CA_SETTINGS, *_NODE_SETTINGS]


@pytest.fixture(scope="session", autouse=True)
def _own_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in _FOREIGN_SETTINGS:
            patch.delenv(name, raising=False)
        yield


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Async tests run on the loop the sidecar runs on: its timers, its transports, its order of callbacks."""
    return {"uvloop": uvloop.new_event_loop}
