"""Brokers that authenticate requests: ACL 2.0 of 5.3 and later, ACL 1.0 of the releases before."""

import base64
import hmac
import json
from dataclasses import dataclass

import yaml

from peers.wire import SUCCESS, Caller

CREATE_USER = 3001
CREATE_ACL = 3006


@dataclass(frozen=True)
class Keys:
    """A user of a broker."""

    access: str
    secret: str


#: Whom brokers let do everything.
CONTROL = Keys("control-plane", "s3cret-of-the-control-plane")
#: What brokers sign their own requests with.
BROKERS = Keys("inner-brokers", "s3cret-of-the-brokers")
#: A user with the rights that our servers and the sampler need, and hardly more.
LEAST = Keys("least-rights", "s3cret-of-the-least")
STRANGER = Keys("control-plane", "s3cret-of-nobody")
#: The user of an offset manager, with the rights of the table in docs/broker-acl.md.
OFFSETS = Keys("offset-manager", "s3cret-of-the-offset-manager")
#: A user that brokers know, and permit nothing.
POWERLESS = Keys("no-rights", "s3cret-of-the-powerless")


def acl_2(**properties):
    """Return the properties of a broker that requires the signature of a user, and the rights of that user."""
    folder = "org.apache.rocketmq.auth"
    return {
        "authenticationEnabled": True,
        "authenticationMetadataProvider": f"{folder}.authentication.provider.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": f'{{"username":"{CONTROL.access}","password":"{CONTROL.secret}"}}',
        "innerClientAuthenticationCredentials": (f'{{"accessKey":"{BROKERS.access}","secretKey":"{BROKERS.secret}"}}'),
        "authorizationEnabled": True,
        "authorizationMetadataProvider": f"{folder}.authorization.provider.LocalAuthorizationMetadataProvider",
    } | properties


def acl_1(lab_folder, label, *, white_list=()):
    """Give the broker with this label its accounts, and return its properties.

    Clients at the addresses of the white list need no signature.
    """
    file = lab_folder / label / "conf" / "plain_acl.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    super_user = {"accessKey": CONTROL.access, "secretKey": CONTROL.secret, "admin": True}
    accounts = [super_user, *(_account(keys, "DENY") for keys in (LEAST, POWERLESS)), _account(OFFSETS, "SUB")]
    file.write_text(yaml.safe_dump({"globalWhiteRemoteAddresses": list(white_list), "accounts": accounts}))
    return {"aclEnable": True}


def _account(keys, permission):
    own = {"accessKey": keys.access, "secretKey": keys.secret, "admin": False}
    return own | {"defaultTopicPerm": permission, "defaultGroupPerm": permission}


def admit_least(broker):
    """Let the broker with ACL 2.0 know the user with the least rights; those of ACL 1.0 know it from their file."""
    rights = {"Cluster:DefaultCluster": ["Update"], "Topic:*": ["Get"], "Group:*": ["Get"]}
    admit(broker, LEAST, rights)


def admit(broker, keys, rights):
    """Let a broker with ACL 2.0 know a user with these rights: resource -> actions."""
    user = {"username": keys.access, "password": keys.secret, "userType": "Normal"}
    checked_request(broker, CONTROL, CREATE_USER, {"username": keys.access}, user)
    if not rights:
        return
    entries = [{"resource": resource, "actions": actions, "decision": "Allow"} for resource, actions in rights.items()]
    acl = {"subject": f"User:{keys.access}", "policies": [{"policyType": "Custom", "entries": entries}]}
    checked_request(broker, CONTROL, CREATE_ACL, {"subject": acl["subject"]}, acl)


def checked_request(broker, keys, code, fields, body):
    answer = request_as(broker, keys, code, fields, json.dumps(body).encode())
    assert answer.code == SUCCESS, answer


def request_as(broker, keys, code, fields, body=b""):
    """Return a broker's answer to a request that this user has signed."""
    fields = fields | {"AccessKey": keys.access}
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    digest = hmac.digest(keys.secret.encode(), content, "sha1")
    signed = fields | {"Signature": base64.b64encode(digest).decode()}
    return Caller(broker.address).request(code, signed, body)


def servers_keys(keys):
    """Return the properties with which our servers sign what they send to this machine; none without keys."""
    if keys is None:
        return {}
    return {
        "brokerAccessKey": keys.access,
        "brokerSecretKey": keys.secret,
        "brokerAccessAddresses": "127.0.0.1",
    }
