"""The journal of writes: what is known of every non-idempotent write, kept where a crash of the sidecar cannot take it.

`journal` is what the data plane holds: it takes records from the event loop and says when they are durable. `writer`
is the thread behind it, the only one that waits for the disk. `database` is the file itself: one connection, one
transaction for each group. `schema` makes or checks a file, `rows` turns records into rows and back, `lock` keeps a
second process out, `errors` turns what SQLite and the system say into a problem and a remedy. `offline` is for the
command line, when no sidecar runs.

What is stored outlives what, and why, stands at the top of `journal`.
"""
