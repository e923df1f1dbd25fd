"""The code that is cached: it calls the graph, replays side effects, and returns or resumes."""
