"""Operations of a graph that torch has no function for."""
