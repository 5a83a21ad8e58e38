"""Random and mutated input to everything that is read from outside, each kept to what it promises.

    python -m trials fuzz                          all targets for five minutes, on two cores
    python -m trials fuzz requests --for 60s       one of them; `--runs N` counts inputs instead, and is the same on each machine
    python -m trials fuzz --short                  what CI runs: every kept input, then about 15 s
    python -m trials fuzz requests --input FILE    one input again, with the whole traceback
    python -m trials fuzz --list                   the targets, and what each of them holds

A target (`targets/`) is a pure function of bytes. It raises when a promise does not hold, and returns what it has seen: which
events, which reasons, which ways through the program. An input that shows something new joins the corpus of the run, and the
next inputs are mutated from it (`mutate`): so the target itself says what is new, and nothing traces the program. Everything
follows from `--seed`. `--engine atheris` lets the branches taken by the program decide instead, where atheris is installed.

Each failure is made as small as it stays the same failure (`minimise`), printed as a bytes literal, and saved to
`trials/results/`. Beside it stands the command that repeats it. What was found once is kept in `corpus/`, and
tests/trials/test_fuzz_corpus.py replays that on each change.

How to read the table: `inputs` were tried, `behaviours` are distinct sets of what a target has seen, `corpus` are the inputs that
showed them (of which `kept` are in git), and `failures` are distinct: by the promise or, for an exception, by its type and place.

`corpus/TARGET/` holds small inputs, named after what they show or, found by a run with `--keep`, by a hash. `seeding` wrote the
first ones, from the tables of the tests and the examples of the docs.
"""
