"""How a command ends: its exit code, and the failures that decide it. Pure."""

import difflib
import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import ClassVar, Final, Literal

from remoting.protocol.errors import (
    AnswerNotFramed,
    BodyError,
    InvokeError,
    InvokeTimeout,
    NotSupported,
    Refused,
    RemotingError,
    TlsFailed,
)

#: What to do about a change whose answer never came.
LOOK_BEFORE_REPEATING: Final = "it may have been done: check before you repeat it"
#: The same, of one that was on its way when the operator interrupted it.
WHILE_INTERRUPTED: Final = f"interrupted; {LOOK_BEFORE_REPEATING}"
#: Names in one sentence.
_NAMED_MAX: Final = 10
_NO_PERMISSION: Final = 16
_ACL_1_REMARK: Final = "AclException"
_OVER_LIMIT: Final = re.compile(r"a frame of (\d+) bytes is over the limit")
#: A frame has so many bytes beside the length that it begins with: what answers in another protocol begins with text.
_LENGTH_BYTES: Final = 4
#: An alert of TLS begins with its type and 3, the version.
_TLS_ALERT: Final = b"\x15\x03"
#: How reasons begin of requests that were never written.
_NOT_BEGUN: Final = ("cannot connect", "no TLS session")
NAMES_MAX: Final = 3
#: Of more names only those that contain the wanted one are found: comparing takes 20 us a name.
COMPARED_MAX: Final = 5_000
_LIKENESS_MIN: Final = 0.6


class ExitCode(IntEnum):
    """What the process exits with."""

    DONE = 0
    REFUSED = 1
    #: click's own.
    WRONG_USE = 2
    NOT_REACHABLE = 3
    NOT_FOUND = 4
    NO_RIGHTS = 5
    NOT_SUPPORTED = 6
    PARTLY_DONE = 7
    #: 128 and the number of SIGINT, as shells do.
    INTERRUPTED = 130


class CommandFailed(Exception):
    """A command has failed; the text is the sentence that the operator reads."""

    exit_code: ClassVar[ExitCode] = ExitCode.REFUSED


class WrongUse(CommandFailed):
    """Options, a profile or a file of keys cannot be used."""

    exit_code = ExitCode.WRONG_USE


class NotReachable(CommandFailed):
    """No server gave an answer."""

    exit_code = ExitCode.NOT_REACHABLE


class NoneNamed(NotReachable):
    """The profile names servers, and none of this kind."""

    def __init__(self, kind: str, option: str) -> None:
        super().__init__(f"the profile names no {kind}: add it there, or give {option}")


class UnknownName(CommandFailed):
    """No topic, broker, cluster or option has this name."""

    exit_code = ExitCode.NOT_FOUND


class NotShownNow(UnknownName):
    """Nobody shows this name, and a broker set that may have it cannot be asked."""

    exit_code = ExitCode.PARTLY_DONE


class NoRights(CommandFailed):
    """A server denied the request, or TLS failed."""

    exit_code = ExitCode.NO_RIGHTS


class NotSupportedThere(CommandFailed):
    """The server cannot do this: another product, or an older release."""

    exit_code = ExitCode.NOT_SUPPORTED


class PartlyDone(CommandFailed):
    """Some parts were done, or answered, and some were not."""

    exit_code = ExitCode.PARTLY_DONE


class Interrupted(CommandFailed):
    """The operator ended the command before everything was answered."""

    exit_code = ExitCode.INTERRUPTED


def first_of(names: Iterable[str], separator: str = ", ") -> str:
    """Return names for a sentence; of very many only the first."""
    every = list(names)
    more = [f"and {len(every) - _NAMED_MAX} more"] if len(every) > _NAMED_MAX else []
    return separator.join([*every[:_NAMED_MAX], *more])


def exit_code_of(error: RemotingError) -> ExitCode:
    """Return what a single request that failed with this exits with."""
    if isinstance(error, TlsFailed):
        return ExitCode.NO_RIGHTS
    if isinstance(error, InvokeError):
        return ExitCode.NOT_REACHABLE
    if isinstance(error, NotSupported):
        return ExitCode.NOT_SUPPORTED
    if isinstance(error, Refused) and (error.code == _NO_PERMISSION or _ACL_1_REMARK in (error.remark or "")):
        return ExitCode.NO_RIGHTS
    return ExitCode.REFUSED


