"""Exceptions, as CPython makes, links and groups them."""
