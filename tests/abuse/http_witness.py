"""A well-behaved client of the HTTP side beside what is going on: how long it waits, and what is refused.

    http_witness.py PORT [PID]

As `witness.py`: asks until its input ends, then prints one JSON object.
"""

import http.client
import json
import select
import sys
import time

from witness import PAUSE_S, Processor, share

TIMEOUT_S = 30


def figures(port, processor):
    waited, held_s, refused = [], 0.0, []
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    try:
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            began, worked_s = time.perf_counter(), processor.seconds()
            client.request("GET", "/livez")
            answer = client.getresponse()
            answer.read()
            held_s = max(held_s, processor.seconds() - worked_s)
            waited.append(time.perf_counter() - began)
            if answer.status != 200:
                refused.append(answer.status)
    except (OSError, http.client.HTTPException) as error:
        refused.append(repr(error))
    return {
        "queries": len(waited),
        "p99_ms": share(waited, 0.99),
        "max_ms": share(waited, 1),
        "held_ms": round(1000 * held_s, 2),
        "refused": refused[:3],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(figures(int(sys.argv[1]), Processor(*sys.argv[2:]))))
