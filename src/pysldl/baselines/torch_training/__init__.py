"""What the neural baselines share: batches, the training loop, validation, layers."""
