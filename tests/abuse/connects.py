"""Connects to a port without end, from one address, and asks nothing; the last of its connections stay open.

connects.py ADDRESS PORT HELD
"""

import socket
import sys
from collections import deque

if __name__ == "__main__":
    address, port, held = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    open_ones = deque()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        each = socket.socket()
        # Its port is free again at once.
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        each.bind((address, 0))
        each.connect(("127.0.0.1", port))
        open_ones.append(each)
        if len(open_ones) > held:
            open_ones.popleft().close()
