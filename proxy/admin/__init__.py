"""What operators, probes and scrapers talk to: two small HTTP servers, apart from the data plane's ports.

`health` is the metrics port, open to the cluster: `/metrics`, `/healthz`, `/readyz`. `control` is the control API, on
the loopback only: writes of unknown effect and what became of them, and the policy in force; `api` has its endpoints,
and `guard` keeps browsers out of it. `views` gives all that is shown its JSON, for the API and the command line alike.
`problems` turns an error into an answer that says what helps. `server` listens, with a bound on what a port can cost.

What is shown and done here belongs to others; the protocols `health.Health` and `control.Control` say what they owe.

Every pod pays for what is loaded here, so little is loaded before it is needed. The control API is served by aiohttp
(13 MiB, a tenth of a second), which a sidecar needs only when an operator calls: `deferred` loads it with the first
connection, on a thread that `aside` makes. The probes, which call all the time, are served by `plain`, which is as
much of a server as they need. prometheus_client comes with the first scrape.
"""
