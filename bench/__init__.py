"""Measures Waterclock beside its peers, on this machine, over loopback only.

`__main__` is the command line. It runs up to four parts, each a module that returns plain results:
`throughput` (requests a second, latency, CPU and memory), `cuts` (how late a call is ended) and `start`
(time to readiness and idle memory). They share `procs`, which starts, measures and stops a process, `load`,
which drives wrk with `load.lua`, and `upstream` and `silent`, the two servers behind the proxies.

`peers` holds one small file for each proxy: how it is configured and started, and nothing else, so that what one
row stands for can be read in one place. `floors` compares the results with what is promised, and `report` prints.

`storm` is a benchmark of its own: not what a call costs, but what admission is for. So is `degrade`: what a ladder is for,
and what a cached answer costs.
"""
