"""Days and times of day: `3 May`, `2024-05-03`, `next week`, `on Friday`, `7 pm`, `noon`.

Each is a short text that equals another's only where both mean the same day or the same minute, as far as that can be told
without knowing today's date.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final, NamedTuple

from proxy.semantic.reading.numerals import NUMBERS, ORDINALS
from proxy.semantic.reading.tokens import Form, Token


class Moment(NamedTuple):
    """A day or a time of day that begins at a token, and how many tokens it takes."""

    key: str
    length: int


def _table(text: str) -> dict[str, int]:
    return {word: at for at, group in enumerate(text.split("|")) for word in group.casefold().split()}


_MONTHS: Final = {
    word: at + 1
    for word, at in _table(
        "january jan januar jänner janvier enero|february feb februar février febrero|march mar märz mars marzo|april apr avril abril"
        "|may mai mayo|june jun juni juin junio|july jul juli juillet julio|august aug août agosto|september sep sept septembre septiembre"
        "|october oct oktober octobre octubre|november nov novembre noviembre|december dec dezember décembre diciembre"
    ).items()
}
_DOUBTFUL_MONTHS: Final = frozenset(
    ("march", "mar", "mars", "may", "jan", "jun", "jul", "sep", "dec", "oct", "nov", "apr", "aug", "feb")
)
_MONTHS_AFTER: Final = frozenset(
    (
        "in",
        "im",
        "en",
        "since",
        "until",
        "till",
        "by",
        "of",
        "last",
        "next",
        "this",
        "during",
        "early",
        "late",
        "to",
        "from",
    )
)
_WEEKDAYS: Final = _table(
    "monday mon mondays montag montags lundi lunes|tuesday tue tues tuesdays dienstag mardi martes|wednesday wed wednesdays mittwoch mercredi miércoles"
    "|thursday thu thurs thursdays donnerstag jeudi jueves|friday fri fridays freitag vendredi viernes|saturday sat saturdays samstag sonnabend samedi sábado"
    "|sunday sun sundays sonntag dimanche domingo"
)
_DOUBTFUL_DAYS: Final = frozenset(("mon", "wed", "sat", "sun", "fri", "thu", "tue"))
_DAYS: Final = {
    **dict.fromkeys(("today", "heute", "hoy", "aujourd'hui"), "today"),
    **dict.fromkeys(("tomorrow", "demain"), "tomorrow"),
    **dict.fromkeys(("yesterday", "gestern", "hier", "ayer"), "yesterday"),
    **dict.fromkeys(("tonight", "tonite"), "today evening"),
    "übermorgen": "in two days",
    "vorgestern": "two days ago",
}
_PARTS: Final = {
    **dict.fromkeys(("morning", "mornings", "matin", "vormittag"), "morning"),
    **dict.fromkeys(("afternoon", "nachmittag", "tarde"), "afternoon"),
    **dict.fromkeys(("evening", "evenings", "abend", "soir", "soirée"), "evening"),
    **dict.fromkeys(("night", "nights", "nacht", "nuit", "noche"), "night"),
    **dict.fromkeys(("weekend", "weekends", "wochenende"), "weekend"),
}
_NEARBY: Final = {
    **dict.fromkeys(("this", "current", "diese", "diesen", "dieses", "dieser", "ce", "cette", "cet", "este", "esta"), "this"),
    **dict.fromkeys(("next", "coming", "following", "nächste", "nächsten", "nächstes", "nächster", "prochain", "próximo", "próxima"), "next"),
    **dict.fromkeys(("last", "previous", "past", "letzte", "letzten", "letztes", "letzter", "dernier", "último", "pasado", "pasada"), "last"),
}  # fmt: skip
_SPANS: Final = {
    **dict.fromkeys(("week", "weeks", "woche", "semaine", "semana"), "week"),
    **dict.fromkeys(("weekend", "wochenende"), "weekend"),
    **dict.fromkeys(("month", "months", "monat", "mois", "mes"), "month"),
    **dict.fromkeys(("year", "years", "jahr", "année", "an", "año"), "year"),
    **dict.fromkeys(("quarter", "quartal"), "quarter"),
}
_FOLLOWING: Final = {
    **dict.fromkeys(("prochain", "prochaine", "próximo", "próxima"), "next"),
    **dict.fromkeys(("pasado", "pasada", "dernier", "dernière"), "last"),
}
"""What stands behind a span of time: `la semaine prochaine`."""
_PAIRS: Final = {
    **dict.fromkeys(("heute abend", "ce soir", "this evening", "esta noche"), "today evening"),
    "pasado mañana": "in two days",
}
_ISO: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})\Z")
_GERMAN: Final = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})\Z")
_DAY: Final = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th|er)?\Z")
_HOUR: Final = re.compile(r"([0-9]{1,2})(am|pm|uhr)\Z")
_HALF_DAYS: Final = {"am": 0, "pm": 12}
_LATEST_DAY: Final = 31


def moment_at(tokens: list[Token], at: int, language: str) -> Moment | None:
    """Return the day or time of day that begins at a token, or None."""
    return _clock(tokens, at) or _date(tokens, at) or _relative(tokens, at, language)


def _fold(tokens: list[Token], at: int) -> str:
    return tokens[at].fold if 0 <= at < len(tokens) else ""


# -- days ------------------------------------------------------------------------------------------------------------


def _date(tokens: list[Token], at: int) -> Moment | None:
    token = tokens[at]
    if token.form is Form.DATE:
        if match := _ISO.match(token.text):
            return Moment(_day(int(match[3]), int(match[2]), int(match[1])), 1)
        if match := _GERMAN.match(token.text):
            return Moment(_day(int(match[1]), int(match[2]), int(match[3])), 1)
        return Moment(token.text, 1)  # which of the two is the month, nobody can tell
    day = _day_of_month(token)
    if day is not None:  # 3 May, 3rd of May, 3. Mai
        ahead = at + 1
        while _fold(tokens, ahead) in (".", "of", "de") and ahead < at + 3:
            ahead += 1
        month = _month(tokens, ahead, sure=token.form is not Form.WORD)
        if month is not None:
            year, more = _year(tokens, ahead + 1)
            return Moment(_day(day, month, year), ahead + 1 + more - at)
        return None
    month = _month(tokens, at, sure=False)
    if month is None:
        return None
    if at + 1 < len(tokens):
        day = _day_of_month(tokens[at + 1])
        if day is not None:
            year, more = _year(tokens, at + 2)
            return Moment(_day(day, month, year), 2 + more)
    year, more = _year(tokens, at + 1)
    return Moment(_day(None, month, year), 1 + more)


def _day(day: int | None, month: int, year: int | None) -> str:
    return f"day {year or '?'}-{month}-{day or '?'}"


def _day_of_month(token: Token) -> int | None:
    if token.form in (Form.NUMBER, Form.MIXED) and (match := _DAY.match(token.fold)):
        day = int(match[1])
    elif token.form is Form.WORD:
        day = ORDINALS.get(token.fold, NUMBERS.get(token.fold, 0))
    else:
        return None
    return day if 1 <= day <= _LATEST_DAY else None


def _month(tokens: list[Token], at: int, *, sure: bool) -> int | None:
    """Return the month at a token. `sure`: a day stands before it, so that even `may` is one."""
    if at >= len(tokens) or tokens[at].form is not Form.WORD:
        return None
    token = tokens[at]
    month = _MONTHS.get(token.fold)
    if month is None or sure or token.fold not in _DOUBTFUL_MONTHS:
        return month
    if at + 1 < len(tokens) and token.capital and _day_of_month(tokens[at + 1]) is not None:
        return month
    return month if (token.capital and not token.opens) or _fold(tokens, at - 1) in _MONTHS_AFTER else None


def _year(tokens: list[Token], at: int) -> tuple[int | None, int]:
    """Return the year at a token, past a comma, and how many tokens it takes."""
    more = 0
    while _fold(tokens, at + more) in (",", "of", "de", ".") and more < 2:
        more += 1
    if re.fullmatch(r"(?:1[5-9]|20)[0-9]{2}", _fold(tokens, at + more)):
        return int(_fold(tokens, at + more)), more + 1
    return None, 0


# -- times of day ----------------------------------------------------------------------------------------------------


def _clock(tokens: list[Token], at: int) -> Moment | None:
    token = tokens[at]
    if token.fold in ("noon", "midday", "mittag", "midi", "mediodía"):
        return Moment(_minute(12, 0), 1)
    if token.fold in ("midnight", "mitternacht", "minuit", "medianoche"):
        return Moment(_minute(0, 0), 1)
    if token.form is Form.CLOCK:
        hour, minute = (int(part) for part in re.split("[:h]", token.fold)[:2])
        return _of_half_day(tokens, at, hour, minute)
    if token.form is Form.MIXED and (match := _HOUR.match(token.fold)):
        half = _HALF_DAYS.get(match[2])
        return Moment(_minute(int(match[1]), 0, half), 1)
    return _hour(tokens, at)


def _hour(tokens: list[Token], at: int) -> Moment | None:
    """Return a time that is an hour in digits or words, with what says that it is one: `7 pm`, `seven o'clock`, `19 Uhr`."""
    token = tokens[at]
    hour = (
        int(token.text)
        if token.form is Form.NUMBER and token.text.isdigit() and len(token.text) < 3
        else NUMBERS.get(token.fold)
    )
    if hour is None or hour > 24:
        return None
    following = _fold(tokens, at + 1)
    if following in _HALF_DAYS:
        return Moment(_minute(hour, 0, _HALF_DAYS[following]), 2)
    if following in ("o'clock", "oclock"):
        return _of_half_day(tokens, at + 1, hour, 0, 1)
    return Moment(_minute(hour, 0), 2) if following == "uhr" else None


def _of_half_day(tokens: list[Token], at: int, hour: int, minute: int, before: int = 0) -> Moment:
    half = _HALF_DAYS.get(_fold(tokens, at + 1))
    more = 1 if half is not None or _fold(tokens, at + 1) == "uhr" else 0
    return Moment(_minute(hour, minute, half), before + 1 + more)


def _minute(hour: int, minute: int, half: int | None = None) -> str:
    """Return a time of day. Without a half of the day, an hour up to 12 may be either, and equals only itself."""
    if half is not None and hour <= 12:
        hour = hour % 12 + half
    return f"time {Fraction(hour) + Fraction(minute, 60)}"


# -- days as seen from today -----------------------------------------------------------------------------------------


def _relative(tokens: list[Token], at: int, language: str) -> Moment | None:
    fold, following = tokens[at].fold, _fold(tokens, at + 1)
    if f"{fold} {following}" in _PAIRS:
        return Moment(_PAIRS[f"{fold} {following}"], 2)
    if fold in _NEARBY and (following in _SPANS or following in _PARTS or following in _WEEKDAYS):
        what = _SPANS.get(following) or _PARTS.get(following) or f"weekday {_WEEKDAYS.get(following)}"
        return Moment(f"{_NEARBY[fold]} {what}", 2)
    if fold in _SPANS and following in _FOLLOWING:
        return Moment(f"{_FOLLOWING[following]} {_SPANS[fold]}", 2)
    if fold in _DAYS:
        return Moment(_DAYS[fold], 1)
    if (fold == "morgen" and language == "de") or (fold == "mañana" and _fold(tokens, at - 1) != "la"):
        return Moment("tomorrow", 1)
    if fold in _WEEKDAYS and not (fold in _DOUBTFUL_DAYS and not tokens[at].capital):
        return Moment(f"weekday {_WEEKDAYS[fold]}", 1)
    if fold in _PARTS:
        return Moment(_PARTS[fold], 1)
    return None
