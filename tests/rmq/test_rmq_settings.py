"""Where the servers are: options, environment, profile, defaults; files of keys and of profiles."""

import pytest

from rmq.cli.profiles import profile_of
from rmq.failures import CommandFailed, UnknownName, WrongUse, nearest_names, unknown_sentence
from rmq.site.access import keys_in, signer_of, tls_context_of
from rmq.site.settings import settings_of

PROFILES = """
current = "prod"

[profiles.prod]
namesrv = ["ns1:9876", "ns2:9876"]
controller = "c1:9878;c2:9878"
timeout = 5
tls = true

[profiles.test]
namesrv = "test:9876"
"""


@pytest.fixture
def config(tmp_path):
    def written(text, mode=0o644):
        file = tmp_path / "config.toml"
        file.write_text(text)
        file.chmod(mode)
        return {"RMQ_CONFIG": str(file)}

    return written


def test_without_anything_the_servers_are_those_of_this_machine():
    settings = settings_of({}, {}, {})

    assert settings.namesrv == ("127.0.0.1:9876",)
    assert settings.controller == ("127.0.0.1:9878",)
    assert "namesrv" in settings.defaults
    assert not settings.uses_tls


def test_option_counts_before_environment_before_profile():
    environment, profile = {"NAMESRV_ADDR": "env:1"}, {"namesrv": ["profile:1"], "timeout": 1.5}

    assert settings_of({"namesrv": "option:1"}, environment, profile).namesrv == ("option:1",)
    assert settings_of({}, environment, profile).namesrv == ("env:1",)
    assert settings_of({}, {}, profile).namesrv == ("profile:1",)
    assert settings_of({}, {}, profile).timeout_s == 1.5
    assert "namesrv" not in settings_of({}, {}, profile).defaults


def test_http_side_of_name_servers_is_on_their_hosts_unless_it_is_given():
    beside = settings_of({"namesrv": "ns1:9876;[::1]:9876;ns1:9976"}, {}, {}).namesrv_http

    assert beside == ("http://ns1:9880", "http://[::1]:9880")
    assert settings_of({"namesrv_http": "https://ns1:1"}, {}, {}).namesrv_http == ("https://ns1:1",)


def test_http_side_of_controllers_is_on_their_hosts_unless_it_is_given():
    assert settings_of({"controller": "c1:9878;c2:9868"}, {}, {}).controller_http == (
        "http://c1:9881",
        "http://c2:9881",
    )
    assert settings_of({"controller_http": "http://c1:1"}, {}, {}).controller_http == ("http://c1:1",)


def test_a_profile_without_controllers_asks_none_of_this_machine():
    settings = settings_of({}, {}, {"namesrv": "test:9876"})

    assert (settings.controller, settings.controller_http, settings.offset_manager) == ((), (), ())
    assert settings_of({"controller": "c1:9878"}, {}, {"namesrv": "test:9876"}).controller == ("c1:9878",)
    assert settings_of({}, {}, {"timeout": 5}).controller == ("127.0.0.1:9878",)


def test_several_addresses_are_tried_in_their_order_and_each_once():
    assert settings_of({"namesrv": "b:1; a:2;;b:1"}, {}, {}).namesrv == ("b:1", "a:2")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"namesrv": "ns1"}, "ns1 is not host:port"),
        ({"namesrv": "ns1:9876,ns2:9876"}, "ns1:9876,ns2:9876 is not host:port; separate several with ;"),
        (
            {"controller_http": "http://c1:9881,http://c2:9881"},
            "c2:9881 is not a URL such as .*; separate several with ;",
        ),
        ({"namesrv": ";"}, "nothing is not host:port"),
        ({"controller_http": "c1:9881"}, "c1:9881 is not a URL"),
        ({"namesrv_http": "ns1:9880"}, "--namesrv-http: ns1:9880 is not a URL"),
        ({"timeout": "soon"}, "soon is not a number of seconds"),
        ({"timeout": "nan"}, "nan is not a number of seconds"),
        ({"timeout": "0"}, "0 is not a number of seconds"),
        ({"tls": "perhaps"}, "tls must be true or false"),
        ({"offset_manager": "o1:9883"}, "o1:9883 is not a URL such as http://host:9883"),
        *(({name: ""}, "is blank") for name in ("namesrv", "tls_ca", "access_key_file", "timeout")),
    ],
)
def test_wrong_values_are_named_and_no_default_stands_for_them(options, text):
    with pytest.raises(WrongUse, match=text):
        settings_of(options, {"NAMESRV_ADDR": "ns1:9876", "RMQ_TLS_CA": "/ca"}, {})


@pytest.mark.parametrize(
    "url",
    [
        *("http://", "http://h:0", "http://h:99999", "http://user:secret@h:1", "http://h:1/path", "http://h:1?x"),
        *("http://[::1", "http://a b", "http://h\r\nX: y", "ftp://h"),
    ],
)
def test_url_that_is_more_or_less_than_a_host_is_wrong_use(url):
    with pytest.raises(WrongUse, match="is not a URL such as http://host:9881"):
        settings_of({"controller_http": url}, {}, {})


