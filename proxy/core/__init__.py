"""The pure heart: words, arithmetic and decisions. No I/O and no clock; `now` is an argument, results are values.

Start with `calls` (the words), then `budget` (the arithmetic).

One call: `limits` reads what its request states, `routing` and `target` say where it goes, `kinds`, `graphql` and
`llm_endpoints` what it would do there. `decision` decides, `reasons` and `problem` turn an ending into an answer, `step`
is the record that remains.

The job: `ledger` keeps the budgets, `traces` what leads to them, `stages` their shares, `history` what a job has done,
`verdict` what is to be said of it; `entry` is the record of the request that it began with. `admission` says which calls
may start and which wait.

The work: `fingerprint` and `attempts` know a unit again, `retries` decides on another attempt, `writes` keeps what is in
doubt or given up, `verification` reads what a question about it has found. `exact_json` and `json_path` read bodies.

`policy` is the configuration as values, `opaque` times what nobody here can read, `simulation` plays a plan without a call.
"""
