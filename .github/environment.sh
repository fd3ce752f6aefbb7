# shellcheck shell=bash
# Sourced by each step of action.yml before any program starts, in bash -p. What earlier steps of the job wrote to
# GITHUB_ENV and GITHUB_PATH chooses no program, library, setting, or certificate from a checkout: it may hold what a
# stranger pushed. Addresses and proxies stay, because jobs set them in the same way (docs/action.md).
unset "${!PYTHON@}" "${!GIT_@}" "${!OPENSSL_@}" "${!PERL@}" "${!DPKG_@}" "${!UV_CONFIG@}" APT_CONFIG CDPATH GCONV_PATH
unset PIP_TARGET PIP_PREFIX PIP_USER PIP_PYTHON TAR_OPTIONS VIRTUAL_ENV XDG_CONFIG_DIRS

checkout=$(cd -P -- "${GITHUB_WORKSPACE:-/}" 2>/dev/null && pwd) || checkout=/ # which nothing is taken for being in

# Return whether a file or folder lies in the checkout, whatever links and dots its name goes through.
is_checked_out() {
    local place=$1 real
    [[ $place == */* ]] || place=./$place
    real=$(cd -P -- "$place" 2>/dev/null && pwd) || real=$(cd -P -- "${place%/*}/" 2>/dev/null && pwd) || return 1
    [[ $real/ == "$checkout"/* ]]
}

IFS=: read -ra folders <<< "$PATH"
PATH=
for folder in "${folders[@]}"; do
    is_checked_out "$folder" || PATH+=${PATH:+:}$folder
done
for name in HOME XDG_CONFIG_HOME PIP_CONFIG_FILE PIP_CERT SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE; do
    [[ -v $name ]] && is_checked_out "${!name}" && unset "$name"
done
unset checkout folder folders name
