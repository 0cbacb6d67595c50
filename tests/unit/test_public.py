"""The public URL and trusted proxies are parsed and applied to requests."""

import ipaddress
import re
from typing import Any

import anyio
import pytest

from api.events.webhooks.outbound import target_of
from api.http.middleware.forwarding import KEY, Address, Forwarding
from api.http.public_url import Proxies, PublicUrl
from api.settings import Settings
from api.web.rendering import HERE, below
from evo.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "scheme", "authority", "prefix"),
    [
        ("https://evo.example.org", "https", "evo.example.org", ""),
        ("https://EVO.example.org:443/", "https", "evo.example.org", ""),
        ("http://evo.example.org:8080/evo/", "http", "evo.example.org:8080", "/evo"),
        ("https://tools.example.org/a/b.c-d_~e", "https", "tools.example.org", "/a/b.c-d_~e"),
        ("http://[2001:db8::1]:81/x", "http", "[2001:db8::1]:81", "/x"),
        ("https://münchen.example", "https", "xn--mnchen-3ya.example", ""),
    ],
)
def test_public_urls_are_parsed(text: str, scheme: str, authority: str, prefix: str) -> None:
    url = PublicUrl.of(text)
    assert (url.scheme, url.authority, url.prefix) == (scheme, authority, prefix)
    assert str(url) == f"{scheme}://{authority}{prefix}"
    assert PublicUrl.of(str(url)) == url


@pytest.mark.parametrize(
    "text",
    [
        *("evo.example.org", "ftp://evo.example.org", "https://", "https://evo.example.org:0", "https://[::1"),
        *("https://me@evo.example.org", "https://evo.example.org/?a=1", "https://evo.example.org/#a"),
        *("https://evo.example.org/a/../b", "https://evo.example.org/a//b", "https://evo.example.org/a%20b"),
        *("https://evo.example.org\\@elsewhere", "https://*.example.org", "https://-evo.example.org"),
        *("https://evo..example.org", "https://[fe80::1%25eth0]", "https://[::g]", "https://evo%2eexample.org"),
        *('https://evo.example.org/"x', "https://evo.example.org/.", "https://evo.example.org:port"),
    ],
)
def test_invalid_public_urls_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|may have|may contain only|remove it|use a port"):
        PublicUrl.of(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("https://evo.example.org:0", "has port 0; use a port from 1 to 65535"),
        ("https://evo.example.org/a b", "contains a space or an invisible character; remove it"),
        ("https://-evo.example.org", "has no valid host name"),
        ("ftp://evo.example.org", "is not an http:// or https:// URL"),
    ],
)
def test_error_names_the_invalid_part_of_a_public_url(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        PublicUrl.of(text)


def test_trusted_proxies_accept_ipv4_mapped_networks() -> None:
    proxies = Proxies.of("::ffff:10.0.0.0/104, ::ffff:192.0.2.7")
    assert [proxies.trusts(each) for each in ("10.1.2.3", "::ffff:10.1.2.3", "192.0.2.7", "192.0.2.8", "::1")] == [
        *(True, True, True, False, False)
    ]


def test_trusted_proxies_are_addresses_and_networks() -> None:
    proxies = Proxies.of("10.0.0.5, 10.1.0.0/16,2001:db8::/32,")
    trusted = ("10.0.0.5", "10.1.255.1", "::ffff:10.0.0.5", "2001:db8::9")
    assert all(proxies.trusts(address) for address in trusted)
    assert not any(proxies.trusts(address) for address in ("10.0.0.6", "127.0.0.1", "2001:db9::1", "", "testclient"))
    assert Proxies.of("*").trusts("203.0.113.9")
    assert not Proxies.of("").trusts("127.0.0.1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nginx", "'nginx' is not an IP address or network"),
        ("10.0.0.5/24", "write 10.0.0.0/24"),
        ("10.0.0.1;10.0.0.2", "is not an IP address"),
        ("127.0.0.1,*", r"'\*' is not an IP address or network"),
        ("10.0.0.1:80", "is not an IP address"),
    ],
)
def test_invalid_trusted_proxies_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Proxies.of(text)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KERNEL_EVO_PUBLIC_URL", "evo.example.org"),
        ("KERNEL_EVO_TRUSTED_PROXIES", "10.0.0.5/24"),
        ("KERNEL_EVO_KEEP_DAYS", "a week"),
        ("KERNEL_EVO_WEBHOOK_SECRET", "tiny-secret"),
        ("KERNEL_EVO_LOG_LEVEL", "loud"),
    ],
)
def test_error_names_the_invalid_setting_variable_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidInput) as error:
        Settings.read()
    assert str(error.value).startswith(f"{variable}: ")
    assert f"`unset {variable}`" in str(error.value)
    assert "tiny-secret" not in str(error.value)


