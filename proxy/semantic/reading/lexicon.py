"""Words of a text's matter that are known here: ways to say the same, and words that exclude one another.

English first; of German, French and Spanish the commonest. Every word is folded (`str.casefold`). A word that is missing
here costs at most an answer that could have been reused, or is left to the embedding.
"""

from __future__ import annotations

from typing import Final

# Ways to say the same, mostly the verbs of requests.
SYNONYMS: Final = {
    word: group.split()[0]
    for group in (
        "book reserve reservation booking",
        "list display print",
        "find search look",
        "buy purchase order",
        "cost price charge fee",
        "shop store",
        "parcel package",
        "luggage baggage",
        "doctor physician",
        "enable activate",
        "disable deactivate",
        "sum add",
        "available stock",
        "late delayed delay",
        "large big",
        "small little tiny",
        "quick fast",
        "appointment meeting",
        "delete remove erase",
        "begin start",
        "end finish",
        "picture photo image",
        "mobile cellphone smartphone phone",
        "car auto automobile",
        "film movie",
        "mail email",
        "error fault",
        "repair fix",
        "ill sick",
        "ticket fare",
        "holiday vacation",
        "flat apartment",
        "author writer",
        "ship deliver delivery shipping",
        "current present",
        "wetter météo temps tiempo",
        "child children kid kids",
        "man men",
        "woman women",
        "person people",
        "foot feet",
        "mouse mice",
        "contraseña clave",
    )
    for word in group.split()
}

PHRASES: Final = {
    **dict.fromkeys(("turn on", "switch on", "turns on", "turned on", "turning on"), "enable"),
    **dict.fromkeys(("turn off", "switch off", "turns off", "turned off", "turning off"), "disable"),
    **dict.fromkeys(("look for", "search for"), "find"),
    **dict.fromkeys(("shut down",), "stop"),
}
"""Two words that are one."""

