"""Pairs that were written to be mistaken for one another: none means the same, and whichever is kept, the other does not find it."""

from __future__ import annotations

import pytest

from proxy.core.units import MINUTE
from proxy.semantic.embeddings.local import LocalEmbeddings
from proxy.semantic.service import Missed
from proxy.semantic.worker import Worker
from tests.semantic.shelves import serving

LOW = 0.5
"""Lower than anybody should write it: the similarity alone would take nearly all of these for the same."""

NONE_THE_SAME = [
    # A word that only one text has, with a capital because it opens the sentence.
    ("Vegan lasagna recipe", "Lasagna recipe"),
    ("Pediatric dose of ibuprofen", "Dose of ibuprofen"),
    ("Avoid sugar in the morning?", "Sugar in the morning?"),
    ("Forget the pin code of the card", "Pin code of the card"),
    ("Refuse the transfer of the money to my landlord", "Transfer the money to my landlord"),
    ("Simulate: transfer the money to my landlord", "Transfer the money to my landlord"),
    ("Hypothetical: delete all users of the database", "Delete all users of the database"),
    ("Former presidents of France", "Presidents of France"),
    ("Rarely used drugs against malaria", "Used drugs against malaria"),
    ("Cheapest flights to Rome", "Flights to Rome"),
    ("Generic: tell me the side effects of Zoloft", "Tell me the side effects of Zoloft"),
    (
        "Explain the plan for the migration of the cluster",
        "Execute the plan for the migration of the cluster",
    ),
    ("Não quero cancelar o voo", "Quero cancelar o voo"),
    ("Nem kérek cukrot", "Kérek cukrot"),
    ("Ik wil geen suiker in de koffie", "Ik wil suiker in de koffie"),
    # Symbols.
    ("👍", "👎"),
    ("I feel 😀 today", "I feel 😢 today"),
    ("✅ approve", "❌ approve"),
    ("rate it ★★★★★", "rate it ★"),
    ("go ← there", "go → there"),
    ("is a ∈ S", "is a ∉ S"),
    ("p ∧ q", "p ∨ q"),
    ("¬p is true", "p is true"),
    ("the root √16", "the root 16"),
    ("C♯ minor", "C♭ minor"),
    # Digits above and below the line.
    ("What is x² for x = 3?", "What is x2 for x = 3?"),
    ("What is 2⁵?", "What is 25?"),
    ("the ion of H₂", "the ion of H2"),
    # Capitals that say something.
    ("What does grep -v do?", "What does grep -V do?"),
    ("What does ls -l do?", "What does ls -L do?"),
    ("Show /data/Log", "Show /data/log"),
    ("Explain the name max_size", "Explain the name MAX_SIZE"),
    ("How many MB are in 3 GB?", "How many Mb are in 3 Gb?"),
    ("A line of 5Mb a second", "A line of 5MB a second"),
    # What may be, what must be and what should be.
    ("Can I return the shoes?", "Must I return the shoes?"),
    ("Should I sell the stock?", "Can I sell the stock?"),
    ("Darf ich hier parken?", "Muss ich hier parken?"),
    ("¿Puede salir el paciente?", "¿Debe salir el paciente?"),
    ("Le patient peut sortir", "Le patient doit sortir"),
    # Beginnings that turn a word over.
    ("typical reaction", "atypical reaction"),
    ("symmetric encryption", "asymmetric encryption"),
    ("Sperre die Karte", "Entsperre die Karte"),
    ("signs of hypertension", "signs of hypotension"),
    # Brackets.
    ("What is (2 + 3) * 4?", "What is 2 + (3 * 4)?"),
    ("a * (b + c)", "(a * b) + c"),
]


@pytest.mark.parametrize(("one", "other"), NONE_THE_SAME)
async def test_none_finds_the_other(local: LocalEmbeddings, worker: Worker, one: str, other: str) -> None:
    for asked, kept in ((one, other), (other, one)):
        service = serving(local, worker)
        await service.keep("p", kept, b"entry", MINUTE)
        assert isinstance(await service.find("p", asked, LOW), Missed)
