"""Reading what a request states about time: exact rules, so that nothing is promised by a misreading."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.core.budget import CallPhase
from proxy.core.limits import NOTHING_STATED, Limits, MalformedLimit, number, read_limits
from proxy.core.units import HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND

NUMERIC = {
    "Budget-Remaining-Ms": "remaining",
    "Budget-Reserve-Ms": "reserve",
    "Budget-Depth": "depth",
    "Connect-Timeout-Ms": "foreign",
    "X-Envoy-Expected-Rq-Timeout-Ms": "foreign",
}


def read(*lines: tuple[str, str | bytes], by_trace: bool = False) -> Limits:
    """The limits of a head with these field lines, joined as the wire joins them."""
    fields: dict[bytes, bytes] = {}
    for field, text in lines:
        name, value = field.lower().encode(), text.encode() if isinstance(text, str) else text
        fields[name] = fields[name] + b", " + value if name in fields else value
    return read_limits(fields, by_trace=by_trace)


def refused(*lines: tuple[str, str | bytes]) -> MalformedLimit:
    """The fault of a head with these field lines."""
    with pytest.raises(MalformedLimit) as caught:
        read(*lines)
    return caught.value


def test_absent_means_nothing_was_stated() -> None:
    """A head without limits costs nothing and says nothing."""
    assert read(("Accept", "*/*"), ("Content-Length", "5")) is NOTHING_STATED
    said = (None, None, None, None, CallPhase.WORK, 0, False, *[None] * 6, 0)
    assert tuple(NOTHING_STATED._asdict().values()) == said


@pytest.mark.parametrize(
    ("limits", "stated"),
    [
        (NOTHING_STATED, False),
        (Limits(remaining=0), True),
        (Limits(budget_id="a"), True),
        (Limits(proxy_user="a"), True),
        (Limits(trace_id="a"), False),
        (Limits(reserve=1, stage="llm", depth=1, foreign=1, client_timer=1, key="k"), False),
    ],
)
def test_what_states_a_budget(limits: Limits, stated: bool) -> None:
    """A remainder, or a name under which there may be one."""
    assert limits.stated is stated


# -- numbers -----------------------------------------------------------------------------------------------------

ALMOST_NUMBERS = {
    "negative": "-1",
    "signed": "+5",
    "decimal": "5.0",
    "underscore": "1_000",
    "hexadecimal": "0x10",
    "exponent": "1e3",
    "empty": "",
    "space inside": "5 5",
    "space before": " 5",
    "space after": "5 ",
    "line end": "5\n",
    "Arabic-Indic digits": "٣٤",
    "fullwidth digits": "５",
    "superscript in Latin-1": b"\xb2",
    "eleven digits": "99999999999",
    "a list of one spelling and another": "5,5",
    "a list with nothing in it": ", ",
    "a word": "soon",
    "NUL": "5\0",
}


@pytest.mark.parametrize("field", NUMERIC)
@pytest.mark.parametrize("value", ALMOST_NUMBERS.values(), ids=ALMOST_NUMBERS)
def test_almost_a_number_is_an_error(field: str, value: str | bytes) -> None:
    """`[0-9]{1,10}` and nothing else; the fault names the field and says what is right."""
    fault = refused((field, value))
    assert fault.field == field
    assert "1 to 10 ASCII digits" in fault.problem
    assert str(fault).startswith(f"{field}: ")


@pytest.mark.parametrize("field", NUMERIC)
def test_two_different_numbers_are_an_error(field: str) -> None:
    """Nobody can say which was meant: not the smaller, not the first, and not when one is written in another way."""
    assert "different values" in refused((field, "5"), (field, "6")).problem
    refused((field, "5"), (field, "5"), (field, "6"))
    refused((field, "5"), (field, "05"))
    refused((field, "5"), (field, ""))


@pytest.mark.parametrize("field", NUMERIC)
def test_two_equal_lines_are_one(field: str) -> None:
    """A proxy on the way that repeats a field has said nothing new."""
    assert read((field, "5"), (field, "5"), (field, "5")) == read((field, "5"))


@pytest.mark.parametrize(("field", "slot"), NUMERIC.items())
@pytest.mark.parametrize("digits", ["0", "1", "007", "250", "9999999999"])
def test_a_number_is_read(field: str, slot: str, digits: str) -> None:
    """Milliseconds become nanoseconds, a depth is a count, and zero is a value like any other."""
    unit = 1 if slot == "depth" else MILLISECOND
    assert getattr(read((field, digits)), slot) == int(digits) * unit


@given(st.one_of(st.binary(max_size=14), st.text("0123456789 ,-+.٣", max_size=14).map(str.encode)))
@example(b"0000000000")
@example(b"5, 5")
def test_an_accepted_number_is_what_it_says(value: bytes) -> None:
    """Whatever comes is an error or exactly the number that stands there, once or repeated."""
    try:
        result = number("Field", value)
    except MalformedLimit:
        return
    first, *others = value.split(b", ")
    assert re.fullmatch(rb"[0-9]{1,10}", first)
    assert set(others) <= {first}
    assert result == int(first)


# -- the budget's other headers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["a", "run-42", "A.b_c~d:e-f", "x" * 128])
def test_budget_id(id: str) -> None:
    """1 to 128 characters of `[A-Za-z0-9._~:-]`."""
    assert read(("Budget-Id", id)).budget_id == id
    assert read(("Budget-Id", id), ("Budget-Id", id)).budget_id == id
    assert read(("Budget-Id", id)).stated


@pytest.mark.parametrize("id", ["", "x" * 129, "a b", "a/b", "a,b", "é", "a\n", 'a"', "run-4٢"])
def test_a_budget_id_that_is_none(id: str) -> None:
    """It travels in headers, logs and URLs, so what would need quoting anywhere is not taken."""
    assert refused(("Budget-Id", id)).field == "Budget-Id"


def test_two_budget_ids_are_an_error() -> None:
    """A call belongs to one budget."""
    refused(("Budget-Id", "a"), ("Budget-Id", "b"))


@pytest.mark.parametrize(
    ("stage", "good"), [("llm", True), ("x" * 64, True), ("x" * 65, False), ("a b", False)]
)
def test_stage(stage: str, good: bool) -> None:
    """A stage is a short plain name."""
    if good:
        assert read(("Budget-Stage", stage)).stage == stage
    else:
        assert refused(("Budget-Stage", stage)).field == "Budget-Stage"


def test_phase() -> None:
    """`work` is the default; only `cleanup`, spelled so, may use the reserve."""
    assert read(("Accept", "*/*")).phase is CallPhase.WORK
    assert read(("Budget-Phase", "work")).phase is CallPhase.WORK
    assert read(("Budget-Phase", "cleanup")).phase is CallPhase.CLEANUP


@pytest.mark.parametrize("phase", ["", "Cleanup", "clean-up", "rest"])
def test_a_phase_that_is_none(phase: str) -> None:
    """A misspelled phase is not taken for the default: the caller meant something."""
    assert "`work` or `cleanup`" in refused(("Budget-Phase", phase)).problem


def test_retry() -> None:
    """`confirmed` is a statement of the caller's: it has checked."""
    assert not NOTHING_STATED.confirmed
    assert read(("Budget-Retry", "confirmed")).confirmed


