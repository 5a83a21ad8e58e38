"""`waterclock demo`: one job under one budget, six times, and one write in doubt. All of it is real.

`sidecar` runs `waterclock run` in a folder of its own; `tool` is the server that the calls go to; `plan` has the
numbers, the six variants, and what must come of each; `job` is the agent that runs and closes them; `doubt` is the
story of the write; `checks` compares what happened with what was planned; `table` shows it; `story` puts all of this in order.

Nothing here is used by the sidecar. The demo stands outside and looks at what anybody can see: the answers' headers,
the step log, the ledger's record of each job, the control API, and the tool's own count.
"""
