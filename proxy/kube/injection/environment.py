"""The proxy variables of environment mode, and how they go together with those that a container has already.

Which client reads which variable, and in which case, differs (`docs/clients.md`): curl reads `http_proxy` in small
letters alone, Node reads any of them only with `NODE_USE_ENV_PROXY`. So both cases are always set, to the same value.
Networks in NO_PROXY are understood by Go, curl and requests; other clients overlook them, and their calls go through
the sidecar, which does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from proxy.kube import names
from proxy.kube.injection.decision import Object
from proxy.kube.injection.wishes import Wishes
from proxy.kube.settings import Settings

PROXY_URL: Final = f"http://127.0.0.1:{names.OUTBOUND_PORT}"

_PROXIES: Final = (("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy"))
_PROXY_FOR_ALL: Final = ("ALL_PROXY", "all_proxy")
_NO_PROXY: Final = ("NO_PROXY", "no_proxy")
_NODE: Final = "NODE_USE_ENV_PROXY"

# The sidecar by another spelling: a user name in it names the budget (DESIGN, section 3).
_OURS: Final = re.compile(rf"http://(?:[^@/\s]*@)?(?:127\.0\.0\.1|localhost):{names.OUTBOUND_PORT}/?\Z")


@dataclass(slots=True)
class Merged:
    """What is to change in a container's `env`. `replaced`: the index of an entry and its new value; `added` go last.

    `warnings` say what the container has of its own that lets calls go past the sidecar. They name no value: a proxy's
    address may hold a password.
    """

    replaced: dict[int, str] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def no_proxy_of(settings: Settings, wishes: Wishes) -> tuple[str, ...]:
    """Return the names and networks that calls reach directly: the pod itself, the API server, what was asked for.

    Networks of IPv6 are left out; calls to them go through the sidecar.
    """
    api_server = "kubernetes.default.svc"
    items = (
        *("localhost", "127.0.0.1", "::1"),
        *("kubernetes", "kubernetes.default", api_server, f"{api_server}.{settings.cluster_domain}"),
        *settings.cluster_ranges,
        *settings.no_proxy,
        *(part for part in wishes.exclude_cidrs.split(",") if part),
    )
    return tuple(dict.fromkeys(item for item in items if not _chokes_clients(item)))


def _chokes_clients(item: str) -> bool:
    """Say whether httpx, and every SDK on it, fails at the sight of an item: a network of IPv6, an address in brackets."""
    return item.count(":") > 1 and ("/" in item or item.startswith("["))


def merge(env: Sequence[Object], no_proxy: Sequence[str]) -> Merged:
    """Return how a container's variables become those of environment mode. Merged twice, nothing changes.

    A proxy of the container's own is left alone, both cases of it. What `envFrom` brings cannot be seen here; `env`
    wins over it (Kubernetes API reference, `Container.envFrom`).
    """
    merged = Merged()
    own = {entry["name"]: index for index, entry in enumerate(env)}  # of a name given twice, the last counts
    for_all = next((name for name in _PROXY_FOR_ALL if name in own), None)
    if for_all is not None:
        merged.warnings.append(_left_alone(for_all))
        return merged
    through = [_merge_proxy(pair, env, own, merged) for pair in _PROXIES]
    if not any(through):
        return merged
    if _NODE not in own:
        merged.added[_NODE] = "1"
    _merge_no_proxy(env, own, no_proxy, merged)
    return merged


def _merge_proxy(
    pair: tuple[str, str], env: Sequence[Object], own: Mapping[str, int], merged: Merged
) -> bool:
    """Merge both cases of one proxy variable; say whether it leads to the sidecar."""
    there = [name for name in pair if name in own]
    foreign = [name for name in there if not _OURS.match(_literal(env[own[name]]) or "")]
    if foreign:
        merged.warnings.append(_left_alone(foreign[0]))
        return False
    value = _literal(env[own[there[0]]]) if there else None
    merged.added.update((name, value or PROXY_URL) for name in pair if name not in own)
    return True


def _merge_no_proxy(
    env: Sequence[Object], own: Mapping[str, int], no_proxy: Sequence[str], merged: Merged
) -> None:
    texts = {name: _literal(env[own[name]]) for name in _NO_PROXY if name in own}
    for name, text in texts.items():
        if text is None:
            merged.warnings.append(
                f"{name} is taken from elsewhere; the names of the cluster are not added to it"
            )
        elif "*" in _items(text):
            merged.warnings.append(f"{name} is *; clients that read it go past the sidecar")
        elif (whole := _joined(text, no_proxy)) != text:
            merged.replaced[own[name]] = whole
    for name, other in (_NO_PROXY, _NO_PROXY[::-1]):
        if name in texts:
            continue
        if other not in texts:
            merged.added[name] = ",".join(no_proxy)
        elif (text := texts[other]) is None:
            # A variable may refer to one that is defined before it (Kubernetes API reference, `EnvVar.value`).
            merged.added[name] = _joined(f"$({other})", no_proxy)
        else:
            merged.added[name] = merged.replaced.get(own[other], text)


def _joined(text: str, more: Sequence[str]) -> str:
    """Return a list with what it lacks added at its end; what stands in it stays as it was written."""
    there = {item.lower() for item in _items(text)}
    missing = [item for item in more if item.lower() not in there]
    if not missing:
        return text
    return ",".join([*([text.rstrip(", ")] if there else []), *missing])


def _items(text: str) -> list[str]:
    return [item for item in re.split(r"[,\s]+", text) if item]


def _literal(entry: Object) -> str | None:
    """Return a variable's value; None when it is taken from somewhere else. One without a value is empty."""
    return None if entry.get("valueFrom") else entry.get("value") or ""


def _left_alone(name: str) -> str:
    return f"its own {name} is left alone; calls through that go past the sidecar"
