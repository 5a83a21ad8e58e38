"""Half load for an hour: does anything grow that should not?

    python -m trials soak               an hour
    python -m trials soak --for 20m     as long as you like, from 20 s on
    python -m trials soak --short       half a minute, which catches only what grows fast

First a few seconds of as much load as the driver can make say what the sidecar can do: calls a second, by the share of its
core that they took. Then half of that comes at a steady rate, of all kinds at once (`kinds`): reads, writes with their journal,
jobs that are opened under an id and closed or left to run out, cached answers, a ladder, event streams with a budget and
without one, tunnels, cuts, cut writes whose late answer comes and such whose answer never does, clients that leave, a port where
nobody listens, requests that are none, connections that are not kept, and a new policy every few minutes. Every answer must be
what its kind is to get.

What is kept is kept briefly (`policy`), so that every store with a bound is full early on, and what still rises after that
rises for another reason. Every second the sidecar is looked at (`samples`): what it holds in memory, descriptors, threads, tasks,
and what it says of itself at /metrics.

The table has a row for each series. `level` is the median of the last quarter; `rise` is that less the median of the quarter
before; `an hour` is the slope of the second half, as Theil and Sen draw it: the median of the slopes between all pairs of
points, which single outliers do not move. A series grows when both are above its bounds (`series`), and the run then ends with
status 1 and says which one and by how much. What follows the load of the moment (connections, steps in flight, the time of a
GET) is judged so in runs from ten minutes on; a machine that stands still for a second would make it jump in a short one.

When the load is over, everything that came with it must go: no step, lease, client, upstream connection or tunnel may be left,
nor more descriptors, tasks and threads than there were before, but for a few that a first call makes for good. The run ends
with status 1 when something stays, and when an answer was wrong.

The plot is docs/plots/soak.svg; `python -m bench plots` draws it again from trials/results/soak.json.
"""
