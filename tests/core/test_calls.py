"""What is known of a call's effect, and what its caller may do next: two tables, complete over all that can be."""

from __future__ import annotations

import itertools

import pytest

from proxy.core.calls import Effect, Kind, Phase, Retry, effect_of, kind_of_method, retry_of

NONE, REPORTED, UNCERTAIN = Effect.NONE, Effect.REPORTED, Effect.UNCERTAIN
SAFE, SAME_KEY, VERIFY, NEVER = Retry.SAFE, Retry.SAME_KEY, Retry.VERIFY, Retry.NEVER

EFFECTS = {
    #                   not_sent  sending    sent       head       complete
    Kind.READ: (NONE, NONE, NONE, NONE, NONE),
    Kind.IDEMPOTENT: (NONE, UNCERTAIN, UNCERTAIN, UNCERTAIN, REPORTED),
    Kind.WRITE: (NONE, UNCERTAIN, UNCERTAIN, UNCERTAIN, REPORTED),
    Kind.OPAQUE: (NONE, UNCERTAIN, UNCERTAIN, UNCERTAIN, REPORTED),
}


@pytest.mark.parametrize(("kind", "phase"), [*itertools.product(Kind, Phase)])
def test_the_phase_is_the_evidence(kind: Kind, phase: Phase) -> None:
    """Nothing sent is none, a read is none, a whole answer is a report; all else is uncertain."""
    assert effect_of(kind, phase) is EFFECTS[kind][[*Phase].index(phase)]


# (kind, effect) -> with time left; with time left and a key that is honoured; with none; with none and such a key
RETRIES = {
    (Kind.READ, NONE): (SAFE, SAFE, NEVER, NEVER),
    (Kind.IDEMPOTENT, NONE): (SAFE, SAFE, NEVER, NEVER),
    (Kind.IDEMPOTENT, REPORTED): (SAFE, SAFE, NEVER, NEVER),
    (Kind.IDEMPOTENT, UNCERTAIN): (SAFE, SAFE, NEVER, NEVER),
    (Kind.WRITE, NONE): (SAFE, SAFE, NEVER, NEVER),
    (Kind.WRITE, REPORTED): (None, None, None, None),
    (Kind.WRITE, UNCERTAIN): (VERIFY, SAME_KEY, VERIFY, VERIFY),
    (Kind.OPAQUE, NONE): (SAFE, SAFE, NEVER, NEVER),
    (Kind.OPAQUE, REPORTED): (None, None, None, None),
    (Kind.OPAQUE, UNCERTAIN): (VERIFY, SAME_KEY, VERIFY, VERIFY),
}


def test_the_table_of_retries_is_complete() -> None:
    """It has a row for each effect that a call of each kind can have."""
    assert RETRIES.keys() == {(kind, effect_of(kind, phase)) for kind in Kind for phase in Phase}


@pytest.mark.parametrize(("kind", "effect"), RETRIES)
def test_what_the_caller_may_do(kind: Kind, effect: Effect) -> None:
    """A write of unknown effect is looked after even when no time is left; nothing else is."""
    assert RETRIES[kind, effect] == tuple(
        retry_of(kind, effect, key_honoured=honoured, time_left=left)
        for left in (True, False)
        for honoured in (False, True)
    )


def test_a_blind_retry_is_never_called_safe() -> None:
    """Of a write that may have happened, and of an opaque call that was in use, no state says `safe`."""
    for kind, phase, left, honoured in itertools.product(
        (Kind.WRITE, Kind.OPAQUE), Phase, (True, False), (True, False)
    ):
        effect = effect_of(kind, phase)
        if effect is not Effect.NONE:
            assert retry_of(kind, effect, key_honoured=honoured, time_left=left) is not Retry.SAFE


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        *((method, Kind.READ) for method in ("GET", "HEAD", "OPTIONS", "TRACE")),
        *((method, Kind.IDEMPOTENT) for method in ("PUT", "DELETE")),
        *((method, Kind.WRITE) for method in ("POST", "PATCH", "CONNECT", "PROPFIND", "get", "")),
    ],
)
def test_methods(method: str, kind: Kind) -> None:
    """As RFC 9110 has them, with case; one that nobody knows is a write."""
    assert kind_of_method(method) is kind
