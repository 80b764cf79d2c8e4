"""Brings the autoscaler's rules to life: watches topics, and proposes, requests or starts what follows."""
