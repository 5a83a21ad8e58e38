"""Rungs, caches and cuts that cannot be had together: each is found, names the line, and says what to write instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import ConfigError, parse
from tests.config.said import faults, places

UPSTREAM = "upstream: http://x"
SORRY = "answer: {text: sorry}"
READS = "is for reads, and nothing says that these calls are; add effect: read if they change nothing on the other side (asking a model does not)"


def one(text: str) -> str:
    """The one fault of a text."""
    [fault] = faults(text)
    return str(fault).removeprefix("waterclock.yaml:")


def of_reads(text: str, before: str = "") -> str:
    """The one fault of a fallback that reads, from its key on. Its keys begin on line 3."""
    said = one(f"{before}fallback:\n  effect: read\n  {text}\n")
    return said.replace("fallback.", "", 1)


def of_rungs(*rungs: str) -> str:
    """The one fault of a ladder, whose rungs stand a line each, from line 4 on."""
    return of_reads("ladder:" + "".join(f"\n  - {{{rung}}}" for rung in rungs)).replace("ladder", "", 1)


# -- never for writes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("less", "key"),
    [
        ("ladder: [{name: a}]", "ladder"),
        ("cache: {first: true}", "cache"),
        ("on_cut: truncate", "on_cut"),
        ("ladder: [{name: a}, {name: b, cache: {}}]\n  cache: {}\n  on_cut: truncate", "ladder"),
    ],
)
def test_less_is_for_reads(less: str, key: str) -> None:
    """Who is answered from a cache, or with a fixed text, would take a write for done."""
    assert one(f"fallback:\n  {less}") == f"2: fallback.{key}: {READS}"
    assert one(f"routes:\n- name: a\n  match: {{host: b}}\n  {less}") == (
        f"4: routes[0].{key}: {READS}, or methods: [GET] to match"
    )
    assert one(f"routes:\n- name: a\n  prefix: /a\n  upstream: https://api.openai.com\n  {less}") == (
        f"5: routes[0].{key}: {READS}, or methods: [GET] to match"
    )
    assert faults(f"fallback:\n  effect: read\n  {less}") == []
    for methods in ("GET", "GET, HEAD", "OPTIONS, TRACE"):
        assert faults(f"routes:\n- name: a\n  match: {{methods: [{methods}]}}\n  {less}") == []


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("match: {methods: [GET, PUT, POST]}\n  ladder: [{name: a}]", "4: routes[0].ladder: is for reads, and POST and PUT (line 3) would be writes; add effect: read if they change nothing on the other side (asking a model does not)"),
        ("match: {methods: [POST]}\n  cache: {first: true}", "4: routes[0].cache: is for reads, and POST (line 3) would be a write; add effect: read if they change nothing on the other side (asking a model does not)"),
        ("effect: write\n  ladder: [{name: a}]", "4: routes[0].ladder: is for reads, and these calls are said to be writes (line 3); write effect: read if they change nothing on the other side, or take this out"),
        ("effect: idempotent\n  on_cut: truncate", "4: routes[0].on_cut: is for reads, and these calls are said to be idempotent writes (line 3); write effect: read if they change nothing on the other side, or take this out"),
        ("effect: idempotent\n  match: {methods: [GET]}\n  cache: {first: true}", "5: routes[0].cache: is for reads, and these calls are said to be idempotent writes (line 3); write effect: read if they change nothing on the other side, or take this out"),
    ],
)  # fmt: skip
def test_less_for_what_may_be_a_write(route: str, expected: str) -> None:
    """What says that it is one is named."""
    assert one(f"routes:\n- name: a\n  {route}") == expected


@pytest.mark.parametrize(
    ("less", "key"),
    [
        ("ladder: [{name: a}, {name: b, set: {json: {$.a: 1}}}]", "ladder[1].set.json"),
        ("ladder: [{name: a}, {name: b, cache: {semantic: 0.9, text: $.a}}]", "ladder[1].cache.text"),
        ("cache: {first: true, ignore: [$.a]}", "cache.ignore"),
    ],
)
def test_a_body_that_is_not_there(less: str, key: str) -> None:
    """It could be neither parsed nor changed."""
    route = f"routes:\n- name: a\n  effect: read\n  match: {{methods: [{{}}]}}\n  {less}"
    assert one(route.replace("{}", "HEAD, GET", 1)) == (
        f"5: routes[0].{key}: is about the body of a request, and GET and HEAD (line 4) have none; "
        "add the method that has one there, or take this out"
    )
    for methods in ("GET, POST", "POST", "QUERY"):
        assert faults(route.replace("{}", methods, 1)) == []


# -- cuts, caches and marks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("truncate_margin: 1s", "3: truncate_margin: says how a stream is truncated, and on_cut is error (built in); write on_cut: truncate, or take this out"),
        ("truncate_mark: x\n  on_cut: error", "3: truncate_mark: says how a stream is truncated, and on_cut is error (line 4); write on_cut: truncate, or take this out"),
        ("on_cut: truncate\n  truncate_margin: 1s\n  cap: 1s", "4: truncate_margin: 1s is not less than fallback.cap, 1s (line 5); change one of the two"),
        ("on_cut: truncate\n  cap: 100ms", "4: cap: 100ms is not more than fallback.truncate_margin, 200ms (built in); change one of the two"),
        ("cache: {}", "3: cache: is never asked: it is not first, no rung of a ladder answers from it, nor is it asked when calls fail; add first: true, stale_if_error, or a rung with cache: {}"),
        ("cache: {ttl: 1h}\n  ladder: [{name: a}]", "3: cache: is never asked: it is not first, no rung of a ladder answers from it, nor is it asked when calls fail; add first: true, stale_if_error, or a rung with cache: {}"),
        ("cache: {first: true, share: true, headers: [accept, Authorization]}", "3: cache.share: gives callers each other's answers, and headers (line 3) tells them apart by authorization; take one of the two out"),
        ("degraded_body: true", "3: degraded_body: marks answers that are less, and without a ladder or a cache there are none; add a ladder, or take this out"),
        ("degraded_body: true\n  on_cut: truncate", "3: degraded_body: marks answers that are less, and without a ladder or a cache there are none; add a ladder, or take this out"),
    ],
)  # fmt: skip
def test_cuts_caches_and_marks(text: str, expected: str) -> None:
    """What would be without effect, or break what else is said."""
    assert of_reads(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "cache: {}\n  ladder: [{name: a}, {name: b, cache: {}}]",
        "ladder: [{name: a}, {name: b, cache: {semantic: 0.92, text: $.a}}]",
        "cache: {stale_if_error: 1s}",
        "cache: {first: true, share: true, headers: [x-tenant]}",
        "degraded_body: true\n  cache: {first: true}",
        "on_cut: truncate\n  cap: 201ms",
        "retries: {}\n  max_attempts: 5\n  ladder: [{name: a}, {name: b, answer: {text: x}}]",
        "min_start: 2s\n  ladder: [{name: a, needs: 1s}, {name: b, needs: 50ms, cache: {}}]",
    ],
)
def test_no_contradiction(text: str) -> None:
    """What only looks like one."""
    assert faults(f"fallback:\n  effect: read\n  {text}") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("budget:\n  carry: true", "2: budget.carry: is what stages leave to those after them, and there are none; add stages, or take this out"),
        ("cache:\n  entry_bytes: 2MiB\n  bytes: 1MiB", "2: cache.entry_bytes: 2MiB is more than cache.bytes, 1MiB (line 3); change one of the two"),
        ("cache:\n  entry_bytes: 1GiB", "2: cache.entry_bytes: 1GiB is more than cache.bytes, 32MiB (built in); change one of the two"),
    ],
)  # fmt: skip
def test_outside_of_routes(text: str, expected: str) -> None:
    """The budget's stages, and the cache itself."""
    assert one(text) == expected


