"""How each proxy grows from one connection to ten thousand: rates, latency, memory."""
