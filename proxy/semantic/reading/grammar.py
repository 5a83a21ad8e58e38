"""Words of a text's form: by them a language is told, a thing's part in the sentence, what is asked for, and what is denied.

English, and the commonest of German, French and Spanish. Every word is folded (`str.casefold`). What is a word of form in one
language may be one of matter in another (German `hat`, `man`), so each language has its own; what denies counts in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.casefold().split())


def _roles(*groups: str) -> dict[str, str]:
    """Return prepositions with the part that they give: the first of their group."""
    return {word: group.split()[0] for group in groups for word in group.casefold().split()}


@dataclass(frozen=True, slots=True)
class Language:
    """What is known of a language.

    `marks`: its commonest words, which tell it. `form`: words that carry nothing of the matter. `articles`: what may stand
    between a preposition and its word. `prepositions`: which part a word has under them.
    """

    marks: frozenset[str]
    form: frozenset[str]
    articles: frozenset[str]
    prepositions: dict[str, str]


ENGLISH: Final = Language(
    marks=_words("the a an is are my i do does how what for with to of and in on can you when where please this it"),
    form=_words("""
        a an the this that these those there here it its it's
        i me my mine myself you your yours we us our ours he him his she her hers they them their theirs
        am is are was were be been being do does did done doing have has had having
        will would shall should can could may might must ought let lets let's
        i'm i'd i'll i've you're you'd you'll you've we're we'd we'll we've they're they'd they'll they've he's she's
        that's there's here's what's who's where's when's how's why's
        what which who whom whose when where why how whether if so as than then
        of in on at to from by for with about into onto over under through during within between among per via
        and or but also too just even still yet already again ever any some such each every
        up down out off back while
        please kindly thanks thank hello hi hey dear ok okay well now currently current moment actually really very quite
        want wants wanted like need needs needed required necessary know wonder wondering
        tell give gives show shows get gets got made offer offers offered come comes coming happen happens happening
        explain describe say says help going go goes take takes make makes using use
        one ones way ways thing things something anything exactly possible able lot much many more most
    """),
    articles=_words("a an the my your our their his her its this that these those"),
    prepositions=_roles(
        "from", "to into towards", "than", "by", "before", "after", "against", "with", "for", "in", "about", "until till", "since",
        "of", "on", "at", "near", "over", "under", "around", "within", "via", "per", "like", "as", "minus", "during", "instead",
    ),
)  # fmt: skip
GERMAN: Final = Language(
    marks=_words("""
        der die das den dem ein eine einen einem einer und ist sind ich mein meine wie wird für auf mit nicht kein zu zum zur von
        nach bitte warum wann welche kann wenn im am
    """),
    form=_words("""
        der die das den dem des ein eine einen einem einer eines und oder aber ist sind war waren sein wird werden wurde
        ich mich mir mein meine meinen meinem meiner du dich dir dein deine sie ihr ihre ihren wir uns unser unsere es er ihn
        habe hat haben hatte kann können könnte muss müssen soll sollte möchte möchten will darf bitte
        was wer wen wem wie wo wann warum wieso weshalb welche welcher welches welchen welchem ob wenn falls dass
        in im am an auf aus bei mit nach von vom zu zum zur für über unter um bis seit durch gegen als auch noch schon so sehr
        mal gibt geht man sich danke hallo
    """),
    articles=_words("der die das den dem des ein eine einen einem einer mein meine meinen meinem meiner"),
    prepositions=_roles(
        "von vom", "nach zu zum zur", "als", "durch", "vor", "gegen", "mit", "für", "in im", "über", "bis", "seit", "am an", "auf",
        "bei", "um", "aus",
    ),
)  # fmt: skip
FRENCH: Final = Language(
    marks=_words("""
        le les une des du et est sont je mon ma mes comment quel quelle pour sur avec où ne pas à ce cette puis fait demain qui dans
    """),
    form=_words("""
        le la les l un une des du de d au aux ce cet cette ces et ou mais est sont était être sera fera
        je me mon ma mes tu te ton ta tes il elle on nous notre nos vous votre vos ils elles leur leurs j m t s c qu
        ai as a avons avez ont peux puis peut pouvez veux voudrais dois faut fait faire va
        que qui quoi quel quelle quels quelles où quand comment pourquoi combien si
        en dans sur sous avec pour par chez vers à y se s'il svp plaît merci bonjour
    """),
    articles=_words("le la les l un une mon ma mes ce cette"),
    prepositions=_roles(
        "de d", "à au aux vers", "que", "par", "avant", "après", "contre", "avec", "pour", "en dans", "sur", "depuis", "des du", "chez",
    ),
)  # fmt: skip
SPANISH: Final = Language(
    marks=_words("""
        el los las una unos del y es son mi mis cómo qué para con por está cuál dónde quiero puedo al más mañana hay
    """),
    form=_words("""
        el la los las lo un una unos unas de del a al en este esta estos estas ese esa y o u pero es son era está están ser será
        yo mi mis tú tu tus su sus él ella nosotros nuestro nuestra ustedes le les me te se nos si no
        he ha han tengo tiene tienen puedo puede pueden quiero quisiera debo debe hay hace hacer hará
        qué quién quiénes cuál cuáles cómo dónde cuándo cuánto cuánta cuántos cuántas porqué que
        con por para sobre entre hasta desde muy también favor gracias hola
    """),
    articles=_words("el la los las una mi mis tu su"),
    prepositions=_roles(
        "de desde", "a al hacia", "que", "por", "contra", "con", "para", "en", "sobre", "hasta", "del"
    ),
)
LANGUAGES: Final = {"en": ENGLISH, "de": GERMAN, "fr": FRENCH, "es": SPANISH}
"""By the code of each. Where nothing tells, it is the first."""

DIRECTIONS: Final = _words("""
    from to by than about before after until since against over under von nach als durch vor gegen bis seit à par avant après
    contre depuis a por hasta
