"""The commands of `rmq-analytics`."""
