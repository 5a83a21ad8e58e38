"""A client that shut down its writing side still waits; one that closed, or whose process has ended, has left."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from proxy.net import peer as peer_module
from proxy.net.peer import PeerSockets

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sock_diag is of Linux")


@pytest.fixture
def peers() -> Iterator[PeerSockets]:
    asked = PeerSockets()
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as c,
    ):
        served, _ = listening.accept()
        with served:
            if asked.has_left(served.getsockname(), c.getsockname()) is None:
                pytest.skip("this kernel answers no sock_diag")
    yield asked
    asked.close()


@contextlib.contextmanager
def connected(listen: str, connect: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's socket and the one that serves it."""
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    with socket.create_server((listen, 0), family=family, dualstack_ipv6=listen == "::") as listening:
        port = listening.getsockname()[1]
        with socket.create_connection((connect, port)) as client:
            served, _ = listening.accept()
            with served:
                yield client, served


def soon(peers: PeerSockets, served: socket.socket) -> bool | None:
    """Ask until the answer is True, for a second at most."""
    for _ in range(100):
        if (answer := peers.has_left(served.getsockname(), served.getpeername())) is not False:
            return answer
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(
    ("listen", "connect"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("::", "127.0.0.1"),
        ("::", "::1"),
        ("::", "::ffff:127.0.0.1"),
        ("0.0.0.0", "::ffff:127.0.0.1"),
    ],
)
def test_half_closed_and_closed_are_told_apart(peers: PeerSockets, listen: str, connect: str) -> None:
    with connected(listen, connect) as (client, served):
        ends = served.getsockname(), served.getpeername()
        assert peers.has_left(*ends) is False
        client.shutdown(socket.SHUT_WR)
        assert served.recv(1) == b""
        assert peers.has_left(*ends) is False
        client.close()
        assert soon(peers, served) is True


def test_a_process_that_ended_has_left(peers: PeerSockets) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        code = (
            "import socket, sys\n"
            f"sock = socket.create_connection(('127.0.0.1', {listening.getsockname()[1]}))\n"
            "sock.shutdown(socket.SHUT_WR)\n"
            "sys.stdin.read()\n"
        )
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as client:
            served, _ = listening.accept()
            with served:
                assert served.recv(1) == b""
                assert peers.has_left(served.getsockname(), served.getpeername()) is False
                client.kill()
                client.wait()
                assert soon(peers, served) is True


def test_a_socket_that_another_process_still_holds_has_not_left(peers: PeerSockets) -> None:
    with connected("127.0.0.1", "127.0.0.1") as (client, served):
        client.shutdown(socket.SHUT_WR)
        other = client.dup()
        client.close()
        time.sleep(0.01)
        assert peers.has_left(served.getsockname(), served.getpeername()) is False
        other.close()
        assert soon(peers, served) is True


def test_a_listener_on_the_same_port_is_not_taken_for_the_peer(peers: PeerSockets) -> None:
    """What is no longer found may still be a port that somebody listens on."""
    with connected("127.0.0.1", "127.0.0.1") as (client, served), socket.socket() as listening:
        port = client.getsockname()[1]
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError:
            pytest.skip("another process was given that port in the meantime")
        listening.listen()
        assert peers.has_left(served.getsockname(), ("127.0.0.1", port)) is not False


def test_what_is_not_of_this_host_is_unknown(peers: PeerSockets) -> None:
    with connected("127.0.0.1", "127.0.0.1") as (_, served):
        assert peers.has_left(served.getsockname(), ("192.0.2.77", 4711)) is None


def test_a_redirected_connection_that_is_not_found_is_unknown(peers: PeerSockets) -> None:
    with connected("127.0.0.1", "127.0.0.1") as (_, served):
        ends = served.getsockname(), served.getpeername()
        assert peers.has_left(*ends, original=("192.0.2.77", 80)) is None


def test_without_sock_diag_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "_NETLINK_SOCK_DIAG", 31)
    asked = PeerSockets()
    with connected("127.0.0.1", "127.0.0.1") as (_, served):
        assert asked.has_left(served.getsockname(), served.getpeername()) is None
    asked.close()


def test_many_questions_use_one_socket(peers: PeerSockets) -> None:
    with connected("127.0.0.1", "127.0.0.1") as (_, served):
        first = peers._netlink
        began = time.perf_counter()
        for _ in range(1000):
            assert peers.has_left(served.getsockname(), served.getpeername()) is False
        assert time.perf_counter() - began < 0.5
        assert peers._netlink is first


def test_whose_the_other_end_of_a_redirected_connection_is(peers: PeerSockets) -> None:
    """Ours, another process's of the same user, or of nobody that can be found."""
    with connected("127.0.0.1", "127.0.0.1") as (client, served):
        place = served.getsockname()[:2]
        assert peers.is_own(served.getpeername(), place) is True
        assert peers.is_own(served.getpeername(), ("192.0.2.77", 80)) is None
        assert peers.is_own(None, place) is None
        client.close()
        assert peers.is_own(served.getpeername(), place) is not True
    with socket.create_server(("127.0.0.1", 0)) as listening:
        place = listening.getsockname()
        code = f"import socket, sys\nkept = socket.create_connection({place!r})\nsys.stdin.read()\n"
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as client_process:
            other, _ = listening.accept()
            with other:
                assert peers.is_own(other.getpeername(), place) is False
                client_process.kill()


def test_without_sock_diag_nobody_knows_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "_NETLINK_SOCK_DIAG", 31)
    asked = PeerSockets()
    with connected("127.0.0.1", "127.0.0.1") as (_, served):
        assert asked.is_own(served.getpeername(), served.getsockname()[:2]) is None
    asked.close()
