#!/usr/bin/env bash
# Makes this machine fit for the sandbox: the distribution's bubblewrap and ripgrep, and user namespaces. The program
# runs it before its first work in a job, so that jobs that only read install nothing. Takes about a minute at most.
# What the machine refuses is said on stderr, a line each, and passed over: the program tells the thread what is missing.
set -uo pipefail

as_root() {
    if [[ $(id -u) == 0 ]]; then "$@"; else sudo -n "$@"; fi
}

# A mirror that does not answer must not hold a job for an hour. The machine's package lists often suffice; fetching new
# ones takes longer than all the rest.
missing=()
command -v bwrap >/dev/null || missing+=(bubblewrap)
command -v rg >/dev/null || missing+=(ripgrep)
if [[ ${#missing[@]} != 0 ]]; then
    limits="-qq -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 -o Acquire::Retries=1 -o DPkg::Lock::Timeout=20"
    install="DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $limits ${missing[*]}"
    said=$(as_root timeout -k 5 60 bash -c "$install || { apt-get update $limits; $install; }" 2>&1 >/dev/null) ||
        echo "not installed: ${missing[*]} (apt-get failed, or took more than 60 seconds): ${said##*$'\n'}" >&2
fi

# Ubuntu 24.04 denies user namespaces to plain programs; bubblewrap makes the sandbox from them. Where it can, because
# somebody gave it a profile of its own, the machine stays as it is.
# https://ubuntu.com/blog/ubuntu-23-10-restricted-unprivileged-user-namespaces
denied=kernel.apparmor_restrict_unprivileged_userns
if [[ $(sysctl -n "$denied" 2>/dev/null) == 1 ]] && ! bwrap --unshare-all --ro-bind / / true 2>/dev/null; then
    as_root sysctl -q -w "$denied=0" 2>/dev/null || echo "user namespaces stay restricted: sysctl $denied=0 failed" >&2
fi
