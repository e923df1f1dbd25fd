"""What is known of torch's operators: facts, exceptions, how results lie in memory, and what stands for them on fake tensors."""
