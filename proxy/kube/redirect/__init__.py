"""The redirect mode: iptables rules in the pod's own network that lead its TCP connections to the sidecar.

`rules` is pure: what is wanted and what stands there already go in, text for iptables-restore comes out. `apply` runs
the programs, for IPv4 and for IPv6. `trouble` is pure again: what a program said, turned into the problem and its
remedy. The rules live in chains of their own in the table `nat`, so that nothing of anybody else's is touched, and a
second run replaces the first one's.

An init container runs this once (`waterclock redirect`), as root with NET_ADMIN as its only capability.
"""
