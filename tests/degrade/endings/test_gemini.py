"""Gemini: a stream without a last event, of candidates that each have their own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.degrade.endings.feeding import added, followed
from tests.degrade.other_transcripts import answer
from tests.degrade.transcript import MARK

PATH = "/v1beta/models/m:streamGenerateContent?alt=sse"
CALL = {"functionCall": {"name": "order", "args": {"cups": 2}}}


def test_one_event_ends_all_that_is_open() -> None:
    """With the usage that was told last."""
    (last,) = added(followed(answer([{"text": "Tea"}], 2), answer([{"text": "?"}], 3, index=1)))
    assert last == {
        "candidates": [
            {
                "content": {"parts": [{"text": MARK}], "role": "model"},
                "finishReason": "MAX_TOKENS",
                "index": index,
            }
            for index in (0, 1)
        ],
        "usageMetadata": answer([], 3)["usageMetadata"],
        "modelVersion": "gemini-2.5-flash",
        "responseId": "mZ0aaLGzJ4Sh",
    }


def test_a_candidate_that_has_finished_is_left_alone() -> None:
    ending = followed(answer([{"text": "a"}], 1), answer([{"text": "b"}], 1, index=1), answer([], 1, "STOP"))
    assert not ending.over
    assert [each["index"] for each in added(ending)[0]["candidates"]] == [1]


def test_it_is_over_when_all_have_finished() -> None:
    ending = followed(answer([{"text": "a"}], 1), answer([], 1, "SAFETY"))
    assert (ending.over, ending.failed, ending.close(MARK)) == (True, False, b"")


def test_a_prompt_that_was_blocked_has_no_candidates() -> None:
    ending = followed({"promptFeedback": {"blockReason": "SAFETY"}, "candidates": []})
    assert ending.over


def test_before_the_first_candidate_there_is_one_for_the_mark() -> None:
    (last,) = added(followed({"usageMetadata": {"promptTokenCount": 4}}, path=PATH))
    assert last["candidates"][0]["content"]["parts"] == [{"text": MARK}]
    assert last["usageMetadata"] == {"promptTokenCount": 4}
    assert followed({"usageMetadata": {"promptTokenCount": 4}}).close(MARK) is None, "it may be anything"


def test_a_call_in_one_part_is_whole() -> None:
    (last,) = added(followed(answer([CALL], 1)))
    assert last["candidates"][0]["finishReason"] == "MAX_TOKENS"


def test_a_call_that_goes_on_is_open() -> None:
    """Until a part says no more that it does."""
    begun: dict[str, Any] = {"functionCall": {"name": "order", "willContinue": True}}
    more: dict[str, Any] = {"functionCall": {"partialArgs": [{"jsonPath": "$.cups"}], "willContinue": True}}
    assert followed(answer([begun], 1)).close(MARK) is None
    assert followed(answer([begun], 1), answer([more], 1)).close(MARK) is None
    assert added(followed(answer([begun], 1), answer([more], 1), answer([{"functionCall": {}}], 1)))


def test_a_reason_in_every_event_says_nothing() -> None:
    """Servers of old did so: the stream is then neither over nor to be ended."""
    ending = followed(answer([{"text": "a"}], 1, "STOP"), answer([{"text": "b"}], 1, "STOP"))
    assert (ending.over, ending.close(MARK)) == (False, None)


def test_an_error_is_a_failure() -> None:
    ending = followed(answer([{"text": "a"}], 1), {"error": {"code": 503, "status": "UNAVAILABLE"}})
    assert (ending.failed, ending.close(MARK)) == (True, None)


@pytest.mark.parametrize(
    "candidate",
    [
        {"content": [], "index": 0},
        {"content": {"parts": {}}, "index": 0},
        {"content": {"parts": ["a"]}},
        {"index": "0"},
        {"finishReason": 3},
        {"content": {"parts": [{"functionCall": "order"}]}},
        "a",
    ],
)
def test_what_cannot_be_followed_is_given_up(candidate: Any) -> None:
    assert followed(answer([{"text": "a"}], 1), {"candidates": [candidate]}).close(MARK) is None
