"""Lists, tuples, dicts, sets, deques, ranges and their views."""
