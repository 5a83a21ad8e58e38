"""Well-known endpoints of language models, as data: what `POST` there only computes, and changes nothing.

Host and path are matched together, since elsewhere `POST /messages` sends a message. A completion may be repeated:
it only costs. Endpoints of the same hosts that create something (files, batches, fine-tuning jobs, assistants,
stored conversations) are left out on purpose, and so stay writes.
"""

from __future__ import annotations

import re
from typing import Final

_AUDIO: Final = "audio/(?:speech|transcriptions|translations)"  # there are others, and they create voices
_OPENAI_PATHS: Final = (
    rf"/v1/(?:chat/completions|completions|embeddings|moderations|images/generations|{_AUDIO})"
)

# Host, path: both must match in full, the query left aside.
LLM_ENDPOINTS: Final[tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]] = tuple(
    (re.compile(host), re.compile(path))
    for host, path in (
        (r"(?:[a-z]{2}\.)?api\.openai\.com", _OPENAI_PATHS),
        (
            r"[a-z0-9-]+\.(?:openai|cognitiveservices)\.azure\.com",
            r"/openai/(?:deployments/[^/]+|v1)/(?:chat/completions|completions|embeddings)",
        ),
        (
            r"[a-z0-9.-]+\.(?:inference|models)\.ai\.azure\.com",
            r"(?:/v1|/models)?/(?:chat/completions|embeddings)",
        ),
        (r"api\.anthropic\.com", r"/v1/(?:messages|messages/count_tokens|complete)"),
        (
            r"generativelanguage\.googleapis\.com",
            (
                r"/v1(?:beta|alpha)?/models/[^/]+:"
                r"(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)"
            ),
        ),
        (r"generativelanguage\.googleapis\.com", r"/v1beta/openai/(?:chat/completions|embeddings)"),
        (
            r"(?:[a-z0-9-]+-)?aiplatform\.googleapis\.com",
            (
                r"/v1(?:beta1)?/projects/[^/]+/locations/[^/]+/.+:"
                r"(?:generateContent|streamGenerateContent|rawPredict|streamRawPredict|predict|countTokens)"
            ),
        ),
        (
            r"bedrock-runtime(?:-fips)?\.[a-z0-9-]+\.amazonaws\.com",
            r"/model/[^/]+/(?:invoke|invoke-with-response-stream|converse|converse-stream)",
        ),
        (r"api\.mistral\.ai", r"/v1/(?:chat/completions|fim/completions|embeddings|moderations|ocr)"),
        (r"api\.cohere\.(?:com|ai)", r"/v[12]/(?:chat|generate|embed|rerank|classify|tokenize|detokenize)"),
        (r"api\.groq\.com", rf"/openai/v1/(?:chat/completions|embeddings|{_AUDIO})"),
        (r"api\.together\.(?:xyz|ai)", r"/v1/(?:chat/completions|completions|embeddings|rerank)"),
        (r"api\.fireworks\.ai", r"/inference/v1/(?:chat/completions|completions|embeddings)"),
        (r"openrouter\.ai", r"/api/v1/(?:chat/completions|completions)"),
        (r"api\.deepseek\.com", r"(?:/v1|/beta)?/(?:chat/completions|completions)"),
        (r"api\.x\.ai", r"/v1/(?:chat/completions|completions|embeddings)"),
        (r"api\.perplexity\.ai", r"/chat/completions"),
        (r"api\.cerebras\.ai", r"/v1/(?:chat/completions|completions)"),
        (r"api\.voyageai\.com", r"/v1/(?:embeddings|rerank|multimodalembeddings)"),
        (r"api\.jina\.ai", r"/v1/(?:embeddings|rerank|classify)"),
    )
)
# Calls to these without a network name of their own are recognised by port and path: Ollama's own API.
OLLAMA_PORT: Final = 11434
OLLAMA_PATH: Final = re.compile(
    r"/api/(?:generate|chat|embed|embeddings|show)|/v1/(?:chat/)?completions|/v1/embeddings"
)


def is_llm_endpoint(host: str, port: int, path: str) -> bool:
    """Say whether a POST to this place only asks a model. `path` is given without its query."""
    if port == OLLAMA_PORT and OLLAMA_PATH.fullmatch(path):
        return True
    return any(place.fullmatch(host) and what.fullmatch(path) for place, what in LLM_ENDPOINTS)
