"""Contexts are made once, off the loop, trust the system and one file more, and follow that file."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from pathlib import Path

import pytest
import trustme

from proxy.core.reasons import Reason
from proxy.net import tls
from proxy.net.errors import DialError
from proxy.net.tls import ClientContexts, client_context


def test_what_every_context_holds_to() -> None:
    context = client_context(None)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT


def test_a_ca_file_is_trusted_beside_the_system_store(ca_file: str) -> None:
    def names(context: ssl.SSLContext) -> set[str]:
        return {str(certificate["subject"]) for certificate in context.get_ca_certs()}

    system, extended = names(client_context(None)), names(client_context(ca_file))
    assert system < extended
    assert len(extended) == len(system) + 1


async def test_one_context_a_file_however_many_ask(ca_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str | None, str]] = []

    def slow(ca: str | None) -> ssl.SSLContext:
        made.append((ca, threading.current_thread().name))
        return client_context(ca)

    monkeypatch.setattr(tls, "client_context", slow)
    contexts = ClientContexts()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(contexts.get(ca)) for ca in (None, ca_file, None, ca_file)]
    first, second, third, fourth = (task.result() for task in tasks)
    assert first is third
    assert second is fourth
    assert first is not second
    assert await contexts.get(None) is first
    assert sorted(str(ca) for ca, _ in made) == sorted(["None", ca_file])
    assert threading.current_thread().name not in {name for _, name in made}


async def test_one_who_leaves_takes_nothing_from_the_others(ca_file: str) -> None:
    contexts = ClientContexts()
    leaver, stayer = (asyncio.ensure_future(contexts.get(ca_file)) for _ in range(2))
    await asyncio.sleep(0)
    leaver.cancel()
    assert isinstance(await stayer, ssl.SSLContext)


async def test_a_rotated_file_is_read_again(ca_file: str) -> None:
    contexts = ClientContexts()
    before = await contexts.get(ca_file)
    fresh = Path(ca_file).with_suffix(".new")
    trustme.CA().cert_pem.write_to_path(str(fresh))
    os.replace(fresh, ca_file)  # noqa: PTH105 - as a Secret's volume is exchanged
    assert await contexts.get(ca_file) is not before


@pytest.mark.parametrize(
    "content", [None, "", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
async def test_a_file_that_cannot_be_used_is_named_and_tried_again(
    tmp_path: Path, ca: trustme.CA, content: str | None
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    contexts = ClientContexts()
    for _ in range(2):
        with pytest.raises(DialError, match="correct the route's `ca`") as caught:
            await contexts.get(str(path))
        assert caught.value.reason is Reason.TLS_CERTIFICATE_ERROR
        assert str(path) in caught.value.detail
    ca.cert_pem.write_to_path(str(path))
    assert isinstance(await contexts.get(str(path)), ssl.SSLContext)


async def test_a_folder_is_no_ca_file(tmp_path: Path) -> None:
    with pytest.raises(DialError, match="directory"):
        await ClientContexts().get(str(tmp_path))
