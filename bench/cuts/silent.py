"""A server that takes every request and never answers. Run with the port to listen on.

`GET /readyz` alone gets an answer, so that its start can be awaited like any other. It shares its core with the callers,
so it does as little as can be: it looks at the beginning of a connection, and then only waits for its end.
"""

from __future__ import annotations

import select
import socket
import sys
from contextlib import suppress

_BACKLOG = 4096
_READY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_ENDS = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


def _serve(port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
    listener.setblocking(False)
    epoll = select.epoll()
    epoll.register(listener, select.EPOLLIN)
    open_ones: dict[int, socket.socket] = {}
    while True:
        for number, event in epoll.poll():
            if number == listener.fileno():
                with suppress(OSError):  # whoever was there has gone again
                    link, _ = listener.accept()
                    link.setblocking(False)
                    open_ones[link.fileno()] = link
                    epoll.register(link, select.EPOLLIN | select.EPOLLRDHUP)
            elif event & _ENDS or _is_asked_whether_ready(open_ones[number]):
                open_ones.pop(number).close()
            else:
                epoll.modify(number, select.EPOLLRDHUP)


def _is_asked_whether_ready(link: socket.socket) -> bool:
    """Answer that question, and no other."""
    with suppress(OSError):
        if link.recv(64, socket.MSG_PEEK).startswith(b"GET /readyz "):
            link.recv(65_536)  # unread, it would turn the end into a reset
            link.send(_READY)
            return True
    return False


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