# Each line is an axis; what stands between bars excludes what stands beside it.
_AXES: Final = """
    my mine myself am_i i_am i'm | your yours yourself are_you you_are you're | he him his | she her hers | their theirs
    was were did had wasn't weren't didn't hadn't | is are am will shall isn't aren't won't it's what's
    must have_to has_to | may might
    up upward upwards raise raised | down downward downwards
    on | off
    in | out
    before bevor vorher avant antes | after afterwards nachdem nachher après después
    more at_least above over greater exceed exceeds exceeding mehr plus más | less at_most fewer below under weniger moins menos
    max maximum maximal highest höchste | min minimum minimal lowest niedrigste
    oldest older old älteste älter alt ancien | newest newer new newly neueste neuer neu récent young younger youngest
    earliest early earlier früh früher frühestens | latest late later spät später spätestens
    large larger largest big bigger biggest größte größer groß | small smaller smallest little tiny kleinste kleiner klein
    long longer longest | short shorter shortest
    best better good besser beste gut meilleur mejor | worst worse bad schlechteste schlechter schlecht pire peor
    fast faster fastest quick quickly schnell schneller schnellste | slow slower slowest slowly langsam langsamer
    cheap cheaper cheapest inexpensive billig billiger billigste billigsten günstig günstigste barato barata | expensive dear costly teuer teurer teuerste teuersten cher caro cara
    high higher hoch | low lower niedrig
    hot hotter hottest warm warmer heiß chaud chaude caliente | cold colder coldest cool cooler kalt kälter froid froide frío fría
    add adds added adding hinzufügen ajouter añadir append | remove removes removed delete deletes deleted entfernen löschen supprimer quitar eliminar subtract multiply divide
    create creates created creating erstellen créer crear | delete destroy remove löschen supprimer borrar
    enable enabled enables activate activated einschalten aktivieren activer allumer activar encender | disable disabled disables deactivate deactivated ausschalten deaktivieren désactiver éteindre desactivar apagar
    increase increases increased raise raises grow | decrease decreases decreased reduce reduces lower shrink drop
    ascending aufsteigend croissant ascendente | descending absteigend décroissant descendente
    import imports imported importing | export exports exported exporting
    upload uploads uploaded | download downloads downloaded
    encode encodes encoded | decode decodes decoded
    encrypt encrypted | decrypt decrypted
    push | pull
    read reads reading lesen lire leer | write writes writing schreiben écrire escribir
    send sends sent sending | receive receives received receiving get
    buy buys bought purchase kaufen acheter comprar | sell sells sold verkaufen vendre vender
    lend lends lent | borrow borrows borrowed
    earn earns earned income revenue verdienen | spend spends spent expense expenses ausgeben
    win wins won gain | lose loses lost
    arrive arrives arrived arrival arriving ankunft ankommen arrivée llegada llega | depart departs departed departure leave leaves leaving abfahrt abfliegen départ salida sale
    enter entrance entry eingang | exit leave ausgang
    input inputs | output outputs
    inbound incoming ingress | outbound outgoing egress
    internal inside innen | external outside außen
    indoor indoors | outdoor outdoors
    left links gauche izquierda izquierdo | right rechts droite derecha derecho
    north northern norden nord norte | south southern süden sud sur | east eastern osten est este | west western westen ouest oeste
    top upper oben | bottom unten
    front vorne | back rear hinten
    forward forwards | backward backwards
    sunrise rise rises dawn | sunset set sets dusk
    rise rises rising | fall falls falling
    mother mum mom mutter mère madre | father dad vater père padre | sister schwester soeur hermana | brother bruder frère hermano | son sohn fils hijo | daughter tochter fille hija | wife frau femme | husband mann mari | uncle | aunt | grandmother grandma | grandfather grandpa | friend freund ami amigo
    man men male boy | woman women female girl
    true | false
    yes ja oui sí | no nein
    pass passes passed succeed succeeds succeeded success successful | fail fails failed failure
    accept accepts accepted approve approved allow allowed allows permit permitted | reject rejects rejected decline declined deny denied denies forbid forbidden
    empty leer vide vacío | full voll plein lleno
    wet | dry
    heavy heavier | light lighter
    public | private
    local | remote
    client clients | server servers
    summer sommer été verano | winter hiver invierno | spring frühling printemps primavera | autumn herbst automne otoño
    alive living | dead
    married | single | divorced
    past previous former | upcoming future next
    online | offline
    credit | debit
    savings saving | checking current
    gross brutto | net netto
    profit profits gain | loss losses
    deposit deposits | withdraw withdrawal withdrawals
    staging | production prod | development dev | testing test
    red rot rouge rojo roja | blue blau bleu azul | green grün vert verde | yellow gelb jaune amarillo | black schwarz noir negro | white weiß blanc blanco | orange | purple violet lila | pink rosa | brown braun | grey gray grau
    small | medium | large
    breakfast frühstück desayuno | lunch mittagessen almuerzo | dinner supper abendessen cena
    synchronous sync | asynchronous async
    horizontal horizontally | vertical vertically
    open opens opened opening öffnen geöffnet öffnet auf ouvrir ouvert abrir abierto | close closes closed closing shut schließen geschlossen schließt fermer fermé cerrar cerrado
    start starts started starting begin begins began beginning beginnt beginnen anfangen commencer empezar | stop stops stopped stopping end ends ended ending finish finishes finished endet enden finir terminar
    restart restarts reboot | stop stops shutdown
    connect connected | disconnect disconnected
    book reserve reservation | cancel cancels cancelled canceled
    accelerate | brake
    love like likes | hate hates dislike dislikes
    mandatory required | optional
    first erste ersten erster premier première primero primera | last letzte letzten letzter dernier dernière último última
    always immer toujours siempre | never nie jamais nunca
    everything everybody everyone all alles alle tout tous todo todos | nothing nobody none
    minimum least | maximum
    vegetarian | vegan
    teacher | student
    employer | employee
    lender | borrower
    buyer | seller
    question | answer
    cause causes | effect effects
    advantage advantages benefit benefits pros | disadvantage disadvantages drawback drawbacks cons
    strength strengths | weakness weaknesses
    male | female
    body | head
    singular | plural
    prefix | suffix
    row rows | column columns
    acid | alkaline base
    import | export
    hour hourly | day daily | week weekly | month monthly | year yearly annual annually
    plus addition | minus subtraction | times multiplication
    thumbnail | original
    can could may might kann könnte darf puede puedo peut peux | must muss müssen have_to has_to doit dois debe debo | should ought soll sollte devrait devrais debería
    cat cats | dog dogs
"""


def _opposites() -> dict[str, tuple[tuple[int, int], ...]]:
    found: dict[str, set[tuple[int, int]]] = {}
    for axis, line in enumerate(_AXES.casefold().strip().splitlines()):
        for pole, group in enumerate(line.split("|")):
            for word in group.split():
                found.setdefault(word.replace("_", " "), set()).add((axis, pole))
    return {word: tuple(sorted(places)) for word, places in found.items()}


OPPOSITES: Final = _opposites()
"""For a word, or two: the axes that it lies on, and at which end of each."""