@pytest.mark.parametrize("value", ["", "true", "Confirmed", "confirmed!"])
def test_a_retry_that_confirms_nothing(value: str) -> None:
    """Anything else is an error that says what `confirmed` means."""
    assert "after checking" in refused(("Budget-Retry", value)).problem


@pytest.mark.parametrize(
    "key", ["k", '"8e03978e-40d5-43dd-bc93-6894a57f9324"', "order 17", "a, a", "x" * 1024, "!", "~"]
)
def test_idempotency_key(key: str) -> None:
    """A key is taken as it stands, quotes and inner spaces with it: two keys are the same when their bytes are."""
    assert read(("Idempotency-Key", key)).key == key


@pytest.mark.parametrize("key", ["", "x" * 1025, " k", "k ", "ключ", "a\tb", "a\0b", "\x7f"])
def test_an_idempotency_key_that_is_none(key: str) -> None:
    """A key that could not be written down the same everywhere could not be found again."""
    assert refused(("Idempotency-Key", key)).field == "Idempotency-Key"


def test_a_route_may_name_its_key_otherwise() -> None:
    """Then the usual name means nothing there, and a fault names the other one."""
    fields = {b"x-request-id": b"k-1", b"idempotency-key": b"other"}
    assert read_limits(fields, b"x-request-id").key == "k-1"
    with pytest.raises(MalformedLimit, match=r"\AX-Request-Id: "):
        read_limits({b"x-request-id": b""}, b"x-request-id")


# -- foreign limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "span"),
    [
        ("1H", HOUR),
        ("2M", 2 * MINUTE),
        ("3S", 3 * SECOND),
        ("250m", 250 * MILLISECOND),
        ("250u", 250 * MICROSECOND),
        ("99999999n", 99_999_999),
        ("0S", 0),
        ("007S", 7 * SECOND),
        ("99999999H", 99_999_999 * HOUR),
    ],
)
def test_grpc_timeout(value: str, span: int) -> None:
    """Up to eight digits and one unit; zero is what a client sends whose deadline has passed."""
    assert read(("grpc-timeout", value)).foreign == span


