"""What the sidecar says of itself: one log line for each step, and the numbers that a scrape reads.

`steplog` is the log: `lines` makes its JSON, `sink` takes the lines to a file descriptor on a thread of its own, so
that a log reader who has stopped reading stops nothing else. `metrics` counts the same records, in plain integers, and
`ladders` what only those have that were answered with less, or out of the cache; `families` is the list of all that can be
read from a scrape, with its words, `sampled` one of them at one moment, and `exposition`, the only module here that knows
prometheus_client, writes it down. `observer` hands each record to both. `handler` sends what libraries
log the same way, and `walltime` is the time of day, for people only.

All of it is called on the event loop, once for each call or more, and nothing in it waits.
"""
