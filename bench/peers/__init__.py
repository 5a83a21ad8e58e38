"""One small file for each proxy: how it is configured and started, and nothing else."""