@pytest.mark.parametrize(
    "value", ["", "5", "S", "123456789S", "1s", "1h", "-1S", "+1S", "1.5S", "1 S", "1S ", "٣S", "1S, 2S"]
)
def test_a_grpc_timeout_that_is_none(value: str) -> None:
    """A protocol's own limit is read as strictly as ours."""
    assert refused(("grpc-timeout", value)).field == "grpc-timeout"


def test_the_smallest_foreign_limit_wins() -> None:
    """They all bind the same caller."""
    lines = [
        ("grpc-timeout", "3S"),
        ("Connect-Timeout-Ms", "2000"),
        ("X-Envoy-Expected-Rq-Timeout-Ms", "2500"),
    ]
    assert read(*lines).foreign == 2 * SECOND
    assert read(*lines[::-1]).foreign == 2 * SECOND
    assert read(*lines, ("grpc-timeout", "3S")).foreign == 2 * SECOND


def test_a_foreign_limit_is_no_budget() -> None:
    """It limits this call; what a whole job may take it does not say."""
    assert not read(("grpc-timeout", "3S"), ("X-Stainless-Timeout", "60")).stated


TIMERS = ["X-Stainless-Read-Timeout", "X-Stainless-Timeout", "X-Server-Timeout"]


@pytest.mark.parametrize("field", TIMERS)
@pytest.mark.parametrize(
    ("value", "span"),
    [
        ("600", 600 * SECOND),
        ("600.0", 600 * SECOND),
        ("0.25", 250 * MILLISECOND),
        ("0.0000000019", 1),
        ("59.9999999999", 59_999_999_999),
    ],
)
def test_the_timer_of_an_sdk(field: str, value: str, span: int) -> None:
    """Decimal seconds, as SDKs print them; what is finer than a nanosecond is cut off."""
    assert read((field, value)).client_timer == span


@pytest.mark.parametrize("field", TIMERS)
@pytest.mark.parametrize(
    "value",
    [
        "",
        "None",
        "inf",
        "nan",
        "1e-05",
        "-1",
        "+5",
        "5.",
        ".5",
        "1_0",
        "12345678901",
        "60, 60",
        "٣",
        "0",
        "0.0",
    ],
)
def test_a_timer_that_says_nothing_is_left_out(field: str, value: str) -> None:
    """It is not the developer's to correct, so it refuses no call: neither a misprint nor a zero, which is what SDKs in
    JavaScript make of any timer under a second.
    """
    assert read((field, value)).client_timer is None


def test_the_smallest_timer_wins() -> None:
    """A client may send a total and a read timer; the first to fire is the one that counts."""
    lines = [("X-Stainless-Timeout", "600"), ("X-Stainless-Read-Timeout", "5.5"), ("X-Server-Timeout", "x")]
    assert read(*lines).client_timer == 5_500 * MILLISECOND


# -- the proxy URL -----------------------------------------------------------------------------------------------


def basic(user: str | bytes, scheme: str = "Basic") -> tuple[str, str]:
    """The field that a client makes of the user information in its proxy URL."""
    raw = user.encode() if isinstance(user, str) else user
    return "Proxy-Authorization", f"{scheme} {base64.b64encode(raw).decode()}"


@pytest.mark.parametrize(
    ("user", "id", "remaining"),
    [
        ("run-42", "run-42", None),
        ("run-42:", "run-42", None),
        ("run-42:10000", "run-42", 10 * SECOND),
        ("run-42:0", "run-42", 0),
        ("run-42:s3cret", "run-42", None),
        ("run-42:10s", "run-42", None),
        ("run-42:5:5", "run-42", None),
        ("", None, None),
        (":10000", None, None),
    ],
)
def test_proxy_user(user: str, id: str | None, remaining: int | None) -> None:
    """The user names the budget; a password that is a number states the remainder, and another one nothing."""
    limits = read(basic(user))
    assert (limits.proxy_user, limits.proxy_remaining) == (id, remaining)
    assert limits.stated == (id is not None)


@pytest.mark.parametrize("scheme", ["basic", "BASIC", "Basic "])
def test_proxy_credentials_are_read_whatever_the_case(scheme: str) -> None:
    """The scheme is matched without case, and may be followed by more than one space (RFC 9110 §11.4)."""
    assert read(basic("run-42:5", scheme)).proxy_user == "run-42"


def test_other_proxy_credentials_are_none_of_ours() -> None:
    """A Bearer token or a Digest says nothing about time."""
    assert read(("Proxy-Authorization", "Bearer abc")) == NOTHING_STATED
    assert read(("Proxy-Authorization", 'Digest username="a", realm="b"')) == NOTHING_STATED


