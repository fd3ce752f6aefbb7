#!/usr/bin/env bash
# The steps of a release, in their order; release.yml runs them, each where it has the rights it needs.
#   release.sh check         refuse a version that cannot be released
#   release.sh build FOLDER  put the wheel and the source distribution there
#   release.sh tag FOLDER    add the checksums of all that is there, and tag the commit that names the archives
#   release.sh publish FOLDER  upload all that is there, push the tag, publish, and move the major version's tag
#   release.sh image FOLDER    build the container image of this machine's kind, try it, and put it there
#   release.sh push FOLDER     push the images that are there, under the version and the major version
# Each can be repeated after a failure: the same files give the same commit, and what is published already stays.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
step=${1:?usage: release.sh check|build|tag|publish|image|push [FOLDER]}
cd "$root"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
tag=v$version
major=v${version%%.*}

fail() {
    echo "release: $*" >&2
    exit 1
}

# Print what the changelog says of this version.
notes() { awk -v version="$version" '/^## / { on = $2 == version; next } on' CHANGELOG.md; }

check() {
    [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "the version $version in pyproject.toml is not MAJOR.MINOR.PATCH"
    [[ -n $(notes) ]] || fail "CHANGELOG.md has no section '## $version'"
    local name
    for name in workflow sweep; do
        grep -q "plangate/plangate@$major " "bot/cli/$name.yml" || fail "bot/cli/$name.yml does not use @$major"
    done
}

build() {
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) .venv/bin/python -m hatchling build -d "$folder"
}

# The tag's commit is main's with one file more, which pins the archives: who pins the commit pins them too. The commit
# has the date of main's, so that the same archives give the same commit.
tag() {
    local archive soabi sum address=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/releases/download/$tag
    (cd "$folder" && rm -f SHA256SUMS && sha256sum -- *) > "$root/.sums"
    mv "$root/.sums" "$folder/SHA256SUMS"
    for archive in "$folder"/plangate-packages-*.tar.gz; do
        soabi=${archive##*/plangate-packages-}
        sum=$(sha256sum "$archive")
        echo "${soabi%.tar.gz} ${sum%% *} $address/${archive##*/}"
    done > requirements/archives.txt
    git add --force requirements/archives.txt
    export GIT_AUTHOR_NAME=Plangate GIT_AUTHOR_EMAIL=plangate@users.noreply.github.com
    export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
    GIT_AUTHOR_DATE=$(git log -1 --format=%cI)
    export GIT_AUTHOR_DATE GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
    git commit --quiet --message "Release $version"
    git tag "$tag"
}

# A draft is seen by nobody. Published and tagged is only what is whole; the tag that everybody uses moves last.
publish() {
    gh release view "$tag" >/dev/null 2>&1 || gh release create "$tag" --draft --title "$version" --notes "$(notes)"
    if [[ $(gh release view "$tag" --json isDraft --jq .isDraft) == true ]]; then
        gh release upload "$tag" --clobber "$folder"/*
        git push origin "refs/tags/$tag"
        gh release edit "$tag" --draft=false --verify-tag
    fi
    git push --force origin "refs/tags/$tag:refs/tags/$major"
}

image() {
    local made=plangate:$version
    docker build --file .github/container/Dockerfile --tag "$made" --provenance=false \
        --label "org.opencontainers.image.source=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY" \
        --label "org.opencontainers.image.revision=$GITHUB_SHA" \
        --label "org.opencontainers.image.version=$version" \
        --label "org.opencontainers.image.licenses=MIT" .
    [[ $(docker run --rm --read-only --cap-drop=ALL "$made" version) == "plangate $version" ]] || fail "$made does not start"
    docker save --output "$folder/image-$(uname -m).tar" "$made"
}

# One list of the images of all kinds of machines. A version that is there stays, so that its digest stays what was
# attested. buildah and skopeo find the credentials where docker keeps them, and so does the attestation.
push() {
    local name=${REGISTRY:-ghcr.io}/${GITHUB_REPOSITORY,,} digest each
    docker login "${name%%/*}" --username "$GITHUB_ACTOR" --password-stdin <<< "$GH_TOKEN"
    if ! skopeo inspect --format '{{.Digest}}' "docker://$name:$version" >/dev/null 2>&1; then
        buildah manifest create "$name"
        for each in "$folder"/image-*.tar; do
            buildah manifest add "$name" "docker-archive:$each"
        done
        buildah manifest push --all --format oci "$name" "docker://$name:$version"
    fi
    digest=$(skopeo inspect --format '{{.Digest}}' "docker://$name:$version")
    skopeo copy --all --preserve-digests "docker://$name:$version" "docker://$name:${major#v}"
    printf 'name=%s\ndigest=%s\n' "$name" "$digest" >> "$GITHUB_OUTPUT"
}

if [[ $step == check ]]; then
    check
    exit
fi
mkdir -p "${2:?usage: release.sh $step FOLDER}"
folder=$(cd "$2" && pwd)
case $step in
    build | tag | publish | image | push) "$step" ;;
    *) fail "there is no step $step" ;;
esac
