"""Values that rules and tables share: effects, changes, cooperative steps."""
