"""Thousands of event streams side by side: how late their events come, and what they cost."""
