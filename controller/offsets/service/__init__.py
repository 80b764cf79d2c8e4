"""The one place that changes offsets, locks and freezes: decide, store, apply, answer."""
