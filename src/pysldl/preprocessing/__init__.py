"""From what users have to arrays: labels, texts, data frames, scaling."""
