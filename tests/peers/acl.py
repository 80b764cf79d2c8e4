"""Brokers that check who asks them: ACL 2.0 of 5.3 and later, ACL 1.0 of the releases before."""

from dataclasses import dataclass

import yaml


@dataclass(frozen=True)
class Keys:
    """A user of a broker."""

    access: str
    secret: str


#: Whom brokers let do everything.
CONTROL = Keys("control-plane", "s3cret-of-the-control-plane")
#: What brokers sign their own requests with.
BROKERS = Keys("inner-brokers", "s3cret-of-the-brokers")
STRANGER = Keys("control-plane", "s3cret-of-nobody")


def acl_2(**properties):
    """Return the properties of a broker that asks for a user's signature, and for the rights of that user."""
    folder = "org.apache.rocketmq.auth"
    return {
        "authenticationEnabled": True,
        "authenticationMetadataProvider": f"{folder}.authentication.provider.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": f'{{"username":"{CONTROL.access}","password":"{CONTROL.secret}"}}',
        "innerClientAuthenticationCredentials": (f'{{"accessKey":"{BROKERS.access}","secretKey":"{BROKERS.secret}"}}'),
        "authorizationEnabled": True,
        "authorizationMetadataProvider": f"{folder}.authorization.provider.LocalAuthorizationMetadataProvider",
    } | properties


def acl_1(lab_folder, label):
    """Give the broker with this label its accounts, and return its properties."""
    file = lab_folder / label / "conf" / "plain_acl.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    account = {"accessKey": CONTROL.access, "secretKey": CONTROL.secret, "admin": True}
    file.write_text(yaml.safe_dump({"globalWhiteRemoteAddresses": [], "accounts": [account]}))
    return {"aclEnable": True}


def servers_keys(keys):
    """Return the properties with which our servers sign what they send; none without keys."""
    return {"brokerAccessKey": keys.access, "brokerSecretKey": keys.secret} if keys else {}
