"""Waterclock: a sidecar proxy that holds a whole agent job to one time budget.

Every outbound HTTP call of a pod passes through it. It gives each call only what is left of the job's budget, starts
nothing when nothing is left, cuts what runs over, and says honestly what is known of a write that was cut, so that
nobody repeats it blindly.

The package is built in layers, and imports go downwards only (a lint contract holds it). From the bottom:

`values` is what its values are made of. `core` is the pure heart: the words, the arithmetic, the decisions, as frozen values. No I/O, no clock. The three parts
of a dispatcher are there: `core/admission` says which calls may start, `core/ledger` what each job has left and has
done, `core/writes` which of its units are in doubt or given up. `wire` is
HTTP/1.1: bytes to events and back. On these stand `config`, which reads the policy; `net`, which holds sockets,
connections and the pool; `store`, the journal of writes; and `observe`, the step log and the metrics. `degrade` knows how
to answer with less when time runs short. `dataplane` brings them together, and `admin` shows them to operators. Two more
processes belong to the product, and no sidecar ever imports them: `kube`, by which pods of a cluster get a sidecar, a policy
and their calls led to it, and `semantic`, the cache that knows what means the same. `app` is the running process, `tuning`
proposes shares from what was measured, `demo` plays the jobs of `waterclock demo`, `cli` is the command line.

To follow one call, read `dataplane/call.py` from top to bottom: consider, hold, admit, open, send, relay, settle; then
`dataplane/attempt.py` for its turn and its further attempts, `dataplane/rungs.py` for how it is answered with less, and
`dataplane/exchange.py` for all the ways it can end.
`core/decision.py` and `core/reasons.py` say why it went that way. The request that a job begins with is a call of its
own kind, in `dataplane/entry.py`.
"""

__version__ = "0.1.0"
