"""What is known of torch's operators."""
