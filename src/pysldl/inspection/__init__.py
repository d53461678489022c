"""What a model says about itself: explanations, label relations, the label map, the model card."""
