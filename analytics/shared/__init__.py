"""What several analyses build on."""
