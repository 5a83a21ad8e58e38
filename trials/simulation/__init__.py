"""The sidecar in deterministic simulation: one seed, and everything that happens follows from it.

    python -m trials simulation                  seeds from a fresh base, for a minute, on all cores
    python -m trials simulation --short          about 15 s from a fixed base, and all seeds that were kept (CI)
    python -m trials simulation --seed 7         one seed; with --trace what happened in it, with --only PATTERN some of it

What runs is the sidecar itself: `proxy.app.sidecar.Sidecar` from its start on a journal to its drain and exit, with the data
plane, dialer, pool, ledger, scheduler, book, journal, verifier, cache, step log and metrics. What it touches is simulated:

    clock, draws     time jumps from one event to the next; each part of a run has a stream of draws of its own
    loop, timers     the event loop of one process: order is drawn where asyncio promises none, turns take time, timers are early
    pipes            connections as kernels have them: latency, segments, buffers, ends, resets
    transport        the sidecar's end of one, as uvloop's; network: ports, hosts, names, and what the kernel knows of peers
    disk             the real store code on a real SQLite file, its thread replaced by events, with commits that fail or are stuck
    seams            the names in the sidecar's modules that are exchanged for all this while a run lasts
    process          one life of the sidecar; killed, its connections are closed by the kernel and the disk keeps what it has
    world            one run: it starts processes again, and lets everybody leave in the end

    behaviour, server    what each request meets, and the truth: what arrived, what was carried out, how often (`model`)
    actors, agents       jobs of several calls by clients of every kind: proxied, tunnelled, redirected, entry requests
    operators            who look at writes in doubt and decide about them, at the desk of the control API
    misfortunes          kill -9, SIGTERM, reloads, disks, moods of servers, name servers; some wait until a write has just left
    policies             the routes of the hosts, drawn for each run and each reload

What has to hold is in `checks` (the sidecar and its books), `told` (what clients have heard) and `repeats` (what servers have
done twice); each check counts how often it was asked. `mutants` is the sidecar broken on purpose: each has to be found, or the
simulation proves nothing (`tests/trials/test_simulation_mutants.py`).

How to read its output: the first table says how much was played, the second how often each check looked at something. A seed
that fails is named with the check, the end of its trace and the command that replays it, after it was made smaller as far as
that is cheap. Some seeds of each campaign are run again in a process with another hash order and must give the same digest:
sha256 over every byte sent on any connection with its time, every record, every change of the disk.

A seed means something only with the code that it was found with: a change to the simulation, or to what the sidecar does
when, makes another story of it. So a fault that was found gets a plain test beside the code at fault as well; the seeds in
`tests/trials/seeds.txt` are replayed all the same, since they cost little and have once been hard.
"""
