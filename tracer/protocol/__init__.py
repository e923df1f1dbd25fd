"""What the parts of the tracer ask of one another: `VariableTracker`, `Tracer`, the registry of models, lookups of attributes."""
