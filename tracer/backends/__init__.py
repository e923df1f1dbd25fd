"""Backends, which turn a captured graph into a callable: `registry` looks them up by name, `calling` calls them."""
