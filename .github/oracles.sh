#!/usr/bin/env bash
# Fetches what the tests hold our work against, into a folder: `oracles.sh FOLDER`. GitHub's own published schemas for the
# simulated GitHub and every request of ours, and axe for the dashboard's accessibility. They are not ours to ship. Pinned
# by version and hash; what is there already is kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:?usage: oracles.sh FOLDER}

packages=(
    "axe-core 4.14.1 e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"
    "@octokit/graphql-schema 15.26.1 053e74249dafce2118fd9b7ae499b067d57c5f910c57745699ac45108bc68d1e"
    "@octokit/openapi 23.0.2 71a18407dd5e8464f4e0525daf03deabbe65abd9287d6adc7b5d98f516cd0d0c"
    "@octokit/webhooks-examples 7.6.1 89e6cb1c6345d32e3dd775617fa54effbdc26c859e514898d7728e95e9738280"
    "@octokit/webhooks-schemas 7.6.1 94be9136c02e5246912d6a4b1f178f8d5430ae36839e46ecfcad0020f42f33ca"
)

mkdir -p "$folder"
if ! command -v npm >/dev/null; then
    echo "oracles: no npm here; installing one into .venv" >&2
    if command -v uv >/dev/null; then
        uv pip install --quiet --python .venv/bin/python --no-deps --require-hashes --requirement requirements/oracles.txt
    else
        .venv/bin/python -m pip install --quiet --no-deps --require-hashes --requirement requirements/oracles.txt
    fi
    PATH="$PWD/.venv/bin:$PATH"
fi
for package in "${packages[@]}"; do
    read -r name version sum <<<"$package"
    target=$folder/${name#@octokit/}-$version
    [[ -d $target ]] && continue
    echo "oracles: fetching $name $version" >&2
    archive=${name#@}
    archive=$folder/${archive//\//-}-$version.tgz
    npm pack --silent --pack-destination "$folder" "$name@$version" >/dev/null
    echo "$sum  $archive" | sha256sum --check --quiet
    mkdir "$target.part"
    tar --extract --gzip --file "$archive" --directory "$target.part" --strip-components 1
    mv "$target.part" "$target"
    rm "$archive"
done
