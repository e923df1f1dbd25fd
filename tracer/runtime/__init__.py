"""The state of a compiled object across its calls: cache entries, misses, limits, observed sizes, and eviction."""
