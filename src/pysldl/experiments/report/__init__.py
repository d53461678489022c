"""What is written from the results: tables, figures, and one self-contained HTML page that holds them."""
