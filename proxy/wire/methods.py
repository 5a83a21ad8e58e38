"""Request methods. RFC 9110 §9.1 leaves their list open, and the parser underneath closes it."""

from __future__ import annotations

import re
from typing import Final

KNOWN: Final = frozenset(
    b"ACL BIND CHECKOUT CONNECT COPY DELETE GET HEAD LINK LOCK M-SEARCH MERGE MKACTIVITY MKCALENDAR MKCOL MOVE "
    b"NOTIFY OPTIONS PATCH POST PROPFIND PROPPATCH PURGE PUT QUERY REBIND REPORT SEARCH SOURCE SUBSCRIBE TRACE UNBIND "
    b"UNLINK UNLOCK UNSUBSCRIBE".split()
)
"""The methods of HTTP that httptools knows."""

START: Final = re.compile(rb"[\r\n]*([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32})( ?)")
"""The start of a request line: empty lines, which RFC 9112 §2.2 lets go before it, then a token and the space after it.

No method in use is longer than half of this; a longer first word is noise, or another protocol.
"""
