"""`waterclock cache`: the service that finds a kept answer to a question that means the same."""

from __future__ import annotations

import ipaddress
import os
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from proxy.cli.said import Said
from proxy.config.faults import Refusal, quoted
from proxy.config.pod import port
from proxy.config.scalars import SIZES, SPANS
from proxy.core.policy import MEBIBYTE, Address
from proxy.core.units import MILLISECOND, MINUTE, SECOND

if TYPE_CHECKING:
    from proxy.semantic.server import Place, Settings


def _address(text: str) -> Address:
    host, _, number = text.rpartition(":")
    try:
        ip = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        raise Refusal(
            f"{quoted(text)} is no IP address with a port", "write one like 0.0.0.0:10805 or [::1]:10805"
        ) from None
    return Address(str(ip), port(number))


def _timeout(text: str) -> int:
    span = SPANS.amount(text)
    if not 10 * MILLISECOND <= span <= MINUTE:
        raise Refusal(f"{quoted(text)} is out of range", "write 10ms to 1m")
    return span


def _drain(text: str) -> int:
    span = SPANS.amount(text)
    if span > MINUTE:
        raise Refusal(f"{quoted(text)} is too long", "write 0s to 1m")
    return span


def _bytes(text: str) -> int:
    size = SIZES.amount(text)
    if size < MEBIBYTE:
        raise Refusal(f"{quoted(text)} is less than 1MiB", "write one like 256MiB")
    return size


def _embeddings(text: str) -> str:
    if text == "local" or (text.startswith(("http://", "https://")) and len(text) > len("https://")):
        return text
    raise Refusal(f"{quoted(text)} is neither", "write local, or a URL such as https://api.openai.com/v1")


@click.command(short_help="Run the semantic cache: kept answers to questions that mean the same.")
@click.option(
    "--listen",
    type=Said("address", _address),
    default="0.0.0.0:10805",
    show_default=True,
    help="Where sidecars ask, and where /healthz, /readyz and /metrics are.",
)
@click.option(
    "--embeddings",
    type=Said("local|URL", _embeddings),
    default="local",
    show_default=True,
    help="Who makes vectors of texts: this process, or a place that speaks OpenAI's /v1/embeddings.",
)
@click.option(
    "--model", default="text-embedding-3-small", show_default=True, help="Which model a URL is asked for."
)
@click.option(
    "--key-env",
    default="EMBEDDINGS_API_KEY",
    show_default=True,
    metavar="NAME",
    help="The environment variable with the key that a URL is asked with. Empty or not set: none is sent.",
)
@click.option(
    "--timeout",
    type=Said("duration", _timeout),
    default="5s",
    show_default=True,
    help="How long a URL may take to answer. A sidecar waits no longer than its own cache.timeout.",
)
@click.option(
    "--bytes",
    "most_bytes",
    type=Said("size", _bytes),
    default="256MiB",
    show_default=True,
    help="How much may be kept in memory; one partition may take a quarter of it.",
)
@click.option(
    "--entries",
    type=click.IntRange(1, 10_000_000),
    default=50_000,
    show_default=True,
    help="How many answers may be kept.",
)
@click.option(
    "--partition-entries",
    type=click.IntRange(1, 100_000),
    default=10_000,
    show_default=True,
    help="How many of them in one partition. A question is compared with all of these: 10,000 take about a millisecond.",
)
@click.option(
    "--drain",
    type=Said("duration", _drain),
    default="5s",
    show_default=True,
    help="How long it goes on answering once it is told to stop, so that sidecars find out before it is gone.",
)
@click.option(
    "--words",
    type=click.FloatRange(0, 1),
    default=0.4,
    show_default=True,
    help="How alike the words must be that only one of two texts has. Chosen for local embeddings.",
)
def cache(
    listen: Address,
    embeddings: str,
    model: str,
    key_env: str,
    timeout: int,
    most_bytes: int,
    entries: int,
    partition_entries: int,
    drain: int,
    words: float,
) -> None:
    """Run the semantic cache until SIGTERM.

    A rung with `cache: {semantic: 0.8}` asks it for the answer to a question that means the same: same route, model, system
    prompt and caller, and a text that is similar enough and agrees in its numbers, days, names, negations and quotations. A
    sidecar finds it by the policy's `cache.service`.

    It keeps answers in memory, as long as their routes say, and begins empty each time. It needs more than a sidecar does:
    pip install 'waterclock[semantic]'. Embeddings are made locally, without a network, unless --embeddings names a URL.

    \b
    Examples:
      waterclock cache
      waterclock cache --listen 127.0.0.1:10805 --bytes 1GiB
      EMBEDDINGS_API_KEY=… waterclock cache --embeddings https://api.openai.com/v1 --model text-embedding-3-small

    \b
    Ask it by hand:
      curl -s localhost:10805/v1/find -H 'Content-Type: application/json' \\
        -d '{"partition": "p", "text": "A table for two, please", "threshold": 0.8}'
    """
    try:
        from proxy.semantic.server import Settings
        from proxy.semantic.shelf import Bounds
    except ImportError as error:
        _cannot_start(f"{error.name} is not installed; run: pip install 'waterclock[semantic]'")
    _serve(
        Settings(
            listen=listen,
            embeddings=_place(embeddings, model, key_env, timeout),
            bounds=Bounds(most_bytes, entries, min(partition_entries, entries)),
            words_alike=words,
            drain=drain / SECOND,
        )
    )


def _serve(settings: Settings) -> None:
    """Serve until SIGTERM."""
    import uvloop

    from proxy.observe.steplog import StepLog
    from proxy.semantic.embeddings import EmbeddingsFailed
    from proxy.semantic.server import CacheServer, CannotListen

    log = StepLog()

    async def serve() -> None:
        await CacheServer(settings, log).run()

    try:
        uvloop.run(serve())
    except (CannotListen, EmbeddingsFailed) as error:
        _cannot_start(str(error))
    finally:
        log.close()


def _cannot_start(problem: str) -> NoReturn:
    click.echo(f"waterclock: cannot start: {problem}", err=True)
    sys.exit(1)


def _place(embeddings: str, model: str, key_env: str, timeout: int) -> Place | None:
    from proxy.semantic.server import Place

    if embeddings == "local":
        return None
    return Place(embeddings, model, os.environ.get(key_env) or None, timeout)
