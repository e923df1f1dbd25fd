"""Tools for servers: compiling all shapes of a domain ahead, with a proof; sealing; contracts; statistics and reasons of
misses."""
