"""The blocks of the documents that are made from records: each is a function from the records to Markdown."""
