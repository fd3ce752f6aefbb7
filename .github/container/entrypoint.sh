#!/bin/sh
# Runs plangate with one variable for each file in /run/secrets that has the name of a variable, so that no secret stands
# in the configuration of a container. A variable that is set already stays.
set -eu
for file in /run/secrets/PLANGATE_* /run/secrets/ANTHROPIC_*; do
    name=${file##*/}
    if [ -f "$file" ] && ! printenv "$name" > /dev/null; then
        export "$name=$(cat "$file")"
    fi
done
exec /opt/plangate/bin/plangate "$@"
