"""Units, in the forms that people write them in, and how many of their measure's own each of them is."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple


class Unit(NamedTuple):
    """A unit: its measure, and how many of the measure's own it is."""

    measure: str
    size: Fraction = Fraction(1)

    @property
    def name(self) -> str:
        """What it is known by, whatever it is called."""
        return f"{self.measure} {self.size}"


# measure: size name name, size name name. A month is no number of days, and a pound of neither kind the other.
_TABLE: Final = """
time: 1 s sec secs second seconds sekunde sekunden seconde secondes segundo segundos, 1/1000 ms millisecond milliseconds
time: 1/1000000 µs us microsecond microseconds, 60 min mins minute minutes minuten minuto minutos
time: 3600 h hr hrs hour hours stunde stunden heure heures hora horas, 86400 day days tag tage tagen jour jours día días
time: 604800 week weeks woche wochen semaine semaines semana semanas
months: 1 month months monat monate monaten mois mes meses, 3 quarter quarters
months: 12 year years jahr jahre jahren ans année années año años, 120 decade decades, 1200 century centuries
length: 1 m metre metres meter meters mètre mètres, 1/100 cm centimetre centimetres centimeter centimeters
length: 1/1000 mm millimetre millimetres millimeter millimeters
length: 1000 km kms kilometre kilometres kilometer kilometers kilomètre kilomètres kilómetro kilómetros
inch: 1 inch inches, 12 ft foot feet, 36 yd yard yards
mile: 1 mile miles mi meile meilen millas
mass: 1 g gram grams gramm gramme grammes gramo gramos, 1/1000 mg milligram milligrams, 1/1000000 µg mcg microgram micrograms
mass: 1000 kg kilo kilos kilogram kilograms kilogramm, 1000000 t ton tons tonne tonnes
pound: 1 lb lbs pound pounds £ gbp quid
ounce: 1 oz ounce ounces
volume: 1 l litre litres liter liters litro litros, 1/1000 ml millilitre millilitres milliliter milliliters, 1/100 cl, 1/10 dl
cup: 1 cup cups
bytes: 1 b byte bytes, 1000 kb kilobyte kilobytes, 1000000 mb megabyte megabytes, 1000000000 gb gigabyte gigabytes
bytes: 1000000000000 tb terabyte terabytes, 1024 kib, 1048576 mib, 1073741824 gib, 1099511627776 tib
bits: 1 bit bits, 1000 kbit kilobit kilobits, 1000000 mbit megabit megabits, 1000000000 gbit gigabit gigabits
bits: 1000000000000 tbit terabit terabits
celsius: 1 celsius centigrade
fahrenheit: 1 fahrenheit
kelvin: 1 kelvin
degree: 1 ° degree degrees grad degré degrés grado grados
percent: 1 % percent pct prozent pourcent
USD: 1 $ usd dollar dollars bucks dólar dólares, 1/100 cent cents
EUR: 1 € eur euro euros
CHF: 1 chf franken francs
JPY: 1 ¥ jpy yen
CNY: 1 cny yuan
INR: 1 inr rupee rupees
speed: 1 kmh kph
mph: 1 mph
power: 1 w watt watts, 1000 kw kilowatt kilowatts
energy: 1 kcal calorie calories
"""


def _read(table: str) -> dict[str, Unit]:
    found: dict[str, Unit] = {}
    for line in table.strip().splitlines():
        measure, _, groups = line.partition(": ")
        for group in groups.split(", "):
            size, *names = group.casefold().split()
            found.update(dict.fromkeys(names, Unit(measure, Fraction(size))))
    return found


UNITS: Final = _read(_TABLE)
"""Units by their names, folded."""
COUNTED_UNITS: Final = frozenset(("time", "months", "degree", "percent", "speed", "mph", "power", "energy"))
"""Measures whose units say nothing without a number, or not for certain: `a second`, `per day`."""
