"""The comparison: the sidecar beside other proxies, with the same upstream and the same load, each on one core.

scenarios    what is sent, a line each
load         wrk, which sends it; `relays` sees that each proxy really relays it
throughput   as fast as it goes; `throughput_table` shows it
paced        a thousand requests a second, whether or not those before are answered; `added` is what a proxy adds then
start        from exec to readiness
floors       what all of these must reach; `findings` puts everything together
"""
