"""Chaos: a real sidecar between an upstream that misbehaves on command and clients that leave, killed in the middle of it.

    python -m trials chaos            100,000 calls and more, in 24 acts; minutes
    python -m trials chaos --short    some 3,000 calls in two acts, as CI runs it

Three sorts of processes stand around the sidecar (`processes`). The **upstream** (`upstream`, `misbehaving`) does with each
request what a header of it asks for, out of the list in `words`: it answers well, refuses, resets or stalls at each phase,
drips, lies about lengths, says garbage, closes idle connections, ends its side, answers before it has read, does what was
asked and says 503, or says so too late. It keeps an account of all that it has seen and done, each line before the deed. The
**clients** (`clients`, `caller`, drawn by `plan`) read, write, share budgets, send work again under the same key or another
one, make the same call twice at once, and leave at every phase, some of them with a RST; they judge each answer with h11
and byte for byte. The **story** (`story`) is told in acts: in each of them the sidecar (`sidecars`) is killed and started
again on its journal, drained, given another policy or a faulty one, or its disk is full (`disk`).

At the end of an act all is at rest, and its `evidence` (account, what clients heard, step records, what the control API
and a copy of the journal after a kill show) is judged by `checks`: pure functions, one a promise, whose numbers are those of
the list in the README of the trials. What may be repeated, and so reach the server twice, stands on top of
`checks.repeats`, and nowhere else.

**How to read what it prints.** The first table has a row for what the upstream was first asked to do with a call, and
counts how its step ended, by its record; `no record` are calls that the sidecar has never had whole, or whose record died
with it. The second has the checks: `exercised` counts how often each had something to look at, and one that never had makes
the run fail as a violation does. A violation is told with the call's id and all that client, server and log have on its
unit, and the folder with everything is kept.

`--seed` draws the same jobs, behaviours and events in the same order. When they meet is up to the machine, so a violation
that hangs on timing may take several runs to come again; its evidence does not need to.

What is not there: where no volume can be mounted, a full disk is played by a limit on the size of files, and the report
says so. An answer that nobody has asked for, and that arrives when the next request is under way already, is not among what
the upstream says later than in one breath with another one: in HTTP/1.1 nobody can tell it from the answer.
"""
