"""Telemetry: what a server tells, declared once as events."""