def test_error_names_the_option_of_an_invalid_setting() -> None:
    with pytest.raises(InvalidInput, match=r"^--public-url: 'evo' has no scheme; write https://evo"):
        Settings.read(public_url="evo")


def seen(
    headers: dict[str, str],
    *,
    path: str = "/",
    peer: str = "127.0.0.1",
    public: str | None = None,
    proxies: str = "127.0.0.1",
    location: str | None = None,
) -> tuple[dict[str, Any], str | None]:
    """Return the scope that the application receives, and the location header that the client receives."""
    sent: list[dict[str, Any]] = []
    inside: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        inside.update(scope)
        given = [] if location is None else [(b"location", location.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": given})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("the application must not read the body")

    scope = {
        "type": "http",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "client": (peer, 4711),
        "headers": [
            (name.lower().encode(), value.encode()) for name, value in ({"Host": "127.0.0.1:8765"} | headers).items()
        ],
    }
    forwarding = Forwarding(
        app,
        public=PublicUrl.of(public) if public else None,
        proxies=Proxies.of(proxies),
        own=frozenset({"api", "workers"}),
    )
    anyio.run(forwarding, scope, receive, send)
    return inside, dict(sent[0]["headers"]).get(b"location", b"").decode() or None


def host_of(scope: dict[str, Any]) -> str:
    (host,) = [value for name, value in scope["headers"] if name == b"host"]
    return str(host.decode())


def address(scope: dict[str, Any]) -> Address:
    found = scope[KEY]
    assert isinstance(found, Address)
    return found


def test_forwarded_headers_of_trusted_proxies_are_used() -> None:
    said = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evo.example.org"}
    scope, _ = seen(said)
    assert (scope["client"][0], scope["scheme"], host_of(scope)) == ("203.0.113.9", "https", "evo.example.org")
    assert str(address(scope).public) == "https://evo.example.org"


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("evo.example.org", "8443", "evo.example.org:8443"),
        ("evo.example.org:8443", "8443", "evo.example.org:8443"),
        ("evo.example.org:9000", "8443", "evo.example.org:9000"),
        ("[2001:db8::1]", "8443", "[2001:db8::1]:8443"),
        ("evo.example.org", "443", "evo.example.org"),
        ("evo.example.org", "80", "evo.example.org"),
        ("evo.example.org", "8443, 80", "evo.example.org:8443"),
        ("evo.example.org", "99999", "evo.example.org"),
        ("evo.example.org", "0", "evo.example.org"),
        ("evo.example.org", "8443/x", "evo.example.org"),
        ("evo.example.org", "", "evo.example.org"),
    ],
)
@pytest.mark.parametrize("header", ["X-Forwarded-Host", "Host"])
def test_forwarded_port_completes_a_host_without_a_port(host: str, port: str, expected: str, header: str) -> None:
    scope, _ = seen({header: host, "X-Forwarded-Proto": "https", "X-Forwarded-Port": port})
    assert (host_of(scope), address(scope).public.origin) == (expected, f"https://{expected}")
    scope, _ = seen({header: host, "X-Forwarded-Port": port}, proxies="")
    assert host_of(scope) == (host if header == "Host" else "127.0.0.1:8765"), "the peer is not trusted"


