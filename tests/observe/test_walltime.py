"""The time of day in a log line."""

from __future__ import annotations

import datetime
import re

from hypothesis import given
from hypothesis import strategies as st

from proxy.observe.walltime import Stamp, unix_ms

MOMENTS = st.integers(min_value=0, max_value=4_102_444_800_000_000_000)  # 1970 to 2100, in nanoseconds


@given(moments=st.lists(MOMENTS, min_size=1))
def test_stamp_is_the_moment_cut_to_milliseconds(moments: list[int]) -> None:
    """Also when the clock jumps, forwards or back."""
    clock = iter(moments)
    stamp = Stamp(lambda: next(clock))
    for moment in moments:
        ms = moment // 1_000_000
        expected = datetime.datetime.fromtimestamp(ms // 1000, tz=datetime.UTC) + datetime.timedelta(
            milliseconds=ms % 1000
        )
        text = stamp()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
        assert datetime.datetime.fromisoformat(text) == expected


def test_now_is_now() -> None:
    """The clock that is used unless another is given is the machine's."""
    shown = datetime.datetime.fromisoformat(Stamp()())
    assert abs(shown - datetime.datetime.now(tz=datetime.UTC)) < datetime.timedelta(seconds=5)
    assert abs(unix_ms() / 1000 - shown.timestamp()) < 5