# -- one rung ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rung", "expected"),
    [
        (f"name: b, cache: {{}}, {SORRY}", ".cache: stands beside a fixed answer (line 5), and a rung is one of the two; make two rungs of it, the cache above the answer"),
        ("name: b, cache: {}, set: {json: {$.a: 1}}", ".set: is about what is sent, and with cache (line 5) nothing is; take one of the two out"),
        (f"name: b, {SORRY}, {UPSTREAM}", ".upstream: is about what is sent, and with answer (line 5) nothing is; take one of the two out"),
        (f"name: b, {SORRY}, credentials: false", ".credentials: is about what is sent, and with answer (line 5) nothing is; take one of the two out"),
        ("name: b, set: {query: {a: b}}, credentials: true", ".credentials: is about another upstream, and this rung names none: the caller's own credentials go where it calls; add the upstream, or take this out"),
        ("name: b, needs: auto, cache: {}", ".needs: auto is what was measured of an upstream, and this rung asks none; write a span, or take this out"),
        (f"name: b, needs: auto, {SORRY}", ".needs: auto is what was measured of an upstream, and this rung asks none; write a span, or take this out"),
        ("name: b, answer: {}", ".answer: has no body; add json or text"),
        ("name: b, answer: {status: 500}", ".answer: has no body; add json or text"),
        ("name: b, answer: {json: null, text: a}", ".answer.text: stands beside json (line 5), and there is one body; take one of the two out"),
        *((f"name: b, answer: {{text: a, status: {status}}}", f'.answer.status: {status} has no body, and there is one; write another status, or text: ""') for status in (204, 205, 304)),
        ("name: b, cache: {exact: false}", ".cache.exact: leaves nothing to look for: without exact (line 5) and without semantic; add semantic and text, or take this out"),
        ("name: b, cache: {semantic: 0.9}", '.cache.semantic: stands without a text; add the place of the question in the body, as in text: "$.messages[-1].content"'),
        ("name: b, cache: {text: $.a}", ".cache.text: is what semantic compares, and that is not given; add semantic: 0.92, or take this out"),
    ],
)  # fmt: skip
def test_a_rung_that_is_two_things(rung: str, expected: str) -> None:
    """A rung asks an upstream, or the cache, or nobody."""
    assert of_rungs("name: a", rung) == f"5: [1]{expected}"


