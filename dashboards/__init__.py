"""What operators look at: Grafana dashboards, Prometheus rules, and what to do when one of them fires.

Boards are written in Python (`boards/`), rendered by `grafana.py`, and committed as JSON; a test compares.
"""
