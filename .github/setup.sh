#!/usr/bin/env bash
# Sets up all that a make target needs on a fresh Debian or Ubuntu with python3, git and make: `setup.sh run|dev`.
# Rules: what is there already is kept; packages come from the lock file with their hashes; every step says itself;
# a step that cannot be done ends with the one command that mends it. Make decides when this runs (its stamp files).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kind=${1:?usage: setup.sh run|dev}
lock=requirements/$kind.txt
[[ -f $lock ]] || { echo "set-up: there is no $lock; usage: setup.sh run|dev" >&2; exit 2; }

say() { printf 'set-up: %s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

# Run a command as root: directly, or through sudo where it asks for no password.
as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    else
        sudo -n "$@" </dev/null
    fi
}

# Install packages of the distribution, or end with the command that a person with more rights can type.
distribution_install() {
    local by_hand="please run: sudo apt-get install $*"
    command -v apt-get >/dev/null || fail "$* must be installed with this system's package manager"
    as_root true 2>/dev/null || fail "$* must be installed and this user is not root; $by_hand"
    say "installing $* from the distribution"
    {
        as_root apt-get update -qq
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
    } >/dev/null || fail "apt-get could not install $*; $by_hand"
}

# Print the path of the first Python that is new enough.
find_python() {
    local candidate
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        "$candidate" -c 'import sys; sys.version_info >= (3, 11) or sys.exit(1); print(sys.executable)' 2>/dev/null &&
            return
    done
    return 1
}

has_uv() { uv --version >/dev/null 2>&1; }

# Print the distribution's packages that are missing: the sandbox is made with bubblewrap, files are searched with
# ripgrep, and Debian keeps the part of Python that makes environments in a package of its own.
missing_packages() {
    local python=$1
    command -v bwrap >/dev/null || echo bubblewrap
    command -v rg >/dev/null || echo ripgrep
    [[ $kind == run ]] || command -v ssh-keygen >/dev/null || echo openssh-client
    has_uv || "$python" -c 'import ensurepip' 2>/dev/null ||
        "$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'
}

# The pages are tested in a browser as well. It is large (about 300 MB), so that only an automated run installs it; on a
# person's machine those tests skip and say why.
browser_for_tests() {
    [[ $kind == dev && ${CI:-} == true ]] || return 0
    command -v chromium google-chrome >/dev/null && return 0
    (distribution_install chromium) || say "going on without a browser: the tests that need one will skip"
}

# The queue in PostgreSQL is tested with the distribution's server, which the tests start by themselves. Only an automated
# run installs it, because the package also starts a server of its own.
database_for_tests() {
    [[ $kind == dev && ${CI:-} == true ]] || return 0
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && return
    (distribution_install postgresql) || say "going on without PostgreSQL: the tests that need it will skip"
}

# The documented configuration of a proxy is tested with the distribution's nginx. Only an automated run installs it. The
# package also starts a server on port 80; where that port is taken, this fails, and the program is there all the same.
proxy_for_tests() {
    [[ $kind == dev && ${CI:-} == true ]] || return 0
    [[ -x /usr/sbin/nginx ]] && return 0
    (distribution_install nginx-light) || [[ -x /usr/sbin/nginx ]] ||
        say "going on without nginx: the tests that need it will skip"
}

check_sandbox() {
    bwrap --unshare-user --ro-bind / / true 2>/dev/null ||
        say "warning: this system does not let bubblewrap make a user namespace, so nothing can run in the sandbox;" \
            "on Ubuntu: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
}

# A lock file names every package that is needed, so that dependencies are not resolved again. pip would ask for the newest
# version of a package that another one wants with an extra, such as coverage[toml], and refuse it for having no hash.
with_uv() {
    [[ -x .venv/bin/python ]] || uv venv --quiet --clear --python "$1" .venv
    say "installing $lock with uv"
    uv pip install --quiet --python .venv/bin/python --no-deps --require-hashes --compile-bytecode \
        --requirement "$lock"
    uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
}

with_pip() {
    if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        say "making .venv with $("$1" --version)"
        "$1" -m venv --clear .venv
    fi
    say "installing $lock with pip (about half a minute, once)"
    local pip=(.venv/bin/python -m pip --quiet --disable-pip-version-check install)
    "${pip[@]}" --no-deps --require-hashes --requirement "$lock"
    "${pip[@]}" --no-deps --no-build-isolation --editable .
}

python=$(find_python) || fail "Python 3.11 or newer is needed; please run: sudo apt-get install python3.11"
mapfile -t missing < <(missing_packages "$python")
[[ ${#missing[@]} == 0 ]] || distribution_install "${missing[@]}"
browser_for_tests
database_for_tests
proxy_for_tests
check_sandbox
if has_uv; then
    with_uv "$python"
else
    with_pip "$python"
fi
# Byte code is written at installation (pip does so by itself), whatever PYTHONDONTWRITEBYTECODE says: without it
# every start costs two seconds more.
.venv/bin/python -m compileall -qq bot webhooks
touch .venv/.set-up-run ".venv/.set-up-$kind"
say "done"
