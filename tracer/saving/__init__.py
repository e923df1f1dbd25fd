"""Cache entries in files, for a later process with the same versions: `tracer.save(fn, path)`, `tracer.load(fn, path)`.

`pickling` finds the program's objects again and checks that they are unchanged; `entries` converts an entry to data and back;
`files` defines the file format and checks that a file is valid here. docs/decisions/warm_restart.md gives the reasons.
"""
