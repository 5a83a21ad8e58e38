"""The control API of a running sidecar, as commands ask it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, urlencode

from proxy.cli.output import fail
from proxy.core.policy import Address, Policy

_PATIENCE_S: Final = 10.0

Document = dict[str, Any]


class NoAnswer(Exception):
    """No sidecar answers there: what was asked, where, and why it is taken for none."""

    def __init__(self, asked: str, address: Address, why: str) -> None:
        """Say it in words, with what helps."""
        super().__init__(
            f"no sidecar answers at {address}, which was asked for {asked}: {why}.\n"
            "If it listens elsewhere, name its policy with -c FILE (listen.control says where). If it runs in a pod:\n"
            "  kubectl exec POD -c waterclock -- waterclock ...\n"
            "If none runs, `waterclock run` starts one."
        )


class Refusal(Exception):
    """The sidecar has said no."""

    def __init__(self, problem: Document) -> None:
        """Take its problem document."""
        said = [problem.get("detail") or problem.get("title"), problem.get("remedy")]
        super().__init__("\n".join(str(each) for each in said if each))


class ControlApi:
    """Asks the control API at an address. Raises NoAnswer and Refusal."""

    def __init__(self, address: Address) -> None:
        """Nothing is asked yet."""
        self.address = address

    def answers(self) -> bool:
        """Say whether a sidecar is there."""
        try:
            return "endpoints" in self.get()
        except (NoAnswer, Refusal):
            return False

    def get(self, *path: str, **query: str) -> Document:
        """Return what there is at a path, given in its segments."""
        return self._ask("GET", _target(path, query))

    def post(self, *path: str, body: Document | None = None) -> Document:
        """Return what an action answers."""
        return self._ask("POST", _target(path, {}), body)

    def _ask(self, method: str, target: str, body: Document | None = None) -> Document:
        import http.client  # noqa: TID251 - a command may wait; no call passes through it

        asked = f"{method} {target}"
        connection = http.client.HTTPConnection(self.address.host, self.address.port, timeout=_PATIENCE_S)  # noqa: TID251 - see the import
        try:
            connection.request(
                method,
                target,
                json.dumps(body) if body is not None else None,
                {"Content-Type": "application/json"} if body is not None else {},
            )
            response = connection.getresponse()
            said = response.read()
        except (OSError, http.client.HTTPException) as error:  # noqa: TID251 - see the import
            raise NoAnswer(asked, self.address, _why(error)) from None
        finally:
            connection.close()
        try:
            document = json.loads(said)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            why = f"what listens there answers {response.status} and no JSON, so it is something else"
            raise NoAnswer(asked, self.address, why)
        if response.status >= 400:
            raise Refusal(document)
        return document


@contextmanager
def running(policy: Policy) -> Iterator[ControlApi]:
    """Give the control API of the running sidecar; end with status 1 when none answers, or when it says no."""
    try:
        yield ControlApi(policy.listen.control)
    except (NoAnswer, Refusal) as error:
        fail(str(error))


def _target(path: tuple[str, ...], query: dict[str, str]) -> str:
    asked = "/" + "/".join(quote(segment, safe=":") for segment in path)
    return f"{asked}?{urlencode(query)}" if query else asked


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing came within {_PATIENCE_S:g} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"it does not speak HTTP ({type(error).__name__})"
