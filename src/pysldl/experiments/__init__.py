"""Experiments: results, the statistics over them, and the tables, figures and page that show them."""
