"""The HTTP API of the offset manager: one module of views for each subject."""
