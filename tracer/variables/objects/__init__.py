"""Instances of user classes, Python modules, and compiled regular expressions."""
