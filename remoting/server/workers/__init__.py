"""Processes that answer known requests beside the server, which alone decides.

The server accepts every connection. One whose peer is a client goes to a worker: the socket is passed on, the
`Connection` stays in the server, and its transport becomes the way to that worker. The worker answers what it knows by
the bytes of the request; all else goes to the server, which treats it as read from the socket. So no rule, limit or
state is in a worker, and a worker that ends costs its clients a reconnect.

An answer that a worker keeps is true while a mark in shared memory is as it was (`marks.py`). The server moves it in
the step in which it changes its tables, before it replies to whoever changed them.
"""
