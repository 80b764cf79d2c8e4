"""When this host has the address: pure rules, the values that they take, and those that they return."""
