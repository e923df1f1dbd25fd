"""Instances of the program's classes, modules, compiled patterns."""
