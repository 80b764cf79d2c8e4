"""From files that servers wrote to the stored history."""
