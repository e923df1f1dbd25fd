"""What the tracer relies on in torch that is private to torch, or that differs between the versions that it supports.

`facts` has one function for each fact that differs. `private_names` lists what is private and relied on; where torch is of a
version that the tracer was not tested with, each of them is looked for at import. Nothing else in the tracer asks for torch's
version, but for `platform_check`, which refuses or warns.
"""
