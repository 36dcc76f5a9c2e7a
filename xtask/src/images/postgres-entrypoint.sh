#!/bin/bash
# What the entrypoint of the official image does, as far as pods of an instance rely on it: the first start makes the data
# folder, the superuser and the database; every start runs the command. Nothing waits for the disk, since no test outlives
# the machine.
set -eu
: "${POSTGRES_USER:=postgres}"
: "${POSTGRES_DB:=$POSTGRES_USER}"

if ! [ -s "$PGDATA/PG_VERSION" ]; then
    if [ -z "${POSTGRES_PASSWORD:-}" ]; then
        echo "error: the environment variable POSTGRES_PASSWORD is missing or empty" >&2
        exit 1
    fi
    # All but the machine itself are asked for a password.
    initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") --auth=trust --no-sync
    printf '\nhost all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
    printf "\nlisten_addresses = '*'\nfsync = off\n" >>"$PGDATA/postgresql.conf"
    if [ "$POSTGRES_DB" != postgres ]; then
        printf 'CREATE DATABASE "%s"\n' "${POSTGRES_DB//\"/\"\"}" | postgres --single -F -D "$PGDATA" postgres
    fi
fi
exec "$@"
