"""Configurations of groups as mqadmin prints them. Pure."""

from typing import Final

import msgspec

from remoting.protocol.shapes.group_views import RetryPolicyView, SimpleSubscriptionView, SubscriptionGroupView
from rmq.mqadmin.java.hash_order import string_order
from rmq.mqadmin.java.texts import java_format, java_text, map_text

_EXPONENTIAL: Final = {"initial": 5_000, "max": 7_200_000, "multiplier": 2}


def group_fields(group: SubscriptionGroupView) -> dict[str, str | None]:
    """Return the fields of a group as Java prints them, in its order; None for null."""
    fields: dict[str, str | None] = {}
    for field in msgspec.structs.fields(SubscriptionGroupView):
        value = getattr(group, field.name)
        match value:
            case RetryPolicyView():
                text: str | None = _policy_text(value)
            case dict():
                text = map_text({name: value[name] for name in string_order(value)})
            case list():
                text = f"[{', '.join(map(_subscription_text, value))}]"
            case None:
                text = None
            case _:
                text = java_text(value)
        fields[field.encode_name] = text
    return fields


def group_text(group: SubscriptionGroupView) -> str:
    """Return `SubscriptionGroupConfig.toString`."""
    pairs = (f"{name}={java_text(text)}" for name, text in group_fields(group).items())
    return f"SubscriptionGroupConfig{{{', '.join(pairs)}}}"


def _policy_text(policy: RetryPolicyView) -> str:
    exponential = policy.exponential_retry_policy
    customized = policy.customized_retry_policy
    return java_format(
        "GroupRetryPolicy{type=%s, exponentialRetryPolicy=%s, customizedRetryPolicy=%s}",
        policy.type,
        None
        if exponential is None
        else java_format(
            "ExponentialRetryPolicy{initial=%d, max=%d, multiplier=%d}",
            *({**_EXPONENTIAL, **exponential}[name] for name in _EXPONENTIAL),
        ),
        None if customized is None else f"CustomizedRetryPolicy{{next={customized.get('next', [])}}}",
    )


def _subscription_text(found: SimpleSubscriptionView) -> str:
    return java_format(
        "SimpleSubscriptionData{topic=%s, expressionType=%s, expression=%s, version=%d}",
        found.topic,
        found.expression_type,
        found.expression,
        found.version,
    )
