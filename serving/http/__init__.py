"""The HTTP side of a server: endpoints, pages, OpenAPI."""
