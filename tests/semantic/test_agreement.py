"""Two texts may have one answer only if all agrees that an embedding does not hear."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.semantic.agreement import AGREED, REASONS, WORDS_DIFFER, agree
from proxy.semantic.reading.facts import read

DIFFER = {
    "numbers differ": [
        ("A table for two", "A table for three"),
        ("A table for 12", "a table for 21"),
        ("Send 1,000 euros", "Send 1,000.50 euros"),
        ("Give me a third of it", "Give me a quarter of it"),
        ("the third floor", "the fourth floor"),
        ("400 mg a day", "400 g a day"),
        ("15% of it", "25% of it"),
        ("$50", "€50"),
        ("in 2 hours", "in 2 days"),
        ("take it twice", "take it once"),
        ("two hundred and five", "two hundred and fifty"),
        ("between 1 and 5", "between 1 and 15"),
        ("What is new in 3.1?", "What is new in 3.10?"),
        ("1.000 Euro", "1 Euro"),
        ("-5 degrees", "5 degrees"),
        ("Henry the Great, called Henry IV of France", "Henry the Great, called Henry VI of France"),
        ("fünfundzwanzig Leute", "fünfunddreißig Leute"),
        ("quatre-vingt personnes", "quatre personnes"),
        ("treinta y cinco", "treinta y seis"),
        ("order 007", "order 7"),
        ("a room for 2", "a room"),
        ("3 million", "3 billion"),
    ],
    "days or times differ": [
        ("on May 3", "on May 4"),
        ("on 2026-05-03", "on 2026-06-03"),
        ("on 3/5/2026", "on 5/3/2026"),
        ("am 3. Mai 2026", "am 3. Juni 2026"),
        ("in April", "in August"),
        ("today", "tomorrow"),
        ("this week", "next week"),
        ("next Monday", "last Monday"),
        ("on Friday", "on Thursday"),
        ("at 7 am", "at 7 pm"),
        ("at 7:00", "at 19:00"),
        ("at noon", "at midnight"),
        ("heute", "morgen"),
        ("What is the weather like?", "What is the weather like tomorrow?"),
    ],
    "negations differ": [
        ("it is up", "it is not up"),
        ("it works", "it doesn't work"),
        ("it always works", "it never works"),
        ("sugar", "no sugar"),
        ("mit Milch", "ohne Milch"),
        ("es geht", "es geht nicht"),
        ("cela marche", "cela ne marche pas"),
        ("funciona", "no funciona"),
    ],
    "literals differ": [
        ('What does "access denied" mean?', 'What does "disk full" mean?'),
        ("Run `ls -l`", "Run `ls -a`"),
        ("Call anna@firm.example", "Call anne@firm.example"),
        ("Read https://a.example/x", "Read https://a.example/y"),
        ("Show /etc/hosts", "Show /etc/passwd"),
        ("Show node-7", "Show node-8"),
        ("Call parse_args", "Call parse_known_args"),
        ("Use --force", "Use --dry-run"),
        ("Use version 1.2.3", "Use version 1.2.4"),
        ("Reach 10.0.0.1", "Reach 10.0.0.2"),
        ("Write C++", "Write C#"),
        ("Order AB12", "Order AB13"),
    ],
    "names differ": [
        ("the weather in Berlin", "the weather in Munich"),
        ("Call Anna now", "Call Ben now"),
        ("the stock of IBM", "the stock of SAP"),
        ("the weather in Berlin", "the weather"),
        ("Paris weather", "Oslo weather"),
        ("Das Wetter in Berlin ist schön", "Das Wetter in Hamburg ist schön"),
    ],
    "units differ": [
        ("the temperature in Celsius", "the temperature in Fahrenheit"),
        ("the price in euros", "the price in dollars"),
        ("the length in metres", "the length in kilometres"),
    ],
    "questions differ": [
        ("When does it arrive?", "Where does it arrive?"),
        ("How many are there?", "How long are they?"),
        ("Who broke it?", "Why is it broken?"),
    ],
    "opposites": [
        ("Turn on the light", "Turn off the light"),
        ("Switch the light on", "Switch the light off"),
        ("before lunch", "after lunch"),
        ("the maximum", "the minimum"),
        ("more than that", "less than that"),
        ("at least that", "at most that"),
        ("the cheapest", "the most expensive"),
        ("Is it possible?", "Is it impossible?"),
        ("install the app", "uninstall the app"),
        ("Check in", "Check out"),
        ("my brother", "my sister"),
        ("What is my name?", "What is your name?"),
        ("Is it down?", "Was it down?"),
        ("the red one", "the blue one"),
        ("Wie teuer ist das billigste?", "Wie teuer ist das teuerste?"),
    ],
    "signs differ": [("12 + 7", "12 * 7"), ("a < b", "a > b")],
    "order differs": [
        ("from Paris to London", "from London to Paris"),
        ("from rome to milan", "from milan to rome"),
        ("convert USD to EUR", "convert EUR to USD"),
        ("Is Rust faster than Go?", "Is Go faster than Rust?"),
        ("Did Anna pay Ben?", "Did Ben pay Anna?"),
        ("the dog bites the man", "the man bites the dog"),
        ("two adults and one child", "one adult and two children"),
        ("from 3 to 5", "from 5 to 3"),
        ("von Köln nach Bonn", "von Bonn nach Köln"),
        ("the cat in the hat", "the hat in the cat"),
        ("Cancel order 5, keep order 6", "Cancel order 6, keep order 5"),
        ("Raise it by 5%", "Raise it to 5%"),
        ("a book by Kafka", "a book about Kafka"),
        ("Does A imply B?", "Does B imply A?"),
    ],
    WORDS_DIFFER: [
        ("a joke", "a joke about cats"),
        ("restart the database", "restart the database replica"),
        ("两个人的桌子", "三个人的桌子"),
        ("столик на двоих", "столик на троих"),
    ],
}
AGREE = [
    ("A table for two", "a table for 2"),
    ("twenty-five", "25"),
    ("two hundred and fifty euros", "€250"),
    ("one and a half hours", "90 minutes"),
    ("half an hour", "30 minutes"),
    ("1 GiB", "1024 MiB"),
    ("1.5 m", "150 cm"),
    ("15%", "15 percent"),
    ("twice a day", "two times a day"),
    ("a dozen eggs", "12 eggs"),
    ("$5k", "5,000 dollars"),
    ("May 3rd", "3 May"),
    ("3 May 2026", "2026-05-03"),
    ("May 3, 2026", "3.5.2026"),
    ("3 pm", "15:00"),
    ("7 p.m.", "7pm"),
    ("tonight", "this evening"),
    ("It doesn't work", "It does not work"),
    ("cannot", "can't"),
    ("from Paris to London", "to London from Paris"),
    ("between Anna and Ben", "between Ben and Anna"),
    ("the weather in berlin", "The weather in Berlin"),
    ("THE WEATHER IN BERLIN NOW", "the weather in Berlin now"),
    ("What does `ls` do?", "What does ls do?"),
    ('the error "Disk Full"', 'the error "disk full"'),
    ("Anna's book", "the book of Anna"),
    ("Which one is it?", "Which is it?"),
    ("the Second World War", "World War II"),
    ("100-200", "100 to 200"),
    ("What time is it?", "When is it?"),
    ("Fünf Leute", "5 Leute"),
    ("Züge von Köln nach Bonn", "Züge nach Bonn von Köln"),
    ("ＡＢＣ１２", "ABC12"),
    ("don’t", "don't"),
    ("a\u200bb", "ab"),
]


@pytest.mark.parametrize(
    ("why", "one", "other"), [(why, *pair) for why, pairs in DIFFER.items() for pair in pairs]
)
def test_what_differs_is_named(why: str, one: str, other: str) -> None:
    """Whichever of them was asked first."""
    assert agree(read(one), read(other)).why == why
    assert agree(read(other), read(one)).why == why


@pytest.mark.parametrize(("one", "other"), AGREE)
def test_other_forms_of_the_same_agree(one: str, other: str) -> None:
    """And no words are left that only one of them has."""
    assert agree(read(one), read(other)) == (True, AGREED, (), ())


def test_words_that_may_mean_the_same_are_left_to_the_embedding() -> None:
    """They are told, as they stand in either text."""
    verdict = agree(read("Where is the nearest physician of Oslo?"), read("Where is Oslo's closest medic?"))
    assert verdict == (True, AGREED, ("nearest", "physician"), ("closest", "medic"))


def test_every_reason_is_shown_by_an_example() -> None:
    """A comparison that nothing fails would be none."""
    assert set(REASONS) == set(DIFFER)


# -- properties ------------------------------------------------------------------------------------------------------

PIECES = (
    *(text for pairs in DIFFER.values() for pair in pairs for text in pair),
    *(text for pair in AGREE for text in pair),
    *"\"'`´“”«»/\\@#-.,:;!?()[]{}$€%+*=<>~&|\n\t\0",
    "a",
    "I",
    "one",
    "and",
    "hundred",
    "٣",
    "½",
    "İ",
    "ß",
    "\ud800",
)
ANY_TEXT = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=6).map(" ".join))


@given(ANY_TEXT)
def test_a_text_agrees_with_itself(text: str) -> None:
    """Whatever it is, it can be read, and nothing of it differs. Only words of another script are never sure."""
    assert agree(read(text), read(text)) == (True, AGREED, (), ())


@given(ANY_TEXT, ANY_TEXT)
def test_which_was_asked_first_makes_no_difference(one: str, other: str) -> None:
    """What may be answered from the other may be answered the other way round."""
    there, back = agree(read(one), read(other)), agree(read(other), read(one))
    assert (there.agrees, there.why, there.asked, there.kept) == (
        back.agrees,
        back.why,
        back.kept,
        back.asked,
    )


@given(
    st.integers(0, 999_999),
    st.integers(0, 999_999),
    st.sampled_from(("{} of them", "for {}", "{} euros", "{:,} days")),
)
def test_two_numbers_agree_only_if_they_are_one(one: int, other: int, where: str) -> None:
    """In whatever form they are written."""
    assert agree(read(where.format(one)), read(where.format(other))).agrees == (one == other)


WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]  # fmt: skip
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spelled(number: int) -> str:
    """A number below a million in English words."""
    if number >= 1_000:
        rest = f" {spelled(number % 1_000)}" if number % 1_000 else ""
        return f"{spelled(number // 1_000)} thousand{rest}"
    if number >= 100:
        rest = f" and {spelled(number % 100)}" if number % 100 else ""
        return f"{spelled(number // 100)} hundred{rest}"
    if number >= 20:
        return TENS[number // 10 - 2] + (f"-{spelled(number % 10)}" if number % 10 else "")
    return WORDS[number]


@given(st.integers(0, 999_999), st.integers(0, 999_999))
def test_words_and_digits_are_one_number(one: int, other: int) -> None:
    """Up to a million."""
    assert agree(read(f"{spelled(one)} sheep"), read(f"{one} sheep")).agrees
    assert agree(read(f"{spelled(one)} sheep"), read(f"{spelled(other)} sheep")).agrees == (one == other)


@given(st.from_regex(r"[A-Z][a-z]{3,9}", fullmatch=True), st.from_regex(r"[A-Z][a-z]{3,9}", fullmatch=True))
def test_names_agree_only_if_they_are_one(one: str, other: str) -> None:
    """Whoever bears them: what no list has is a name by its capital."""
    verdict = agree(read(f"Please tell me where X{one} lives"), read(f"Please tell me where X{other} lives"))
    assert verdict.agrees == (one.casefold() == other.casefold())


@given(st.text(alphabet="abcdef /'\"`.-_@#1", max_size=4_096))
def test_any_text_is_read_in_time(text: str) -> None:
    """No part of the expression goes back over what it has read: that would take minutes, and the test would be ended."""
    read(text)