""")
"""Prepositions, as parts, that exclude one another: what stands under one of them is not meant under another."""
JOINING: Final = _words("and or nor und oder et ou y e u & , / vs versus between zwischen entre among")
"""What lists things beside each other."""
BEFORE_GERMAN_NAMES: Final = _words("in nach von aus und bei mit")
"""After these, a German word with a capital is a name: a noun would have its article."""

NEGATIONS: Final = _words("""
    not no never without none nobody nothing nowhere neither nor cannot can't won't don't doesn't didn't isn't aren't wasn't
    weren't haven't hasn't hadn't wouldn't shouldn't couldn't mustn't needn't mightn't shan't ain't cant dont doesnt didnt
    isnt arent wasnt wont unable lacking except excluding
    nicht kein keine keinen keinem keiner keines nie niemals nichts niemand ohne weder außer
    jamais aucun aucune rien sans personne ni
    sin nunca jamás ningún ninguno ninguna nada nadie tampoco non senza
""")
FRENCH_HALVES: Final = (_words("ne n"), _words("pas jamais aucun aucune rien plus personne ni"))
"""French denies with two words, and sometimes drops the first: the pair counts once."""
DENYING_PREFIXES: Final = (
    "un",
    "dis",
    "in",
    "im",
    "ir",
    "il",
    "non",
    "de",
    "dés",
    "des",
    "a",
    "ent",
    "hyper",
    "hypo",
)
"""Before a word they make its opposite: possible, impossible; install, uninstall."""
TOO_LITTLE, TOO_MUCH = "hypo", "hyper"
"""And one of these makes the opposite of what the other makes."""

ENDINGS: Final = (
    ("'s", 1, ""),
    ("ing", 4, ""),
    ("ies", 3, "y"),
    ("ed", 4, ""),
    ("es", 4, ""),
    ("s", 3, ""),
    ("e", 3, ""),
)
"""Endings that change nothing of a word's matter, how much of it must be left, and what stands in their place."""
EMPTY_PHRASES: Final = frozenset(("right now", "best way", "best ways", "of course", "as well", "each other"))

# What is asked for. "How" and "what" ask for anything.
QUESTIONS: Final = {
    **dict.fromkeys(("who", "whom", "whose", "wer", "wen", "wem", "qui", "quién", "quiénes"), "who"),
    **dict.fromkeys(
        ("when", "wann", "quand", "cuándo", "what time", "which time", "quelle heure", "wieviel uhr"), "when"
    ),
    **dict.fromkeys(("where", "wo", "wohin", "woher", "où", "dónde"), "where"),
    **dict.fromkeys(("why", "warum", "wieso", "weshalb", "pourquoi", "how come"), "why"),
    **dict.fromkeys(("how many", "wie viele", "combien", "cuántos", "cuántas"), "how many"),
    **dict.fromkeys(("how much", "wie viel", "wieviel", "cuánto", "cuánta"), "how much"),
    **dict.fromkeys(("how long", "wie lange"), "how long"),
    **dict.fromkeys(("how often", "wie oft"), "how often"),
    **dict.fromkeys(("how far", "wie weit"), "how far"),
}

_ALL_FORM: Final = frozenset().union(*(language.form for language in LANGUAGES.values()))

# How a sentence may begin, so that its capital is no name's.
OPENERS: Final = (
    _ALL_FORM
    | NEGATIONS
    | _words("""
    add allow ask answer approve book build buy call cancel change check choose clear close compare compute configure confirm
    convert copy count create cut decrease define delete deploy describe disable display do draw edit enable end estimate
    evaluate explain export extend fetch fill filter find fix follow format generate give go good happy help hide import
    increase install invite keep kill launch list load lock log look lower make mark merge move name need new next offer open
    order pause pay place plan play post print provide pull push put raise rate read rebook recommend record reduce refund
    remind remove rename repeat replace reply report request reschedule reserve reset restart restore resume return reverse
    rewrite roll run save say scale schedule search see select sell send set share show silence sort split start stop
    suggest summarise summarize switch take tell test thank transfer translate try turn unlock unsubscribe update upgrade
    upload use validate view wait wake weather what's wish withdraw work write
    after all because before besides during every first flights hotels trains if last like more most near once
    since some sometimes today tomorrow yesterday tonight until while yes zeige zeig buche storniere suche finde schreibe
    montre affiche réserve annule cherche trouve muestra reserva cancela busca encuentra escribe
""")
)
