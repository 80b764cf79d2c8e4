"""What tests have measured, in sections that are printed at the end of the run, whichever worker ran the test."""

#: Section -> key -> line. Lines are printed in the order of their keys.
sections = {}


def note(section, key, line):
    """Let a line be printed in a section at the end; a later one with the same key takes its place."""
    sections.setdefault(section, {})[key] = line


def merge(others):
    """Take over what another worker has noted."""
    for section, lines in others.items():
        sections.setdefault(section, {}).update(lines)
