"""What a trace has done besides computing: the log of side effects, and torch's global state."""
