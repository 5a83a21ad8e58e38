"""Sockets: upstream connections and their pool, how one is opened, and what the kernel knows of the others.

`pool` gives out `connection`s; `dial` opens them, with names from `resolver`, certificates from `tls`, and a `parent`
proxy where the cluster has one. `original` asks where iptables took a connection from, `peer` whether its other end
is still held, `own` whether an address leads back here. `alarm` keeps all deadlines, and `timer` wakes for the first of
them; `errors` is the one edge at which foreign exceptions become ours.
"""
