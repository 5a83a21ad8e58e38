"""The cache: whole answers, kept for the same question, or for one that means the same.

`asked` says what makes two requests the same one, and for whom; `freshness` whether an answer may be kept, and for how
long (RFC 9111), by what its `directives` say; `entry` is such an answer, and the bytes it becomes outside this process;
`found` is what a question to the cache has brought, and what the answer says of that. `memory` keeps entries within a bound
of bytes. All of these are pure, and so is `breaker`, which says when to leave a place alone that has failed.

A `remote` keeps entries outside this process. `redis_store` is one for the same request, shared between pods: it is at a
`store_address`, over a few `redis_links`, each of which is a `redis_link`, the only module that knows redis-py. `semantic`
is one for what means the same. `cache` is the one that calls ask.
"""
