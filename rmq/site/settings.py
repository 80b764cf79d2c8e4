"""Where the servers are and how requests are sent: from options, the environment and a profile. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from remoting.protocol.addresses import host_and_port, split_address
from rmq.failures import WrongUse

DEFAULT_NAMESRV: Final = "127.0.0.1:9876"
DEFAULT_CONTROLLER: Final = "127.0.0.1:9878"
#: `httpPort` of a NameServer, and of a controller.
NAMESRV_HTTP_PORT: Final = 9880
CONTROLLER_HTTP_PORT: Final = 9881
DEFAULT_OFFSET_MANAGER: Final = "http://127.0.0.1:9883"
DEFAULT_TIMEOUT_S: Final = 3.0
TIMEOUT_S_MAX: Final = 600.0
PORT_MAX: Final = 65_535

#: Setting -> environment variable. mqadmin and Java clients read NAMESRV_ADDR too.
VARIABLES: Final = {
    "namesrv": "NAMESRV_ADDR",
    "controller": "RMQ_CONTROLLER",
    "controller_http": "RMQ_CONTROLLER_HTTP",
    "namesrv_http": "RMQ_NAMESRV_HTTP",
    "history": "RMQ_HISTORY",
    "offset_manager": "RMQ_OFFSET_MANAGER",
    "admin_token_file": "RMQ_ADMIN_TOKEN_FILE",
    "access_key_file": "RMQ_ACCESS_KEY_FILE",
    "tls": "RMQ_TLS",
    "tls_ca": "RMQ_TLS_CA",
    "tls_cert": "RMQ_TLS_CERT",
    "tls_key": "RMQ_TLS_KEY",
    "timeout": "RMQ_TIMEOUT",
}
#: In a profile, lists of addresses may be lists.
_LISTS: Final = frozenset({"namesrv", "controller", "controller_http", "namesrv_http", "offset_manager"})
_SAMPLE_URLS: Final = {
    "namesrv-http": "http://host:9880",
    "controller-http": "http://host:9881",
    "offset-manager": "http://host:9883",
}
_SWITCHES: Final = ("true", "false")
_URL: Final = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?")
#: Only in a profile: a command line is seen by everybody on the machine.
PROFILE_KEYS: Final = frozenset({*VARIABLES, "access_key", "secret_key"})


class SiteSettings(msgspec.Struct, frozen=True, kw_only=True):
    #: host:port, in the order in which they are tried.
    namesrv: tuple[str, ...]
    #: Empty if a profile names a site without controllers; so are those below.
    controller: tuple[str, ...]
    #: http:// or https:// and host:port; port 9881 of each controller's host where nobody has given it.
    controller_http: tuple[str, ...]
    #: As above, of NameServers, with port 9880.
    namesrv_http: tuple[str, ...] = ()
    #: `historyDir` of the servers, as a folder of this machine; blank for where `make run` has them write.
    history: str = ""
    offset_manager: tuple[str, ...] = (DEFAULT_OFFSET_MANAGER,)
    #: Its first line is the token for requests by HTTP that change something.
    admin_token_file: str = ""
    access_key_file: str = ""
    access_key: str = ""
    secret_key: str = ""
    #: TLS without a look at certificates, unless `tls_ca` is set.
    tls: bool = False
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S
    #: Settings that nobody has given: their values are defaults.
    defaults: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"SiteSettings(namesrv={self.namesrv}, controller={self.controller})"

    @property
    def uses_tls(self) -> bool:
        return bool(self.tls or self.tls_ca or self.tls_cert or self.tls_key)


def settings_of(options: Mapping[str, str], environment: Mapping[str, str], profile: Mapping[str, Any]) -> SiteSettings:
    """Return the settings: an option counts before the environment, that before the profile; raises WrongUse."""
    given: dict[str, str] = {}
    for name, variable in VARIABLES.items():
        text = _given(name, variable, options, environment, profile)
        if text is not None:
            given[name] = text
    # Servers of this machine belong to another site than those of a profile.
    here = (
        {} if _LISTS & profile.keys() else {"controller": DEFAULT_CONTROLLER, "offset_manager": DEFAULT_OFFSET_MANAGER}
    )
    named = {"namesrv": DEFAULT_NAMESRV} | here | given
    namesrv = _addresses("namesrv", named["namesrv"])
    controller = _addresses("controller", named["controller"]) if "controller" in named else ()
    return SiteSettings(
        namesrv=namesrv,
        controller=controller,
        controller_http=_urls("controller_http", named, _http_beside(controller, CONTROLLER_HTTP_PORT)),
        namesrv_http=_urls("namesrv_http", named, _http_beside(namesrv, NAMESRV_HTTP_PORT)),
        history=given.get("history", ""),
        offset_manager=_urls("offset_manager", named, ()),
        admin_token_file=given.get("admin_token_file", ""),
        access_key_file=given.get("access_key_file", ""),
        access_key=_profile_text("access_key", profile.get("access_key")),
        secret_key=_profile_text("secret_key", profile.get("secret_key")),
        tls=_switch("tls", given.get("tls", "false")),
        tls_ca=given.get("tls_ca", ""),
        tls_cert=given.get("tls_cert", ""),
        tls_key=given.get("tls_key", ""),
        timeout_s=_timeout(given.get("timeout")),
        defaults=frozenset(VARIABLES) - frozenset(given),
    )


def _given(
    name: str, variable: str, options: Mapping[str, str], environment: Mapping[str, str], profile: Mapping[str, Any]
) -> str | None:
    """Return the value that counts, None if nobody gave one; in the environment, blank means unset."""
    if name in options:
        text = options[name]
    elif not (text := environment.get(variable, "")):
        if name not in profile:
            return None
        text = _profile_text(name, profile[name])
    if not text:
        # An unset variable of a script must not lead to the default site, or drop TLS.
        raise WrongUse(f"{name.replace('_', '-')} is blank: give it a value, or leave it out")
    return text


def _profile_text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in _LISTS and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ";".join(value)
    if name == "timeout" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if name == "tls" and isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        wanted = "a text or a list of texts" if name in _LISTS else "a text"
        raise WrongUse(f"the profile's {name} must be {wanted}")
    return value


def _parts(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.strip() for each in text.split(";") if each.strip()))


def _addresses(option: str, text: str) -> tuple[str, ...]:
    addresses = _parts(text)
    wrong = next((each for each in addresses if split_address(each) is None), None)
    if wrong is not None or not addresses:
        raise WrongUse(
            f"--{option}: {wrong or 'nothing'} is not host:port; separate several with ; such as ns1:9876;ns2:9876"
        )
    return addresses


def _urls(name: str, named: Mapping[str, str], otherwise: tuple[str, ...]) -> tuple[str, ...]:
    if name not in named:
        return otherwise
    option = name.replace("_", "-")
    urls = tuple(each.rstrip("/") for each in _parts(named[name]))
    wrong = next((each for each in urls if not _is_url(each)), None)
    if wrong is not None or not urls:
        sample = _SAMPLE_URLS[option]
        raise WrongUse(f"--{option}: {wrong or 'nothing'} is not a URL such as {sample}; separate several with ;")
    return urls


def _http_beside(addresses: Sequence[str], port: int) -> tuple[str, ...]:
    """Return where the HTTP side of each server is by default: on its host."""
    hosts = (found[0] for each in addresses if (found := split_address(each)) is not None)
    urls = (f"http://{host_and_port(host, port)}" for host in hosts)
    return tuple(dict.fromkeys(each for each in urls if _is_url(each)))


def _is_url(text: str) -> bool:
    """Return whether a text has a scheme and a host, perhaps a port, and nothing else: a path would be ignored."""
    found = _URL.fullmatch(text)
    return found is not None and (found[2] is None or 0 < int(found[2][1:]) <= PORT_MAX)


def _switch(option: str, text: str) -> bool:
    if text not in _SWITCHES:
        raise WrongUse(f"{option} must be true or false, not {text}")
    return text == "true"


def _timeout(text: str | None) -> float:
    if text is None:
        return DEFAULT_TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 < seconds <= TIMEOUT_S_MAX:
        raise WrongUse(f"--timeout: {text} is not a number of seconds up to {TIMEOUT_S_MAX:.0f}")
    return seconds
