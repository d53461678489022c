"""The classifier: SLDLClassifier and its presets."""
