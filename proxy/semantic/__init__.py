"""The semantic cache, a service of its own: it finds a kept answer to a question that means the same.

`reading` takes a text apart, and `agreement` says whether two of them may have one answer: both are pure. `embeddings` turn
texts into vectors, here or at any place that speaks OpenAI's dialect. `index` finds the nearest vectors of one partition,
and `shelf` keeps all partitions, with their answers, within bounds of bytes, entries and time. `service` puts that together;
`api` is what is served over HTTP, and `server` the running process.

A partition is all that an answer depends on beside the text: the route, the model, the system prompt and the caller. What is
kept in one is never found from another.

No sidecar ever imports this: what it needs weighs more than the sidecar itself. A sidecar asks it through
`proxy.degrade.cache.semantic`.
"""
