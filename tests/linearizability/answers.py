"""What an answer on the wire says, in the words of the model."""

import json

from linearizability.set_model import (
    ALTER,
    APPLY_ID,
    CLEAN,
    ELECT,
    MASTER_STILL_EXISTS,
    NEXT_ID,
    OK,
    REGISTER,
    REPLICA_INFO,
    SYNC_STATE_DATA,
    View,
)

SYSTEM_ERROR, BUSY, NOT_LEADER = 1, 2, 2007
#: Nobody knows what has become of a request that was answered so.
UNCERTAIN = frozenset({SYSTEM_ERROR, BUSY})


def meaning(code, answer, broker_name):
    """Return what the model knows an answer to this request by."""
    has_result = answer.code == OK or (code == ELECT and answer.code == MASTER_STILL_EXISTS)
    return _MEANINGS[code](answer, broker_name) if has_result else (answer.code,)


def _altered(answer, _):
    body = json.loads(answer.body)
    new_epoch = int(answer.fields["newSyncStateSetEpoch"])
    assert body["syncStateSetEpoch"] == new_epoch, answer
    return OK, new_epoch, frozenset(body["syncStateSet"])


def _elected(answer, _):
    body, fields = json.loads(answer.body), answer.fields
    view = _view(fields, body["syncStateSet"], int(fields["syncStateSetEpoch"]))
    if answer.code == MASTER_STILL_EXISTS:
        return answer.code, view
    addresses = {int(i): address for i, address in body["brokerMemberGroup"]["brokerAddrs"].items()}
    return OK, view._replace(addresses=tuple(sorted(addresses.items())))


def _registered(answer, _):
    body, fields = json.loads(answer.body), answer.fields
    if "syncStateSetEpoch" in fields:
        assert int(fields["syncStateSetEpoch"]) == body["syncStateSetEpoch"], answer
    return OK, _view(fields, body["syncStateSet"], body["syncStateSetEpoch"])


def _replica_info(answer, _):
    body = json.loads(answer.body)
    return OK, _view(answer.fields, body["syncStateSet"], body["syncStateSetEpoch"])


def _sync_state_data(answer, broker_name):
    table = json.loads(answer.body)["replicasInfoTable"].get(broker_name)
    if table is None:
        return OK, None
    everybody = table["inSyncReplicas"] + table["notInSyncReplicas"]
    return OK, View(
        master=table.get("masterBrokerId"),
        address=table.get("masterAddress"),
        master_epoch=table["masterEpoch"],
        in_sync=frozenset(each["brokerId"] for each in table["inSyncReplicas"]),
        set_epoch=table["syncStateSetEpoch"],
        addresses=tuple(sorted((each["brokerId"], each["brokerAddress"]) for each in everybody)),
    )


def _view(fields, in_sync, set_epoch):
    master, epoch = fields.get("masterBrokerId"), fields.get("masterEpoch")
    return View(
        master=None if master is None else int(master),
        address=fields.get("masterAddress"),
        master_epoch=None if epoch is None else int(epoch),
        in_sync=frozenset(in_sync),
        set_epoch=set_epoch,
    )


_MEANINGS = {
    ALTER: _altered,
    APPLY_ID: lambda *_: (OK,),
    CLEAN: lambda *_: (OK,),
    ELECT: _elected,
    NEXT_ID: lambda answer, _: (OK, int(answer.fields["nextBrokerId"])),
    REGISTER: _registered,
    REPLICA_INFO: _replica_info,
    SYNC_STATE_DATA: _sync_state_data,
}
