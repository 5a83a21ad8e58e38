"""`waterclock demo-degrade`: a chat with retrieval that has less and less time, and answers all the same. All of it is real.

`model` is the language model and `search` the retrieval that a question goes to, both as slow as they are told to be;
`service` runs `waterclock cache`; `plan` has the numbers, the questions, and what must come of each; `chat` is the agent
that asks them; `checks` compares what happened with what was planned; `table` shows it; `story` puts all of this in order.

As in the main demo, nothing here is used by the sidecar. The model is also what the tests and the benchmark of the ladder
call.
"""