def sentence_of(error: RemotingError) -> str:
    """Return what went wrong, with what to do about it where that is known."""
    match error:
        case InvokeError():
            return _lost(error)
        case NotSupported():
            return "the server does not know this request: it is another product, or too old"
        case BodyError():
            return f"the answer cannot be read: {error}"
        case Refused(code=code, remark=remark):
            return _refusal(code, remark)
        case _:
            return str(error)


def is_outcome_unknown(error: RemotingError) -> bool:
    """Return whether the server may have got a request that failed with this."""
    if isinstance(error, InvokeTimeout | AnswerNotFramed):
        return True
    return isinstance(error, InvokeError) and "connection" in error.reason and not error.reason.startswith(_NOT_BEGUN)


def is_cut_off(error: RemotingError) -> bool:
    """Return whether the server cannot have got a request that failed with this."""
    return exit_code_of(error) == ExitCode.NOT_REACHABLE and not is_outcome_unknown(error)


def state_of(error: RemotingError) -> tuple[Literal["failed", "unknown"], str]:
    """Return what became of a change whose request failed with this, and a sentence about it."""
    if is_outcome_unknown(error):
        return "unknown", f"{sentence_of(error)}; {LOOK_BEFORE_REPEATING}"
    return "failed", sentence_of(error)


def failure_of(error: RemotingError, address: str) -> CommandFailed:
    """Return the failure of a command whose only request, to this address, failed."""
    return failure_of_all([(address, error)])


def failure_of_all(errors: Sequence[tuple[str, RemotingError]]) -> CommandFailed:
    """Return the failure of a command none of whose requests, each with its address, succeeded.

    Its exit code is that of the first one that was answered, if any was.
    """
    answered = (error for _, error in errors if exit_code_of(error) != ExitCode.NOT_REACHABLE)
    code = exit_code_of(next(answered, errors[0][1]))
    kind = next(each for each in _KINDS if each.exit_code == code)
    return kind("; ".join(f"{address}: {sentence_of(error)}" for address, error in errors))


_KINDS: Final = (NotReachable, NoRights, NotSupportedThere, CommandFailed)


def _lost(error: InvokeError) -> str:
    if isinstance(error, TlsFailed):
        return f"{error.reason} (does the server speak TLS, and did the CA of --tls-ca sign its certificate?)"
    if isinstance(error, AnswerNotFramed):
        over_limit = _OVER_LIMIT.search(error.reason)
        if over_limit is None:
            return f"this is not a RocketMQ server: {error.reason}"
        return _no_frame(int(over_limit[1]) - _LENGTH_BYTES)
    if "closed the connection" in error.reason:
        return f"{error.reason} (it may need TLS: --tls or --tls-ca; or it is not a RocketMQ server)"
    return error.reason


def _no_frame(length: int) -> str:
    """Return what answers with these four bytes, which would be a length beyond the limit."""
    begin = length.to_bytes(_LENGTH_BYTES, "big")
    if begin == b"HTTP":
        return "this is an HTTP port, not a remoting port (NameServer 9876, controller 9878)"
    if begin.startswith(_TLS_ALERT):
        return "the server needs TLS: --tls or --tls-ca"
    if begin.isascii() and (text := begin.decode()).isprintable():
        return f"this is not a RocketMQ server: its answer begins with {text!r}"
    return f"the answer has {length} bytes, more than 16 MiB, or this is not a RocketMQ server"


def _refusal(code: int, remark: str | None) -> str:
    # Remarks of Java can be stack traces: the first line has the reason.
    lines = (remark or "").strip().splitlines()
    return f"refused with code {code}: {lines[0].strip() if lines else 'no remark'}"


def nearest_names(wanted: str, names: Iterable[str]) -> list[str]:
    """Return at most NAMES_MAX names that are like the wanted one, the likest first."""
    by_lower = {each.lower(): each for each in names}
    key = wanted.lower()
    if key in by_lower:
        return [by_lower[key]]
    contained = sorted((each for each in by_lower if key in each), key=lambda each: (len(each), each))
    compared = list(by_lower) if len(by_lower) <= COMPARED_MAX else []
    like = difflib.get_close_matches(key, compared, NAMES_MAX, _LIKENESS_MIN)
    return [by_lower[each] for each in dict.fromkeys([*like, *contained])][:NAMES_MAX]


def unknown_sentence(what: str, wanted: str, names: Iterable[str]) -> str:
    """Return the sentence for a topic, a broker or an option that nobody has, with what may have been meant."""
    found = nearest_names(wanted, names)
    return f"no {what} {wanted}" + (f"; did you mean {', '.join(found)}?" if found else "")
