"""Tracked values, by family: what the tracer knows of a value while a frame is traced."""
