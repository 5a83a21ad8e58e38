"""The numbers of the demo, its jobs, and what must come of each: written down, not computed. Times are milliseconds.

The ladder is that of docs/examples/waterclock.yaml at a fifth of its times, so that nobody has to wait for it. The models
take about 60% of what their rungs need, and each budget leaves a rung half as much again as it needs, which is room for
whatever else the machine is doing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proxy.demo.degrade.model import Voice

TOTAL: Final = 2000
"""The budget that the shares of the stages are given for."""
SHARES: Final = {"retrieval": 400, "llm": 1400}
FULL: Final = 1000
FAST: Final = 600
MINIMAL: Final = 300
CACHED: Final = 20
FEW: Final = 60
ALL: Final = 150
MARGIN: Final = 100
MARK: Final = "[response truncated]"
THRESHOLD: Final = 0.92
MOST: Final = 30
"""The words that the fast model is asked for at most."""

VOICES: Final = {"gpt-4o": Voice(600, 40, 60), "gpt-4o-mini": Voice(300, 15, 40)}
SMALL_VOICES: Final = {"small": Voice(120, 10, 20)}

KEY: Final = "Bearer demo-key"
QUESTION: Final = "How long could a speaker in court speak with two jars of water?"
REWORDED: Final = "With two jars of water, how long could a speaker speak in court?"
OTHER: Final = "How long could a speaker in court speak with three jars of water?"
DIFFERS: Final = "numbers differ"
"""Why the last finds nothing, alike as it is."""
SYSTEM: Final = "Answer from the passages that you are given, and from nothing else."


@dataclass(frozen=True, slots=True)
class Reached:
    """What must have reached an upstream: which (`big`, `small`), for which model, and how many words at most."""

    upstream: str
    model: str
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What must come of the chat of a job. `level` and `why` as `Budget-Degraded` has them; `cache` as the record has it."""

    rung: str
    level: int = 0
    why: str | None = None
    reached: Reached | None = None
    status: int = 200
    cache: str | None = None

    @property
    def degraded(self) -> str | None:
        """The value of `Budget-Degraded`."""
        return f"level={self.level}; rung={self.rung}; stage=llm; reason={self.why}" if self.level else None


@dataclass(frozen=True, slots=True)
class Case:
    """A question and the time there is for it. `before` and `after` say it to a newcomer.

    `search` is the rung of the retrieval, and `passages` how many its server is asked for, None when it is not asked.
    """

    id: str
    title: str
    budget: int
    before: str
    after: str
    search: str
    passages: int | None
    expected: Expected
    verdict: str
    question: str = QUESTION


CASES: Final = (
    Case(
        "ample",
        "Time enough",
        1800,
        "What everybody would like: eight passages, and the large model.",
        "The first rung is what was asked for, so nothing is said of it. The answer is kept.",
        "all",
        8,
        Expected("full", reached=Reached("big", "gpt-4o")),
        "complete; on_time",
    ),
    Case(
        "less",
        "Less",
        1000,
        f"The large model needs {FULL} ms, and that much is not left for it.",
        f"The body was rewritten: another model, {MOST} words at most. The answer says that it is less than was asked for.",
        "all",
        8,
        Expected("fast", 1, "time", Reached("big", "gpt-4o-mini", MOST)),
        "complete; on_time; degraded=1",
    ),
    Case(
        "little",
        "Little",
        600,
        "Retrieval has a ladder too, and a fifth of the time: two passages have to do.",
        "The chat went to a small model elsewhere, which was not sent the key that the agent has for the large one.",
        "few",
        2,
        Expected("minimal", 2, "time", Reached("small", "small")),
        "complete; on_time; degraded=2",
    ),
    Case(
        "moment",
        "A moment",
        200,
        "Too little for any model, or even for a search. But the question has been answered before.",
        "No upstream was asked. It is the first answer again: the passages are no part of the question (`ignore`).",
        "none",
        None,
        Expected("cached", 3, "time", cache="hit"),
        "complete; on_time; degraded=2",
    ),
    Case(
        "nothing",
        "Nothing",
        1,
        "One millisecond: it is gone before the agent has asked.",
        "An apology at once, which is no answer: the job is not complete. No sidecar can close such a job in time.",
        "none",
        None,
        Expected("sorry", 4, "time", status=503),
        "incomplete; late; degraded=2",
    ),
)

WORDINGS: Final = (
    Case(
        "reworded",
        "The same in other words",
        200,
        f"“{REWORDED}” Nobody has asked that yet.",
        "Another wording of the first question, and so the first answer.",
        "none",
        None,
        Expected("cached", 3, "time", cache="semantic"),
        "complete; on_time; degraded=2",
        REWORDED,
    ),
    Case(
        "other",
        "Another question in nearly the same words",
        200,
        f"“{OTHER}” One word differs from the first.",
        "However alike they look, two are not three, and an answer to the one is none to the other.",
        "none",
        None,
        Expected("sorry", 4, "time", status=503, cache="miss"),
        "incomplete; on_time; degraded=2",
        OTHER,
    ),
)

STREAM_BUDGET: Final = 1800
STREAM_VERDICT: Final = "incomplete; on_time; degraded=1"
STREAM_DEGRADED: Final = {"level": 1, "rung": "full", "reason": "truncated", "stage": "llm"}

HOLES: Final = {
    "total": TOTAL,
    "retrieval": SHARES["retrieval"],
    "llm": SHARES["llm"],
    "all": ALL,
    "few": FEW,
    "full": FULL,
    "fast": FAST,
    "minimal": MINIMAL,
    "cached": CACHED,
    "margin": MARGIN,
    "mark": MARK,
    "most": MOST,
    "threshold": THRESHOLD,
}
POLICY: Final = """\
# The policy of `waterclock demo-degrade`. Times are a fifth of those in docs/examples/waterclock.yaml.
listen:
  outbound: 127.0.0.1:{outbound}
  control: 127.0.0.1:{control}
  metrics: 127.0.0.1:{metrics}

budget:
  default: {total}ms
  stages: {{retrieval: {retrieval}ms, llm: {llm}ms, slack: 200ms}}
  carry: true                 # what retrieval leaves of its share, the model may use

cache:
  service: {service}
  timeout: 100ms

routes:
  - name: retrieval
    prefix: /retrieval
    upstream: {search}
    effect: read
    stage: retrieval
    ladder:
      - {{name: all, needs: {all}ms}}
      - name: few
        needs: {few}ms
        set: {{query: {{k: "2"}}}}
      - name: none
        answer: {{json: {{passages: []}}}}

  - name: chat
    prefix: /chat
    upstream: {big}
    stage: llm
    effect: read
    on_cut: truncate
    truncate_margin: {margin}ms
    truncate_mark: "{mark}"
    cache:
      ttl: 1h
      ignore: ["$.messages[1].content"]     # the passages
    ladder:
      - {{name: full, needs: {full}ms}}
      - name: fast
        needs: {fast}ms
        set: {{json: {{"$.model": gpt-4o-mini, "$.max_tokens": {most}}}}}
      - name: minimal
        needs: {minimal}ms
        upstream: {small}
        set: {{json: {{"$.model": small}}}}
      - name: cached
        needs: {cached}ms
        cache: {{exact: true, semantic: {threshold}, text: "$.messages[-1].content"}}
      - name: sorry
        answer: {{status: 503, json: {{error: {{type: overloaded, message: Try again in a moment.}}}}}}

journal: {{path: {journal}}}
shutdown: {{grace: 1s}}
"""
