"""Measures Waterclock beside its peers, on this machine, over loopback only.

`__main__` is the command line. What it runs without a name is the comparison: `comparison` (requests a second, latency, CPU,
memory, what a call waits longer at a steady rate, the start), `cuts` (how late a call is ended) and `hotpath` (one call
without sockets). The others have arguments of their own, and a `command` each: `growth` and `streams`, from one connection to ten
thousand; `storm`, not what a call costs, but what admission is for; `degrade`, what a ladder is for and what a cached answer
costs; `webhook` and `semantic`; and `plots`, which draws what was measured.

They share `procs`, which starts, measures and stops a process; `upstream`, the servers behind the proxies; `builds`, the two builds
of the sidecar; `machine`, what it was measured on; `percentile`; `targets`, what a figure must reach, and `memory`, what that of
several parts must; `report`, which prints; and `part`, what their commands have in common. `peers` holds one small file for each
proxy: how it is configured and started, and nothing else, so that what one row stands for can be read in one place.
"""
