"""Small helpers without a place of their own: memory, files, progress, parameters by name."""
