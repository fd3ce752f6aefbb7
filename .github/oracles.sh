#!/usr/bin/env bash
# Fetches GitHub's own published schemas, which the simulated GitHub and every request of ours are held against, into a
# folder: `oracles.sh FOLDER`. They are not ours to ship. Pinned by version and hash; what is there already is kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:?usage: oracles.sh FOLDER}

packages=(
    "graphql-schema 15.26.1 053e74249dafce2118fd9b7ae499b067d57c5f910c57745699ac45108bc68d1e"
    "openapi 23.0.2 71a18407dd5e8464f4e0525daf03deabbe65abd9287d6adc7b5d98f516cd0d0c"
    "webhooks-examples 7.6.1 89e6cb1c6345d32e3dd775617fa54effbdc26c859e514898d7728e95e9738280"
    "webhooks-schemas 7.6.1 94be9136c02e5246912d6a4b1f178f8d5430ae36839e46ecfcad0020f42f33ca"
)

mkdir -p "$folder"
if ! command -v npm >/dev/null; then
    echo "oracles: no npm here; installing one into .venv" >&2
    if command -v uv >/dev/null; then
        uv pip install --quiet --python .venv/bin/python --require-hashes --requirement requirements/oracles.txt
    else
        .venv/bin/python -m pip install --quiet --require-hashes --requirement requirements/oracles.txt
    fi
    PATH="$PWD/.venv/bin:$PATH"
fi
for package in "${packages[@]}"; do
    read -r name version sum <<<"$package"
    target=$folder/$name-$version
    [[ -d $target ]] && continue
    echo "oracles: fetching @octokit/$name $version" >&2
    archive=$folder/octokit-$name-$version.tgz
    npm pack --silent --pack-destination "$folder" "@octokit/$name@$version" >/dev/null
    echo "$sum  $archive" | sha256sum --check --quiet
    mkdir "$target.part"
    tar --extract --gzip --file "$archive" --directory "$target.part" --strip-components 1
    mv "$target.part" "$target"
    rm "$archive"
done
