"""The pure heart: words, arithmetic and decisions. No I/O and no clock; `now` is an argument, results are values.

Start with `calls` (the words), then `budget` (the arithmetic). `limits` reads what a request states, `budgets`
finds the budget it belongs to, `decision` decides, `reasons` and `problem` turn an ending into an answer, `step` is
the record that remains. `kinds`, `graphql` and `llm_endpoints` say what a call would do to the other side,
`fingerprint` and `writes` know a repeated write again; `exact_json` reads bodies for both. `policy` and `routing` hold the configuration as values, `target` says where a
call goes, `opaque` times what nobody here can read.
"""
