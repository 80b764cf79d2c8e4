"""What two answers to one question differ in, a line each: rows that one lacks, and values that are not alike."""

from collections.abc import Iterable, Mapping, Sequence
from math import isclose
from typing import Any

Answer = Mapping[str, Any]

#: Column -> how far apart values may be; a share of the value with `%`.
Tolerances = Mapping[str, float | str]


def differences(
    of_job: Iterable[Answer], model: Iterable[Answer], keys: Sequence[str], tolerances: Tolerances
) -> list[str]:
    """Return how what Spark tells differs from what the model says, in the columns that the model has.

    A value of the model that is a pair is the least and the greatest that are right.
    """
    tells, of_model = _by_key(of_job, keys), _by_key(model, keys)
    found = [
        f"{_name(keys, key)}: Spark tells it, the model does not: {_short(tells[key])}"
        for key in tells.keys() - of_model
    ]
    found += [
        f"{_name(keys, key)}: the model says it, Spark does not: {_short(of_model[key])}"
        for key in of_model.keys() - tells
    ]
    for key in tells.keys() & of_model:
        for column in of_model[key].keys() - set(keys):
            one, other = tells[key].get(column), of_model[key][column]
            if column in tells[key] and not _alike(one, other, tolerances.get(column, 0)):
                found.append(f"{_name(keys, key)}: {column}: Spark {one}, model {other}")
    return sorted(found)


def _by_key(answers: Iterable[Answer], keys: Sequence[str]) -> dict[tuple[Any, ...], Answer]:
    found: dict[tuple[Any, ...], Answer] = {}
    for answer in answers:
        key = tuple(answer.get(name) for name in keys)
        assert key not in found, f"two rows of {key}"
        found[key] = answer
    return found


def _name(keys: Sequence[str], key: tuple[Any, ...]) -> str:
    return " ".join(f"{name}={value}" for name, value in zip(keys, key, strict=True) if value is not None)


def _short(answer: Answer) -> str:
    return ", ".join(f"{name} {value}" for name, value in answer.items() if value is not None)


def _alike(one: Any, other: Any, tolerance: float | str) -> bool:
    if isinstance(other, tuple):
        return (
            one is not None and all(each is not None for each in other) and (other[0] - 1e-6 <= one <= other[1] + 1e-6)
        )
    if isinstance(one, bool | str | list) or isinstance(other, bool | str | list) or one is None or other is None:
        return bool(one == other)
    if isinstance(one, int) and isinstance(other, int) and not isinstance(tolerance, str):
        return abs(one - other) <= tolerance
    if isinstance(tolerance, str):
        return isclose(one, other, rel_tol=float(tolerance.rstrip("%")) / 100, abs_tol=1e-6)
    return isclose(one, other, rel_tol=1e-6, abs_tol=max(tolerance, 1e-6))