@pytest.mark.parametrize("what", ["cache: {}", SORRY])
def test_the_first_rung_is_what_is_asked_for(what: str) -> None:
    """An answer without asking anybody would pass for the whole."""
    kind = what.partition(":")[0]
    assert of_rungs(f"name: a, {what}") == (
        f"4: [0].{kind}: stands on the first rung, which is what the call asks for, and the others are less than it; "
        "put a rung that asks the upstream above it; cache: {first: true} of the route asks the cache before"
    )


# -- several rungs -----------------------------------------------------------------------------------------------------


def test_two_rungs_of_one_name() -> None:
    """Nobody could tell which of them has answered."""
    assert of_rungs("name: a", f"name: b, {UPSTREAM}", f"name: a, {SORRY}") == (
        '6: [2].name: "a" is the name of another rung (line 4); give each rung of a ladder a name of its own'
    )
    text = "ladder: [{name: a}, {name: b, answer: {text: x}}]"
    assert (
        faults(
            f"routes:\n- {{name: r, match: {{methods: [GET]}}, {text}}}\nfallback: {{effect: read, {text}}}"
        )
        == []
    )


@pytest.mark.parametrize(
    ("rungs", "expected"),
    [
        ((f"name: b, {SORRY}", f"name: c, {UPSTREAM}"), '6: [2]: is never reached: the answer of rung "b" (line 5) can always be given; put it above that one, or take it out'),
        ((f"name: b, {SORRY}", "name: c, cache: {}"), '6: [2]: is never reached: the answer of rung "b" (line 5) can always be given; put it above that one, or take it out'),
        ((f"name: b, {SORRY}", f"name: c, needs: auto, {UPSTREAM}"), '6: [2]: is never reached: the answer of rung "b" (line 5) can always be given; put it above that one, or take it out'),
        ((f"name: b, needs: 1s, {SORRY}", f"name: c, needs: 1s, {UPSTREAM}"), '6: [2]: is never reached: the answer of rung "b" (line 5) can be given whenever 1s are left; put it above that one, or take it out'),
        (("name: b, needs: 1s, set: {query: {a: b}}", f"name: c, needs: 1001ms, {UPSTREAM}"), '6: [2].needs: 1001ms is more than rung "b" above it needs, 1s (line 5), so that one is taken whenever this one fits; put the rung that needs more above, or write at most as much'),
        (("name: b, needs: 1s, cache: {}", f"name: c, needs: 3s, {UPSTREAM}"), '6: [2].needs: 3s is more than rung "a" above it needs, 2s (line 4), so that one is taken whenever this one fits; put the rung that needs more above, or write at most as much'),
        (("name: b",), '5: [1]: is the same as rung "a" (line 4), and no less than it; say what is less: set, upstream, cache or answer; retries tries one rung again'),
        ((f"name: b, {UPSTREAM}", f"name: c, needs: 1s, {UPSTREAM}"), '6: [2]: is the same as rung "b" (line 5), and no less than it; say what is less: set, upstream, cache or answer; retries tries one rung again'),
    ],
)  # fmt: skip
def test_rungs_in_the_wrong_order(rungs: tuple[str, ...], expected: str) -> None:
    """A rung that is never the first choice, or never any, is a mistake."""
    assert of_rungs("name: a, needs: 2s", *rungs) == expected


