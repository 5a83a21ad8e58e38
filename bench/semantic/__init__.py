"""What the semantic cache is worth, by pairs of texts, and what it costs."""