def test_forwarded_headers_of_untrusted_peers_are_ignored() -> None:
    said = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evo.example.org"}
    scope, _ = seen({**said, "X-Forwarded-Prefix": "/evo"}, peer="198.51.100.7")
    assert (scope["client"], scope["scheme"], host_of(scope)) == (("198.51.100.7", 4711), "http", "127.0.0.1:8765")
    assert str(address(scope).public) == "http://127.0.0.1:8765"
    assert address(scope).outside is not None, "the headers still show that the client is on another machine"


def test_forwarded_header_is_used_without_x_forwarded_headers() -> None:
    scope, _ = seen({"Forwarded": 'for="[2001:db8::17]:4711";proto=https;host=evo.example.org, for=127.0.0.1'})
    assert (scope["client"][0], scope["scheme"], host_of(scope)) == ("2001:db8::17", "https", "evo.example.org")


@pytest.mark.parametrize(
    ("chain", "client"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, 203.0.113.9", "203.0.113.9"),
        ("203.0.113.9, 10.0.0.1", "203.0.113.9"),
        ("10.0.0.2, 10.0.0.1", "10.0.0.2"),
        ("203.0.113.9:5678", "203.0.113.9"),
        ("[2001:db8::1]:5678", "2001:db8::1"),
        ("", "127.0.0.1"),
    ],
)
def test_client_address_is_the_last_address_that_is_not_a_trusted_proxy(chain: str, client: str) -> None:
    scope, _ = seen({"X-Forwarded-For": chain}, proxies="127.0.0.1,10.0.0.0/8")
    assert scope["client"][0] == client


@pytest.mark.parametrize(
    ("path", "served"), [("/evo", "/"), ("/evo/", "/"), ("/evo/a", "/a"), ("/a", "/a"), ("/evox", "/evox")]
)
def test_path_prefix_is_removed_unless_the_proxy_removed_it(path: str, served: str) -> None:
    for scope, _ in (
        seen({"X-Forwarded-Prefix": "/evo/"}, path=path, proxies=""),
        seen({}, path=path, public="https://x.example/evo"),
    ):
        assert (scope["path"], scope["raw_path"].decode()) == (served, served)
        assert address(scope).public.prefix == "/evo"


def test_x_script_name_sets_the_prefix_without_x_forwarded_prefix() -> None:
    scope, _ = seen({"X-Script-Name": "/evo"})
    assert address(scope).public.prefix == "/evo"
    scope, _ = seen({"X-Forwarded-Prefix": "/evo", "X-Script-Name": "/other"})
    assert address(scope).public.prefix == "/evo"


def test_page_path_is_unchanged_if_the_prefix_equals_the_page_name() -> None:
    scope, _ = seen({}, path="/workers/live", public="https://x.example/workers")
    assert scope["path"] == "/workers/live"


@pytest.mark.parametrize("given", ["//evil.example", "/a/../b", '/"onload="x', "evo", "/a b", "/ä", "/a//b", "/."])
def test_invalid_path_prefixes_are_ignored(given: str) -> None:
    scope, _ = seen({"X-Forwarded-Prefix": given})
    assert address(scope).public.prefix == ""


@pytest.mark.parametrize(
    ("location", "sent"),
    [
        ("/", "/evo/"),
        ("/sign-in?next=%2F", "/evo/sign-in?next=%2F"),
        ("http://127.0.0.1:8765/families/", "/evo/families/"),
        ("https://elsewhere.example/", "https://elsewhere.example/"),
        ("//elsewhere.example/", "//elsewhere.example/"),
    ],
)
def test_redirects_get_the_path_prefix(location: str, sent: str) -> None:
    assert seen({"X-Forwarded-Prefix": "/evo"}, location=location)[1] == sent


