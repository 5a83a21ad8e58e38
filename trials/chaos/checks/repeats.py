"""Whether a write reached the server twice. What is allowed follows from the promises 7 and 9, and from nothing else.

By itself the sidecar sends a write once, unless its route declares that the other side honours keys and it has one
(promise 7). A caller's repetition is not passed on while the first sending is unresolved (promise 9), unless

    the caller has confirmed that the first did not happen, with this call or one in between
    the route declares keys honoured, and it comes under the same key
    the route's guard does not know it again: `none`; `key`, and it is another key or none; by its fingerprint, and its
    body is too large to be held while no key tells
    the route's own read (`verify`) was answered twice that there is nothing
    the first went on without its intent on disk, because the policy says so, and the sidecar has started anew since

A sending is resolved once its caller has had its whole answer. One whose caller had left when the answer came is too where
the sidecar could give it away: the record says so.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from trials.chaos.evidence import Evidence, Look
from trials.chaos.facts import Ask, Told
from trials.chaos.words import FINGERPRINT_BYTES, ROUTE, Guard

BELIEVED_AFTER: Final = 2
"""How often a route's own read has to say that there is nothing."""


def not_resent(evidence: Evidence) -> Look:
    """No write is sent twice by the sidecar itself."""
    look = Look("2 no write is resent by the sidecar")
    for told in evidence.calls:
        ask = told.ask
        arrivals = evidence.account.arrivals(ask.id)
        if ask.kind != "write" or not arrivals or _honoured(ask):
            continue
        look.hold(arrivals == 1, ask.id, f"one call, and it reached the server {arrivals} times")
    return look


def not_repeated(evidence: Evidence) -> Look:
    """No unresolved write is repeated."""
    look = Look("2 no unresolved write reaches the server again")
    units: dict[str, list[Told]] = defaultdict(list)
    for told in evidence.calls:
        if told.ask.kind == "write":
            units[told.ask.unit].append(told)
    for calls in units.values():
        calls.sort(key=lambda told: told.ask.number)
        for later, second in enumerate(calls):
            for first in calls[:later]:
                between = calls[first.ask.number : later]
                if _must_not_follow(evidence, first, second, between):
                    again = evidence.account.first(second.ask.id, "head", "touched")
                    words = (
                        f"{first.ask.id} was unresolved, and {second.ask.id} reached the server all the same"
                    )
                    look.hold(again is None, second.ask.id, words)
    return look


def _must_not_follow(evidence: Evidence, first: Told, second: Told, between: list[Told]) -> bool:
    """Say whether the second sending must not reach the server, since the first has, and is unresolved."""
    seen = evidence.account.first(first.ask.id, "head", "touched")
    if seen is None or seen.at > second.heard.began or _resolved(evidence, first):
        return False
    if second.ask.confirmed or any(_word_taken(evidence, told) for told in between):
        return False
    if not _known_again(evidence, first.ask, second.ask):
        return False
    return not (_found_absent(evidence, first, second) or _forgotten(evidence, first, second))


def _word_taken(evidence: Evidence, told: Told) -> bool:
    """Whether a call came with its caller's word that the first did not happen, and was not turned away before that counts.

    What became of it then does not matter: the word is about the first.
    """
    if not told.ask.confirmed:
        return False
    turned_away = [
        record["outcome"] == "refused" and record["reason"] != "journal_unavailable"
        for record in evidence.records(told.ask.id)
    ]
    return not any(turned_away)


def _honoured(ask: Ask) -> bool:
    return ROUTE[ask.route].honoured and ask.key is not None


def _resolved(evidence: Evidence, told: Told) -> bool:
    """Whether the caller of a sending has had its answer, or it was given away to where its caller had been."""
    if told.heard.completed:
        return True
    records = evidence.records(told.ask.id)
    if records:
        return all(record["outcome"] == "completed" for record in records)
    # Without a record nobody knows whether it was given away: that died with the sidecar.
    return told.heard.end == "left" and evidence.account.first(told.ask.id, "answered") is not None


def _known_again(evidence: Evidence, first: Ask, second: Ask) -> bool:
    """Whether the route's guard can know that the second is the first again."""
    route = ROUTE[first.route]
    same_key = first.key is not None and first.key == second.key
    if route.guard is Guard.NONE or (route.honoured and same_key):
        return False
    if same_key:
        return True
    return route.guard is Guard.FINGERPRINT and first.size <= FINGERPRINT_BYTES


def _found_absent(evidence: Evidence, first: Told, second: Told) -> bool:
    """Whether the route's own read has said often enough that the first did not happen."""
    account = evidence.account
    until = second.heard.ended
    return any(
        account.absent(str(record["record"]), until) >= BELIEVED_AFTER
        for record in evidence.records(first.ask.id)
    )


def _forgotten(evidence: Evidence, first: Told, second: Told) -> bool:
    """Whether the first went on without a record, as the policy says, and the sidecar that knew of it is gone."""
    lives = (evidence.life_at(first.heard.began), evidence.life_at(second.heard.ended))
    return lives[0] is not lives[1] and evidence.unjournaled(first.heard.began)
