"""Bodies of requests and answers of the HTTP APIs, for the servers and for `rmq`; they import nothing of a server."""
