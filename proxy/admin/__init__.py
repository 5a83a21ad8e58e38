"""What operators, probes and scrapers talk to: two small HTTP servers, apart from the data plane's ports.

`health` is the metrics port, open to the cluster: `/metrics`, `/healthz`, `/readyz`. `control` is the control API, on
the loopback only: the budgets of jobs, writes of unknown effect and what became of them, units that were given up, and
the policy in force. `endpoints` is the table of what it has; `budgets_api` and `writes_api` answer for its rows, `asked`
reads the requests, `answers` writes the answers, `guard` keeps browsers out, and `api` puts them together. `openapi`
makes the contract from the same table and from `schemas`.

`views` and `budget_views` give all that is shown its JSON, for the API and the command line alike. `problems` turns an
error into an answer that says what helps. `server` listens, with a bound on what a port can cost.

What is shown and done here belongs to others; the protocols `health.Health` and `control.Control` say what they owe.

Every pod pays for what is loaded here, so little is loaded before it is needed. The control API is served by aiohttp
(13 MiB, a tenth of a second), which a sidecar needs only when an operator calls: `deferred` loads it with the first
connection, on a thread that `aside` makes. The probes, which call all the time, are served by `plain`, which is as
much of a server as they need. prometheus_client comes with the first scrape.
"""
