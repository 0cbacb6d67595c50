"""Requests that a local proxy forwards from other machines."""

import pytest
from starlette.datastructures import Headers

from api.auth.forwarded import sign_of_outside
from api.http.authority import host_name, is_loopback


def sign(*headers: tuple[str, str]) -> str | None:
    return sign_of_outside(Headers(raw=[(name.lower().encode(), value.encode()) for name, value in headers]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "127.0.0.1:8765"),
        ("Host", "LOCALHOST"),
        ("Host", "[::1]:8765"),
        ("X-Forwarded-Host", "localhost:8080"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-For", "127.0.0.1, ::1,127.0.0.2:99"),
        ("X-Real-IP", "::1"),
        ("Forwarded", 'for="[::1]:80";proto=https, for=127.0.0.1'),
        ("X-Forwarded-Prefix", "/evo"),
        ("X-Forwarded-Proto", "https"),
    ],
)
def test_local_requests_show_no_sign(name: str, value: str) -> None:
    assert sign((name, value)) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "evo.example.org"),
        ("Host", "127.0.0.1.example.org"),
        ("Host", "[::1"),
        ("X-Forwarded-Host", "evo.example.org"),
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Forwarded-For", "127.0.0.1, 203.0.113.9"),
        ("X-Forwarded-For", "203.0.113.9, 127.0.0.1"),
        ("X-Forwarded-For", "unknown"),
        ("X-Forwarded-For", ""),
        ("X-Real-IP", "2001:db8::1"),
        ("True-Client-IP", "192.168.1.2"),
        ("CF-Connecting-IP", "203.0.113.9"),
        ("Forwarded", "for=192.0.2.60;proto=http;by=203.0.113.43"),
        ("Forwarded", 'For="[2001:db8:cafe::17]:4711"'),
        ("Forwarded", "for=127.0.0.1;host=evo.example.org"),
        ("Forwarded", "for=_hidden"),
        ("Forwarded", "proto=https"),
    ],
)
def test_requests_of_other_machines_show_a_sign(name: str, value: str) -> None:
    assert sign(("Host", "127.0.0.1"), (name, value)) == f"{name.lower()}: {value}"


def test_every_repetition_of_a_header_is_read() -> None:
    assert sign(("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-For", "203.0.113.9")) == "x-forwarded-for: 203.0.113.9"


def test_host_names_are_parsed_from_authorities() -> None:
    assert [host_name(each) for each in ("A.b:1", "[::1]:2", "[::1", "", ":3")] == ["a.b", "::1", None, None, None]
    assert [is_loopback(each) for each in ("127.1.2.3", "::1", "LocalHost", "10.0.0.1", "")] == [
        *(True, True, True, False, False)
    ]
