"""Running the experiments: folds, methods, configurations, records on disk."""
