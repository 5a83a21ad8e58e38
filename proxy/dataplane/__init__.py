"""One call, from start to finish.

`entrance` takes a connection in; `client` reads its requests, one after the other. `call` is the story of one, and
`exchange` all the ways in which it can end. On the way: `consider` for what is decided of it, `ways` for where it
goes, `onward` for the head that is sent on, `request` and `response` for its two sides, `write` and `intent` for what
a write needs besides, and `linger` for what may still come after. `step` is what every call has in common: its facts,
its annotation, its record; `answers` renders what the sidecar says itself.

What nobody here can read takes another way: `tunnel` (CONNECT) and `redirected` open it, `relay` passes its bytes.
`plane` holds what all calls share.
"""
