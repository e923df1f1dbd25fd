"""What the user calls; re-exported, and nothing else, by `tracer`."""
