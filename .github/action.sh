#!/usr/bin/env bash
# Sets up the Action in a new folder of the runner's. Usage: action.sh, in a job, with
# GITHUB_ACTION_PATH as the action's folder.
# A release names one archive for each kind of runner, with its checksum: the packages of the lock file, and the
# programs of the sandbox (archive.sh builds it). Where there is none for this machine, or it does not arrive, the
# packages come from the registry, by the lock file with its hashes, and sandbox.sh installs the programs in jobs that
# need them.
# Rules: nothing of the checked-out repository is read, run or written; nothing that an earlier job or step left is
# taken over, which is why there is no cache; the folder is handed on as the step's output `home`.
set -euo pipefail

# shellcheck source=environment.sh
. "$GITHUB_ACTION_PATH/.github/environment.sh"

home=$(mktemp -d "$RUNNER_TEMP/plangate.XXXXXXXX")
cd "$home"

# Download, check and unpack the archive of this machine's Python. Fails if there is none.
unpack_archive() {
    local soabi sum url
    soabi=$(venv/bin/python -I -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))')
    read -r _ sum url < <(grep "^$soabi " "$GITHUB_ACTION_PATH/requirements/archives.txt" 2>/dev/null) || return 1
    curl -q --silent --show-error --fail --location --connect-timeout 5 --max-time 30 --output archive "$url" || return 1
    if ! echo "$sum  archive" | sha256sum --check --status; then
        echo "::warning title=Plangate::$url is not the file that this release names; the registry is used instead" >&2
        return 1
    fi
    mkdir unpacked
    tar --extract --gzip --no-same-owner --file archive --directory unpacked || return 1
    rm archive && rmdir "$packages" && mv unpacked/packages "$packages" && mv unpacked/programs . || return 1
    # A program that lacks a library here is none: sandbox.sh then installs the distribution's.
    local program
    for program in programs/*; do
        "$program" --version >/dev/null 2>&1 || rm -f "$program"
    done
}

# Byte code is written by the first import, so that what is never imported costs nothing.
install_from_registry() {
    local lock=$GITHUB_ACTION_PATH/requirements/action.txt
    local how=(--quiet --no-deps --only-binary :all: --require-hashes --requirement "$lock")
    if uv --version >/dev/null 2>&1; then
        uv --no-config pip install --python venv/bin/python "${how[@]}"
        return
    fi
    # The machine's own pip, if it can install elsewhere, saves the seconds that another one takes.
    local pip=("$python" -I -m pip --python venv/bin/python)
    if ! "$python" -I -c 'import pip, sys; sys.exit(int(pip.__version__.split(".")[0]) < 23)' 2>/dev/null; then
        "$python" -I -m venv venv
        pip=(venv/bin/python -I -m pip)
    fi
    "${pip[@]}" --disable-pip-version-check install --no-compile "${how[@]}"
}

# The first Python that is new enough, isolated: a folder or a variable of others does not reach it.
for python in python3 python3.14 python3.13 python3.12 python3.11 none; do
    "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
done
if [[ $python == none ]]; then
    echo "::error title=Plangate::Python 3.11 or newer is needed: run on ubuntu-24.04, or use actions/setup-python" >&2
    exit 2
fi
"$python" -I -m venv --without-pip venv
packages=$(venv/bin/python -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# The program itself is the action's own source, whatever the packages come from. It is compiled meanwhile: in the
# sandbox, where it cannot write, every start would compile it again.
mkdir program
cp -R "$GITHUB_ACTION_PATH/bot" program/
venv/bin/python -I -m compileall -qq program &
unpack_archive || install_from_registry
wait
mv program/bot "$packages/"
# What an installation would leave behind for importlib.metadata, which the program asks for its version.
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$GITHUB_ACTION_PATH/pyproject.toml")
mkdir "$packages/plangate-$version.dist-info"
printf 'Metadata-Version: 2.1\nName: plangate\nVersion: %s\n' "$version" > metadata
mv metadata "$packages/plangate-$version.dist-info/METADATA"
printf 'import sys\nfrom bot.cli.main import main\nsys.exit(main())\n' > venv/bin/plangate
cp "$GITHUB_ACTION_PATH/.github/sandbox.sh" .
echo "home=$home" >> "$GITHUB_OUTPUT"
