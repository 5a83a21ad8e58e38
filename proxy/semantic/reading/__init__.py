"""What a text says that an embedding does not hear: its numbers, dates, negations, names, quotations and opposites.

`tokens` takes a text apart, once, from left to right. `amounts` and `dates` make numbers, units, days and times of the
tokens; `lexicon` holds the words that all of this knows, in English, and the commonest of German, French and Spanish;
`facts` puts it together.

All of it is pure. What is not known here (a word of another language, a name in small letters) is an ordinary word, and
ordinary words are compared too.
"""
