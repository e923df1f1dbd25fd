"""Instances of the program's classes, exceptions, modules, weak references."""
