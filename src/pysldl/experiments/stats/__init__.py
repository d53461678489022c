"""Statistics over the results: means, rank tests, the error bound, the published figures."""
