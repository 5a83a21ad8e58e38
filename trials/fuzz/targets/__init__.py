"""One file for each target. Its `TARGET` is found by the name of the file, which stands in `registry`."""
