"""The report of all analyses as one page: words, tables and plots. Pure: text from published results."""
