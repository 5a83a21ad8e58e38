"""Which route a call belongs to: the first that matches, else the fallback."""

from __future__ import annotations

from functools import lru_cache

from proxy.core.policy import Policy, Route


class Router:
    """The routes of one policy, ready to be asked. Hosts are matched once each and remembered (bounded)."""

    def __init__(self, policy: Policy) -> None:
        """Prepare the routes in their order."""
        self._fallback = policy.fallback
        self._prefixed = tuple(route for route in policy.routes if route.prefix is not None)
        self._matched = tuple(route for route in policy.routes if route.prefix is None)
        self._for_host = lru_cache(maxsize=1024)(self._match_host)

    def by_prefix(self, path: str, method: str) -> Route | None:
        """Return the base-URL route whose prefix begins this path, on a segment's border."""
        for route in self._prefixed:
            prefix = route.prefix or ""
            if path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", "/", "?"):
                methods = route.match.methods
                if methods is None or method in methods:
                    return route
        return None

    def by_target(self, host: str, path: str, method: str) -> Route:
        """Return the route of a call to this host and path."""
        if not self._matched:
            return self._fallback
        for route in self._for_host(host):
            match = route.match
            if match.methods is not None and method not in match.methods:
                continue
            if match.path is None or match.path.fullmatch(path.partition("?")[0]):
                return route
        return self._fallback

    def _match_host(self, host: str) -> tuple[Route, ...]:
        return tuple(
            route for route in self._matched if route.match.host is None or route.match.host.fullmatch(host)
        )