@pytest.mark.parametrize(
    "rungs",
    [
        ("name: b, needs: 2s, upstream: http://x",),
        ("name: b, upstream: http://x", "name: c, needs: 1s, set: {query: {a: b}}"),
        ("name: b, needs: 50ms, cache: {}", "name: c, needs: 1s, upstream: http://x"),
        ("name: b, needs: auto, upstream: http://x", "name: c, needs: 2s, set: {query: {a: b}}"),
        ("name: b, needs: 1s, answer: {text: x}", "name: c, needs: 999ms, upstream: http://x", "name: d, answer: {text: z}"),
        ("name: b, needs: 1s, cache: {exact: false, semantic: 0.9, text: $.a}", "name: c, cache: {}"),
    ],
)  # fmt: skip
def test_rungs_that_take_over(rungs: tuple[str, ...]) -> None:
    """What follows a failure may need as much; what follows a cache, or a rung without needs, may need any time."""
    text = "".join(f"\n  - {{{rung}}}" for rung in ("name: a, needs: 2s", *rungs))
    assert faults(f"fallback:\n  effect: read\n  ladder:{text}") == []


# -- more than there ever is -------------------------------------------------------------------------------------------

STAGED = "budget: {default: 10s, max: 20s, stages: {llm: 5s}}\n"


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ("", "cap: 1s\n  ladder: [{name: a, needs: 1001ms}]", "4: ladder[0].needs: 1001ms is more than fallback.cap, 1s (line 3); change one of the two"),
        ("", "retries: {}\n  cap: 1s\n  ladder: [{name: a, needs: 2s}]", "5: ladder[0].needs: 2s is more than fallback.cap, 1s (line 4); change one of the two"),
        ("", f"cap: 1s\n  ladder: [{{name: a}}, {{name: b, needs: 2s, {SORRY}}}]", "4: ladder[1].needs: 2s is more than fallback.cap, 1s (line 3); change one of the two"),
        ("", "ladder: [{name: a, needs: 61m}]", "3: ladder[0].needs: 61m is more than budget.max, 1h (built in); change one of the two"),
        (STAGED, "stage: llm\n  ladder: [{name: a, needs: 10001ms}]", "5: ladder[0].needs: 10001ms is more than the 10s that stage llm (line 4) has of the longest budget, 20s (line 1); write less, or give the stage a larger share"),
    ],
)  # fmt: skip
def test_more_than_there_ever_is(before: str, text: str, expected: str) -> None:
    """A rung that needs more than its steps may take at most is never taken."""
    assert of_reads(text, before) == expected


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("", "cap: 1s\n  ladder: [{name: a, needs: 1s}]"),
        ("", "ladder: [{name: a, needs: 1h}]"),
        ("budget: {on_missing: pass}\n", "ladder: [{name: a, needs: 2h}]"),
        (STAGED, "stage: llm\n  ladder: [{name: a, needs: 10s}]"),
        (STAGED, "ladder: [{name: a, needs: 20s}]"),
        (STAGED.replace("}}", "}, carry: true}"), "stage: llm\n  ladder: [{name: a, needs: 11s}]"),
        (STAGED.replace("}}", "}, on_missing: pass}"), "stage: llm\n  ladder: [{name: a, needs: 11s}]"),
        ("", "stage: label\n  ladder: [{name: a, needs: 1h}]"),
    ],
)
def test_as_much_as_there_may_be(before: str, text: str) -> None:
    """Without a budget a call may take any time, and with carry a stage may have more than its share."""
    assert faults(f"{before}fallback:\n  effect: read\n  {text}") == []


