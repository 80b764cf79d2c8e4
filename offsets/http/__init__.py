"""What the HTTP paths of the offset manager answer: a module for each subject."""
