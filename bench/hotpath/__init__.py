"""What one call costs in Python alone: `one_call` makes it, on either build, `counts` has it made, `table` shows. README.md is its budget."""
