"""One call, from start to finish.

`entrance` takes a connection in; `client` reads its requests, one after the other. `call` is the story of one: read it
first. It stands on `upload` (its body, as it comes), `patience` and `rungs` (which rung of its route's ladder answers it, how
long one is waited for, and what follows one that does not answer), `answered` (what
is given in place of an upstream's answer, kept of one, and said of it), `closing` (a stream that is closed before its end),
`shared` (an equal call in flight), `attempt` (its turn, and its further attempts), `exchange` (all the ways in which it can
end) and `step` (what every call has in common: its facts, its annotation, its record). `entry` is the request that a job
begins with, on its way to the agent's own port.

On the way: `consider` for what is decided of a call, `ways` for where it goes, `onward` for the head that is sent on,
`request` and `response` for its two sides, `answers` for what the sidecar says itself, `descent` for where it stands on a
ladder, `leaving` for whether its client is still there, `keeping` for whether that one's connection serves another call. A write
needs more: `write` and `intent` before its first byte, `claims` while it is in flight, `linger` for what may still come after,
`verify` to find out, `dead_letters` when nobody does.

What nobody here can read takes another way: `tunnel` (CONNECT) and `redirected` open it, `relay` passes its bytes. Whether
it can be read is told by the `first_words` of a redirected connection, or of one that is `tunnelled`: HTTP comes back to
`client`. What the sidecar has sent itself and was led back to it is `looped`.

`plane` holds what all calls share, `turns` the calls that wait for theirs.
"""
