"""Which addresses belong to the public internet: a table of our own, because `ipaddress.is_global` allows too much
(N1).

An address is written as the resolver writes it: plain IPv4 or IPv6, without a zone. Anything else is not an address.
"""

import ipaddress
from typing import Final

# https://www.iana.org/assignments/iana-ipv4-special-registry
_CLOSED_4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network; Linux treats 0.0.0.0 as itself
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT; the metadata service of one cloud is here
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's host, as seen from its machines
            "169.254.0.0/16",  # link-local; the metadata service of most clouds is here
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # automatic multicast tunneling
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarking
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
# https://www.iana.org/assignments/iana-ipv6-special-registry. Only 2000::/3 is allocated at all: loopback, mapped and
# compatible IPv4, NAT64 (64:ff9b::/96 and 64:ff9b:1::/48), discard, ULA, link-local, site-local and multicast are
# outside it.
_OPEN_6: Final = ipaddress.IPv6Network("2000::/3")
_CLOSED_6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: contains an IPv4 address
            "2620:4f:8000::/48",  # AS112
            "3ffe::/16",  # the 6bone, returned
            "3fff::/20",  # documentation
        ),
    )
)
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
"""The upper half of an interface identifier that contains an IPv4 address (RFC 5214, 6.1)."""


def is_public(text: str) -> bool:
    """Return whether a text is an address that a program may connect to; False for anything but a plain address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _CLOSED_4)
    if address.scope_id is not None or address not in _OPEN_6:
        return False
    isatap = (int(address) >> 32) & 0xFFFFFFFF in _ISATAP
    return not isatap and not any(address in network for network in _CLOSED_6)
