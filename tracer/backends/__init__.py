"""Backends: what turns a captured graph into a callable. `registry` knows their names, `calling` guards the call."""
