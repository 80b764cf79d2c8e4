"""A role-addressed set of real brokers whose role an operator hands over."""

import itertools
import json
import urllib.error
import urllib.request

from peers.jars import V5_5
from peers.waiting import wait_until
from replicated import VERY_LONG_S
from role_addressed import SET, RoleAddressedSet

TOKEN = "a-token-of-thirty-two-characters-"
ENDED = {"DONE", "FAILED", "ROLLED_BACK", "INTERRUPTED"}


class SwitchedSet(RoleAddressedSet):
    """The same site, whose role an operator hands over."""

    def __init__(self, lab, folder, version=V5_5, **options):
        token = folder / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        super().__init__(lab, folder, version, controller_properties={"httpAdminTokenFile": token}, **options)

    def request(self, path, body=None):
        """Return status and body of a GET, or of a POST with a body, about the set."""
        url = f"http://127.0.0.1:{self.leader.http_port}/v1/broker-sets/{SET}/{path}"
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def switch_over(self, **body):
        """Hand the role over, and return the switchover once it has ended."""
        status, begun = self.request("switchover", body)
        assert status == 202, begun

        def ended():
            _, shown = self.request("switchover")
            return shown if shown["phase"] in ENDED else None

        return wait_until(ended, seconds=VERY_LONG_S, what="the end of the switchover")


def orders_of(keys):
    """Return the numbers of the messages in each key's order, by key."""
    orders = {}
    for key in keys:
        name, _, number = key.rpartition("-")
        orders.setdefault(name, []).append(int(number))
    return orders


def keeps_order(numbers):
    """Return whether no message is stored after a later one; one that was sent again may be there twice."""
    return all(after >= before for before, after in itertools.pairwise(numbers))
