"""What the neural baselines share: batches, the training loop, layers, and sums over many labels."""
