"""The ends of streams: what is written behind a stream that is closed before its own end, so that its client reads it
to the end, sees that it is not whole, and why.

`recognise` says how a stream is read and cut, by its Content-Type; which dialect it speaks is told from its first
events. `ending` is the interface. One file a dialect: `openai_chat`, `openai_responses`, `anthropic_messages`,
`gemini`, `ollama`, and where the words themselves are the stream, `sse` and `text`.

`structured` stands between the bytes and a dialect of JSON: `reading` finds the events and lines, `members` takes from
their values what a dialect needs and refuses the rest, `writing` renders what is added.

A dialect keeps what its end repeats, such as ids and counts, within bounds, and no text where the end does not repeat it. What it cannot
read, or cannot end without a lie, it gives up: `close` is None, and the stream ends as one that was cut.
"""
