"""`tracer.install()`: what programs ask of torch.compile and of torch._dynamo goes to the tracer. See docs/drop_in.md."""
