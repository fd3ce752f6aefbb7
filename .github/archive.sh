#!/usr/bin/env bash
# Builds the archive that action.sh unpacks on a machine of this kind: `archive.sh FOLDER` writes
# FOLDER/plangate-packages-SOABI.tar.gz, with the packages of the lock file and their byte code in packages/, and
# the distribution's bubblewrap and ripgrep, with their licenses, in programs/ and licenses/.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "${1:?usage: archive.sh FOLDER}"
folder=$(cd "$1" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# The packages are those that the set-up itself installs from the registry; the program comes from the action's source.
mkdir source
cp -R "$root"/{bot,.github,requirements,pyproject.toml} source/
rm -f source/requirements/archives.txt
RUNNER_TEMP=$work GITHUB_ACTION_PATH=$work/source GITHUB_OUTPUT=$work/output bash "$root/.github/action.sh"
venv=$(sed -n 's/^home=//p' output)/venv
mv "$("$venv/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" packages
rm -rf packages/bot packages/plangate-* packages/pip packages/pip-*
# What is unpacked has other times than what was compiled, so the byte code is not held against them.
"$venv/bin/python" -I -m compileall -qq -f -j 0 -s "$work" --invalidation-mode unchecked-hash packages

# apt-get checks the distribution's signature.
mkdir programs licenses
apt-get -qq download bubblewrap ripgrep
for package in *.deb; do
    dpkg-deb --extract "$package" distribution
done
cp distribution/usr/bin/{bwrap,rg} programs/
for package in bubblewrap ripgrep; do
    cp "distribution/usr/share/doc/$package/copyright" "licenses/$package"
done
programs/bwrap --version >&2
programs/rg --version >&2

soabi=$("$venv/bin/python" -I -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))')
tar --create --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner packages programs licenses |
    gzip -9 --no-name > "$folder/plangate-packages-$soabi.tar.gz"
