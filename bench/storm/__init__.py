"""Many agents and a tool that is too slow for them: what admission is for."""
