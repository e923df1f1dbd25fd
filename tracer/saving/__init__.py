"""Entries in files, for a new process of the same versions: `tracer.save(fn, path)`, `tracer.load(fn, path)`.

`references` says how an object of the program is found again, and tells whether it is the same; `entries` takes an entry apart
and puts it together; `files` is the form of the file, and what it is valid for. docs/decisions/warm_restart.md has the reasons.
"""
