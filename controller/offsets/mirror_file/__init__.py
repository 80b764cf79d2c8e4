"""The file of the mirror: the newest offsets of each broker set, and what they were at earlier moments."""
