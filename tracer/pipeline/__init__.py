"""From a frame that no entry serves to a new entry: trace, compile, emit, guard."""
