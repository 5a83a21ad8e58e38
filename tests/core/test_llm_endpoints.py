"""The shipped list of language models' endpoints: host and path together, and only what computes."""

from __future__ import annotations

import pytest

from proxy.core.llm_endpoints import LLM_ENDPOINTS, is_llm_endpoint
from proxy.core.target import DEFAULT_PORTS, split_authority, split_url

VERTEX = "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1"

ONLY_COMPUTE = [
    "https://api.openai.com/v1/chat/completions",
    "https://eu.api.openai.com/v1/embeddings",
    "https://api.openai.com/v1/images/generations",
    "https://api.openai.com/v1/audio/speech",
    "https://api.openai.com/v1/audio/transcriptions",
    "https://acme.openai.azure.com/openai/deployments/gpt-4o/chat/completions",
    "https://acme.cognitiveservices.azure.com/openai/v1/embeddings",
    "https://phi.eastus.models.ai.azure.com/v1/chat/completions",
    "https://api.anthropic.com/v1/messages",
    "https://api.anthropic.com/v1/messages/count_tokens",
    "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.0-flash:streamGenerateContent",
    "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
    f"{VERTEX}/publishers/google/models/gemini:generateContent",
    f"{VERTEX}/publishers/anthropic/models/claude:streamRawPredict",
    f"{VERTEX}/endpoints/123:predict",
    "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-3%3A0/converse-stream",
    "https://api.mistral.ai/v1/fim/completions",
    "https://api.cohere.com/v2/rerank",
    "https://api.groq.com/openai/v1/audio/transcriptions",
    "https://api.together.xyz/v1/completions",
    "https://api.fireworks.ai/inference/v1/chat/completions",
    "https://openrouter.ai/api/v1/chat/completions",
    "https://api.deepseek.com/chat/completions",
    "https://api.x.ai/v1/chat/completions",
    "https://api.perplexity.ai/chat/completions",
    "https://api.cerebras.ai/v1/chat/completions",
    "https://api.voyageai.com/v1/embeddings",
    "https://api.jina.ai/v1/rerank",
    "http://ollama.models.svc:11434/api/chat",
    "http://127.0.0.1:11434/v1/chat/completions",
]

CREATE_SOMETHING = [
    "https://api.openai.com/v1/files",
    "https://api.openai.com/v1/batches",
    "https://api.openai.com/v1/fine_tuning/jobs",
    "https://api.openai.com/v1/assistants",
    "https://api.openai.com/v1/threads/t/messages",
    "https://api.openai.com/v1/threads/runs",
    "https://api.openai.com/v1/conversations",
    "https://api.openai.com/v1/responses",
    "https://api.openai.com/v1/vector_stores",
    "https://api.openai.com/v1/uploads",
    "https://api.openai.com/v1/audio/voices",
    "https://api.openai.com/v1/audio/voice_consents",
    "https://api.anthropic.com/v1/messages/batches",
    "https://api.anthropic.com/v1/files",
    "https://acme.openai.azure.com/openai/files",
    "https://acme.openai.azure.com/openai/deployments/a/b/chat/completions",
    "https://generativelanguage.googleapis.com/v1beta/models/gemini:batchGenerateContent",
    "https://generativelanguage.googleapis.com/v1beta/cachedContents",
    f"{VERTEX}/batchPredictionJobs",
    f"{VERTEX}/publishers/google/models/veo:predictLongRunning",
    "https://bedrock-runtime.us-east-1.amazonaws.com/async-invoke",
    "https://bedrock.us-east-1.amazonaws.com/model/m/invoke",
    "https://api.mistral.ai/v1/fine_tuning/jobs",
    "https://api.cohere.com/v1/datasets",
    "https://api.together.xyz/v1/files",
    "http://ollama.models.svc:11434/api/pull",
    "http://ollama.models.svc:11434/api/create",
]

SOMEWHERE_ELSE = [
    "https://chat.example.com/v1/messages",
    "https://api.anthropic.com.example.com/v1/messages",
    "https://api.anthropic.com.evil.internal/v1/messages",
    "https://fake-api.anthropic.com/v1/messages",
    "https://apixanthropic.com/v1/messages",
    "https://openai.azure.com/openai/v1/chat/completions",
    "https://api.openai.com/v1/chat/completions/",
    "https://api.openai.com/V1/chat/completions",
    "https://api.openai.com//v1/chat/completions",
    "https://api.openai.com/v1/files/../chat/completions",
    "https://api.openai.com/chat/completions",
    "http://tool.internal:11435/api/chat",
    "http://tool.internal/api/chat",
]


def asks_a_model(url: str) -> bool:
    """Whether a POST to this URL is known only to compute."""
    scheme, authority, path = split_url(url)
    return is_llm_endpoint(*split_authority(authority, DEFAULT_PORTS[scheme]), path)


@pytest.mark.parametrize("url", ONLY_COMPUTE)
def test_completions_and_embeddings_only_compute(url: str) -> None:
    """They may be repeated: it only costs."""
    assert asks_a_model(url)


@pytest.mark.parametrize("url", CREATE_SOMETHING)
def test_what_creates_something_is_a_write(url: str) -> None:
    """Files, batches, fine-tuning, stored conversations: the same hosts, and not to be repeated blindly."""
    assert not asks_a_model(url)


@pytest.mark.parametrize("url", SOMEWHERE_ELSE)
def test_host_and_path_must_both_match_in_full(url: str) -> None:
    """Elsewhere `POST /messages` sends a message; a name that is only like the right one is elsewhere."""
    assert not asks_a_model(url)


@pytest.mark.parametrize(("place", "what"), LLM_ENDPOINTS)
def test_every_row_is_used(place: object, what: object) -> None:
    """Each row of the list is shown by one example above at least."""
    shown = {
        row
        for _, authority, path in map(split_url, ONLY_COMPUTE)
        for row in LLM_ENDPOINTS
        if row[0].fullmatch(authority) and row[1].fullmatch(path)
    }
    assert (place, what) in shown
