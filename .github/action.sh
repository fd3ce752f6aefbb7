#!/usr/bin/env bash
# Sets up the Action in a new folder of the runner's: a virtual environment from the lock file with its hashes. Usage:
# action.sh, in a job, with ACTION as the action's own folder. What the sandbox needs is installed later, by sandbox.sh,
# in jobs that run one.
# Rules: nothing of the checked-out repository is read, run or written; nothing that an earlier job or step left is
# taken over, which is why there is no cache; the folder is handed on as the step's output `home`.
set -euo pipefail

# What earlier steps may have put into GITHUB_ENV to steer Python, pip, uv or git.
unset "${!PYTHON@}" "${!GIT_@}" "${!UV_CONFIG@}" PIP_TARGET PIP_PREFIX PIP_USER PIP_PYTHON VIRTUAL_ENV

home=$(mktemp -d "$RUNNER_TEMP/plangate.XXXXXXXX")
cd "$home"

# The first Python that is new enough, isolated: a folder or a variable of others does not reach it.
for python in python3 python3.14 python3.13 python3.12 python3.11 none; do
    "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
done
if [[ $python == none ]]; then
    echo "::error title=Plangate::Python 3.11 or newer is needed: run on ubuntu-24.04, or use actions/setup-python" >&2
    exit 2
fi

# The project is built from a copy, so that its own folder stays as it is.
mkdir source
cp -R "$ACTION"/{bot,webhooks,requirements,pyproject.toml,README.md,LICENSE} source/
if uv --version >/dev/null 2>&1; then
    uv --no-config venv --quiet --python "$(command -v "$python")" venv
    install=(uv --no-config pip install --quiet --python venv/bin/python --compile-bytecode)
else
    "$python" -I -m venv venv
    install=(venv/bin/python -I -m pip --quiet --disable-pip-version-check install)
fi
"${install[@]}" --require-hashes --requirement source/requirements/run.txt
"${install[@]}" --no-deps --no-build-isolation ./source
rm -rf source
cp "$ACTION/.github/sandbox.sh" .
echo "home=$home" >> "$GITHUB_OUTPUT"