@pytest.mark.parametrize(
    "line",
    [
        ("Proxy-Authorization", "Basic !!!"),
        ("Proxy-Authorization", "Basic YQ"),
        ("Proxy-Authorization", b"Basic \xff\xff"),
        basic("a/b"),
        basic("x" * 129),
        basic("é"),
        basic(b"\xff\xfe:5"),
        basic("run-42:99999999999"),
    ],
    ids=["alphabet", "padding", "bytes", "slash", "long", "letter", "not UTF-8", "eleven digits"],
)
def test_malformed_proxy_credentials(line: tuple[str, str | bytes]) -> None:
    """A user that can be no budget id is told so, and so is a number that is too long to be one."""
    assert refused(line).field.startswith("Proxy-Authorization")


def test_digits_of_another_script_are_a_password_and_no_number() -> None:
    """Python would take them for digits."""
    assert read(basic("run-42:٣٤")).proxy_remaining is None


# -- the trace ---------------------------------------------------------------------------------------------------

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_trace_names_a_budget_only_where_it_is_asked() -> None:
    """Correlation by trace is a choice of the operator's."""
    value = f"00-{TRACE}-00f067aa0ba902b7-01"
    assert read(("traceparent", value), by_trace=True).trace_id == TRACE
    assert read_limits({b"traceparent": value.encode()}).trace_id is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        f"00-{TRACE.upper()}-00f067aa0ba902b7-01",
        f"00-{TRACE[1:]}-00f067aa0ba902b7-01",
        f"00-{TRACE}-00f067aa0ba902b7",
        f"00-{TRACE}-00f067aa0ba902b7-01-more",
        f"ff-{TRACE}-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-00f067aa0ba902b7-01, 00-{TRACE}-00f067aa0ba902b7-01",
    ],
)
def test_a_trace_that_is_none_names_nothing(value: str) -> None:
    """W3C Trace Context has it ignored. Above all an id of zeros, under which strangers would share one budget."""
    assert read(("traceparent", value), by_trace=True).trace_id is None


# -- promise 14 --------------------------------------------------------------------------------------------------

FIELDS = [*NUMERIC, *TIMERS, "grpc-timeout", "Budget-Id", "Budget-Stage", "Budget-Phase", "Budget-Retry"]
FIELDS += ["Idempotency-Key", "Proxy-Authorization", "traceparent"]
HINTS = [b"5", b"Basic ", b"cleanup", b"confirmed", b"9S", b", ", b"00-", b"run-1:5", b"\xd9\xa3", b"-", b"."]
VALUES = st.lists(st.one_of(st.sampled_from(HINTS), st.binary(max_size=6)), max_size=5).map(b"".join)


def read_or_refuse(fields: dict[bytes, bytes], *, by_trace: bool) -> Limits | MalformedLimit:
    """What comes of these fields, whichever it is."""
    try:
        return read_limits(fields, by_trace=by_trace)
    except MalformedLimit as fault:
        return fault


@given(st.dictionaries(st.sampled_from([field.lower().encode() for field in FIELDS]), VALUES), st.booleans())
def test_nothing_but_a_malformed_limit_is_raised(fields: dict[bytes, bytes], by_trace: bool) -> None:
    """Promise 14: whatever bytes come, the answer is a reading within its bounds or a fault that names its field."""
    limits = read_or_refuse(fields, by_trace=by_trace)
    if isinstance(limits, MalformedLimit):
        assert limits.field.partition(" ")[0] in FIELDS
        return
    spans = (limits.remaining, limits.reserve, limits.foreign, limits.client_timer, limits.proxy_remaining)
    assert all(span is None or span >= 0 for span in spans)
    assert 0 <= limits.depth <= 9_999_999_999
    assert limits.budget_id is None or re.fullmatch(r"[A-Za-z0-9._~:-]{1,128}", limits.budget_id, re.ASCII)
    assert limits.key is None or (limits.key.isascii() and limits.key.isprintable())


@pytest.mark.parametrize(
    ("field", "value", "attempts"),
    [
        ("X-Stainless-Retry-Count", "0", 0),
        ("X-Stainless-Retry-Count", "2", 2),
        ("X-Stainless-Retry-Count", "-1", 0),
        ("X-Stainless-Retry-Count", "2, 3", 0),
        ("amz-sdk-request", "attempt=1; max=3", 0),
        ("amz-sdk-request", "ttl=20261130T000000Z; attempt=3; max=3", 2),
        ("amz-sdk-request", "attempt=0", 0),
        ("amz-sdk-request", "reattempt=7", 0),
    ],
)
def test_how_often_a_client_has_tried_before(field: str, value: str, attempts: int) -> None:
    """As the SDKs volunteer it; what cannot be read says nothing."""
    assert read((field, value)).attempts == attempts
