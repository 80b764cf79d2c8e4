"""A registration: its body in every form, and what it changes."""
