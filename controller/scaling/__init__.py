"""Queue counts of topics that change: who decides on it, and how it is carried out without a loss."""
