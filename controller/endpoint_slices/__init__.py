"""Publishes where the brokers of sets are, as EndpointSlices of Kubernetes."""