# -- faults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("effct: read, ladder: [{name: a}]", ["effct"]),
        ("effect: red, on_cut: truncate", ["effect"]),
        ("effect: read, ladder: [{name: a, need: 1s}, {name: b, needs: 2s}]", ["ladder[0].need"]),
        ("effect: read, ladder: [{name: a}, {name: b, ste: {}}]", ["ladder[1].ste"]),
        ("effect: read, ladder: [{name: a}, {name: b, set: {json: {$.a: on}}}]", ["ladder[1].set.json.$.a"]),
        ("effect: read, ladder: [{name: a}, {name: b, answer: {txt: a}}]", ["ladder[1].answer.txt"]),
        ("effect: read, ladder: [{name: a}, {name: b, answer: {json: {c: on}}}]", ["ladder[1].answer.json.c"]),
        ("effect: read, ladder: [{name: a}, {name: b, answer: {text: c, status: 99}}, {name: d, cache: {}}]", ["ladder[1].answer.status"]),
        ("effect: read, ladder: [{name: a}, {name: b, cache: {semantic: 2}}]", ["ladder[1].cache.semantic"]),
        ("effect: read, ladder: [{name: a}, {name: b, cache: {semantic: 0.5, txt: $.a}}]", ["ladder[1].cache.txt"]),
        ("effect: read, ladder: [{name: a}, {name: b, upstrem: 'http://x', credentials: true}]", ["ladder[1].upstrem"]),
        ("effect: read, cache: {frist: true}", ["cache.frist"]),
        ("effect: read, cache: {}, ladder: [{name: a}, {name: b, cache: {exat: true}}, {name: c, on: 1}]", ["ladder[1].cache.exat", "ladder[2].on"]),
        ("effect: read, onn_cut: truncate, truncate_margin: 1s", ["onn_cut"]),
        ("effect: read, ladder: [a, {name: b, cache: {}}]", ["ladder[0]"]),
        ("effect: read, ladder: [{name: a, needs: 1x}, {name: b, needs: 2s, upstream: 'http://x'}]", ["ladder[0].needs"]),
    ],
)  # fmt: skip
def test_nothing_is_concluded_from_a_fault(text: str, expected: list[str]) -> None:
    """A key with a fault of its own, or one that was only misspelt, contradicts nothing."""
    assert places(f"fallback: {{{text}}}") == [(1, f"fallback.{key}") for key in expected]


_RUNGS = st.fixed_dictionaries(
    {
        "needs": st.sampled_from(["", "needs: auto, ", "needs: 0s, ", "needs: 1s, ", "needs: 5s, ", "needs: 2h, "]),
        "what": st.sampled_from(
            ["", "set: {}", "set: {json: {$.a: 1}}", UPSTREAM, SORRY, "answer: {}", "cache: {}", "cache: {semantic: 0.5}", "credentials: true"]
        ),
    }
)  # fmt: skip


@given(
    st.lists(_RUNGS, max_size=6),
    st.sampled_from(["effect: read", "effect: read\n  cap: 2s", "effect: write", "min_start: 1s"]),
)
def test_any_ladder(rungs: list[dict[str, str]], route: str) -> None:
    """Is one that can be used, each rung of which may be reached, or every fault has its line, its key and a remedy."""
    lines = "".join(f"  - {{name: r{n}, {rung['needs']}{rung['what']}}}\n" for n, rung in enumerate(rungs))
    try:
        ladder = parse(f"fallback:\n  {route}\n  ladder:\n{lines}").fallback.ladder
    except ConfigError as error:
        for fault in error.faults:
            assert fault.line
            assert fault.key.startswith("fallback")
            assert fault.remedy
        return
    assert len(ladder) == len(rungs)
    for level, rung in enumerate(ladder):
        assert rung.local is (rung.cache is not None or rung.answer is not None)
        assert not (rung.answer and rung.needs == 0 and level + 1 < len(ladder))
    assert not ladder or not ladder[0].local


ORDERED = "budget:\n  default: 10s\n  carry: true\n  stages: {llm: 5s, a: 2s, slack: 1s}\n"


def test_the_order_of_stages_is_that_of_the_file_or_the_one_that_is_given() -> None:
    """The slack, which nobody may claim, has no place in it."""
    assert [share.stage for share in parse(ORDERED).budget.stages] == ["llm", "a", "slack"]
    ordered = parse(ORDERED + "  order: [a, llm]", has_lines=False)
    assert [share.stage for share in ordered.budget.stages] == ["a", "llm", "slack"]


@pytest.mark.parametrize("order", ["[a]", "[a, llm, b]", "[a, b]"])
def test_an_order_names_all_stages_and_no_other(order: str) -> None:
    """Which place one has that is not in it nobody knows."""
    (fault,) = faults(ORDERED + f"  order: {order}")
    said = "does not name each of the stages (line 4) once; write [llm, a], in their order"
    assert str(fault) == f"waterclock.yaml:5: budget.order: {said}"


def test_where_no_order_is_kept_carry_asks_for_one() -> None:
    """Kubernetes sorts the keys of what it keeps."""
    with pytest.raises(ConfigError, match=r"add budget\.order: \[llm, a\]"):
        parse(ORDERED, has_lines=False)
