"""The layer under all stages: threads, and the arithmetic that must not depend on the machine."""
