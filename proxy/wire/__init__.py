"""HTTP/1.1 as bytes: what arrives becomes events, and what leaves is rendered from them. No socket, no clock.

`parser` turns the bytes of one connection into the `events` of its messages. It is the only module that imports
httptools; `tape` writes down what httptools calls back. What httptools does not check, `heads` does, with the body
framing of RFC 9112 §6.3 in `framing`, sizes in `limits`, methods in `methods`, and a reason and a sentence for all
that is refused in `faults`. On the way out, `fields` says which header fields end at this hop, and `render` writes
heads, chunks and trailers. `sniff` tells from a connection's first bytes whether it speaks HTTP at all. Where a stream
can be cut without harm is found by `eventstream` between events, by `lines` between lines, and by `characters` in text.
"""
