"""Whether the sidecar holds: under faults, under hostile input, over hours. What it costs is `bench`'s subject.

    chaos        real processes and sockets, an upstream that misbehaves on command, clients that leave, a sidecar that is killed;
                 what the server knows is compared with every answer and every record
    simulation   the same promises, on a simulated loop, network, disk and clock, everything drawn from one seed
    fuzz         random and mutated input, to all that is read from outside
    soak         half load for an hour: memory, descriptors, tasks and ledger level off

`python -m trials NAME`; each has a short form (`--short`), which CI runs. `span` reads how long one is to take. Nothing leaves the loopback.
"""