def test_blank_variable_of_the_environment_is_unset():
    assert settings_of({}, {"NAMESRV_ADDR": "", "RMQ_TIMEOUT": ""}, {"namesrv": "p:1"}).namesrv == ("p:1",)


def test_profile_is_the_wanted_one_else_of_the_environment_else_the_current(config):
    environment = config(PROFILES)

    assert profile_of(None, environment)["namesrv"] == ["ns1:9876", "ns2:9876"]
    assert profile_of("test", environment)["namesrv"] == "test:9876"
    assert profile_of(None, environment | {"RMQ_PROFILE": "test"})["namesrv"] == "test:9876"
    assert settings_of({}, {}, profile_of(None, environment)).uses_tls


def test_unknown_profile_is_answered_with_names_like_it(config):
    with pytest.raises(UnknownName, match="no profile prud; did you mean prod"):
        profile_of("prud", config(PROFILES))


def test_no_file_is_no_profile_unless_one_is_wanted(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert profile_of(None, {}) == {}
    with pytest.raises(WrongUse, match="does not exist"):
        profile_of("prod", {"RMQ_CONFIG": str(tmp_path / "absent")})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[profiles.prod", "is not TOML"),
        ("profiles = 1", "profiles must be tables"),
        ("currant = 'a'", "no setting currant; did you mean current"),
        ("current = 'a'\n[profiles.a]\nnameserv = 'x:1'", "profile a: no setting nameserv; did you mean namesrv"),
        ("current = 'a'\n[profiles]\na = 1", "profiles.a must be a table"),
        ("current = 'a'\n[profiles.a]\nnamesrv = []", "namesrv is blank"),
        ("current = 'a'\n[profiles.a]\ntls_ca = ''", "tls-ca is blank"),
        ("current = 'a'\n[profiles.a]\nnamesrv = ['a:1', 7]", "namesrv must be a text or a list of texts"),
        ("current = 'a'\n[profiles.a]\ntimeout = true", "the profile's timeout must be a text"),
        ("current = 'a'\n[profiles.a]\ntls = 'yes'", "tls must be true or false, not yes"),
        ("current = 7\n[profiles.7]", "no profile 7"),
        ("current = ''", "no profile"),
        ("current = 'a'\ncurrent = 'b'", "is not TOML"),
        ("x = " + "[" * 100_000, "nested too deeply"),
        ("\0", "is not TOML"),
    ],
)
def test_unusable_file_of_profiles_is_named(config, text, sentence):
    with pytest.raises(CommandFailed, match=sentence):
        settings_of({}, {}, profile_of(None, config(text)))


def test_profiles_with_keys_that_others_can_read_are_refused_with_what_to_do(config):
    text = "[profiles.prod]\naccess_key = 'user'\nsecret_key = 'password'\n"

    with pytest.raises(WrongUse, match="chmod 600"):
        profile_of("prod", config(text))
    settings = settings_of({}, {}, profile_of("prod", config(text, 0o600)))
    signer = signer_of(settings)
    assert signer is not None
    assert signer.credentials.access_key == "user"
    assert "password" not in repr(settings)


@pytest.mark.parametrize("text", ["accessKey=user\nsecretKey=a=b\n", "accessKey: user\nsecretKey: 'a=b'\n"])
def test_keys_are_read_as_properties_and_as_tools_yml(tmp_path, text):
    file = tmp_path / "tools.yml"
    file.write_text(text)
    file.chmod(0o600)

    keys = keys_in(str(file))

    assert (keys.access_key, keys.secret_key) == ("user", "a=b")


@pytest.mark.parametrize(
    ("text", "mode", "sentence"),
    [
        ("accessKey=user", 0o600, "must have lines accessKey"),
        ("accessKey=u\nsecretKey=s", 0o640, "chmod 600"),
        ("x" * 70_000, 0o600, "more than 65536 bytes"),
    ],
)
def test_unusable_file_of_keys_is_named_and_not_shown(tmp_path, text, mode, sentence):
    file = tmp_path / "keys"
    file.write_text(text)
    file.chmod(mode)

    with pytest.raises(WrongUse, match=sentence) as error:
        keys_in(str(file))
    assert "user" not in str(error.value)


def test_half_a_pair_of_keys_is_refused():
    with pytest.raises(WrongUse, match="both access_key and secret_key"):
        signer_of(settings_of({}, {}, {"access_key": "user"}))


def test_certificates_that_are_not_there_are_named():
    with pytest.raises(WrongUse, match="/nowhere"):
        tls_context_of(settings_of({"tls_ca": "/nowhere"}, {}, {}))


def test_nearest_names_are_those_with_small_mistakes_or_a_part():
    names = ["Orders", "OrdersRetry", "Payments"]

    assert nearest_names("orders", names) == ["Orders"]
    assert nearest_names("Ordres", names)[0] == "Orders"
    assert nearest_names("Retry", names) == ["OrdersRetry"]
    assert unknown_sentence("topic", "zzz", names) == "no topic zzz"


def test_of_very_many_names_only_those_that_contain_the_wanted_are_found():
    names = [f"topic-{number}" for number in range(6000)]

    assert nearest_names("5999", names) == ["topic-5999"]
    assert nearest_names("topik", names) == []
