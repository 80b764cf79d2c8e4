"""Rules of a resize: pure functions from an operation and an observation to a decision."""