def test_public_url_setting_has_precedence_over_proxy_headers() -> None:
    for headers in ({}, {"X-Forwarded-Proto": "http", "X-Forwarded-Prefix": "/other"}):
        scope, _ = seen(headers, public="https://tools.example.org/evo", proxies="")
        assert str(address(scope).public) == "https://tools.example.org/evo"
        assert scope["scheme"] == "https"
    scope, _ = seen({"X-Forwarded-Prefix": "/evo"}, public="https://tools.example.org")
    assert str(address(scope).public) == "https://tools.example.org/evo"


def test_every_url_of_a_page_gets_the_path_prefix() -> None:
    html = (
        '<a href="/x"><img src="/y"><form action="/z"><button formaction="/b"><p data-live-from="/l" data-label="/no">'
    )
    assert below("/evo", html) == (
        '<a href="/evo/x"><img src="/evo/y"><form action="/evo/z"><button formaction="/evo/b">'
        '<p data-live-from="/evo/l" data-label="/no">'
    )
    same = '<a href="#x"><a href="https://x.example/"><a href="//x.example/"><p>href=&#34;/x&#34;'
    assert below("/evo", same) == same
    assert below("", html) == html


def test_page_templates_have_urls_only_in_attributes_that_get_the_prefix() -> None:
    known = {"href", "src", "action", "formaction", "data-from", "data-live-from", "data-address"}
    for template in HERE.rglob("*.html"):
        found = set(re.findall(r'\s([a-z-]+)\s*=\s*["\']?/', template.read_text()))
        assert found <= known, f"{template.name} has a URL in an attribute that gets no prefix"


@pytest.mark.parametrize(
    "given", ["nota url", "a b/c", "x:99999", "-a", "//", "", "evo?x=1", "a@b", "host/a//b", "[::1"]
)
def test_error_for_an_invalid_public_url_contains_an_example(given: str) -> None:
    with pytest.raises(ValueError, match=r"; write one like https://evo\.example\.org$"):
        PublicUrl.of(given)


@pytest.mark.parametrize("given", ["evo", "tools.example.org:8443/evo", "10.0.0.1"])
def test_error_for_a_public_url_without_scheme_suggests_a_valid_url(given: str) -> None:
    with pytest.raises(ValueError, match="has no scheme") as refused:
        PublicUrl.of(given)
    suggested = str(refused.value).rpartition("write ")[2]
    assert str(PublicUrl.of(suggested)) == suggested == f"https://{given}"


@pytest.mark.parametrize(
    ("given", "example"),
    [
        ("hooks.example.net/x", "https://hooks.example.net/x"),
        ("hooks.example.net:99999/x", "https://example.org/hook"),
        ("-a.example.net", "https://example.org/hook"),
        ("a..example.net", "https://example.org/hook"),
        ("nota url", "https://example.org/hook"),
        (f"hooks.example.net/{'x' * 300}", "https://example.org/hook"),
    ],
)
def test_error_for_a_webhook_url_without_scheme_suggests_a_valid_url(given: str, example: str) -> None:
    resolve = lambda name, port: [ipaddress.ip_address("1.1.1.1")]  # noqa: E731
    with pytest.raises(InvalidInput, match=rf", e\.g\. {re.escape(example)}$"):
        target_of(given, private=False, resolve=resolve)
    target_of(example, private=False, resolve=resolve)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("https://hooks.example.net:99999/x", "is not a valid URL (Port out of range 0-65535)"),
        ("https://hooks.example.net/a\nb", "contains a line break or another invisible character; remove it"),
        ("https:///x", "with a host name and without a user name"),
        ("https://me@hooks.example.net/x", "with a host name and without a user name"),
    ],
)
def test_error_names_the_invalid_part_of_a_webhook_url(given: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(reason)):
        target_of(given, private=False, resolve=lambda name, port: [ipaddress.ip_address("1.1.1.1")])
