"""What happens at a call of a compiled object: entries, misses, limits, what was learnt of sizes, and upkeep."""
