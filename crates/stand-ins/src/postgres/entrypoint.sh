# What the entrypoint of the official image does: the first start makes the data folder, the superuser and the database,
# and every start runs the server. Nothing waits for the disk, since no test outlives the machine.
set -eu
programs=$1 address=$2 port=$3 password_file=$4 create_database=$5
exec 3<&0 </dev/null

if ! [ -s "$PGDATA/PG_VERSION" ]; then
    # The image asks all but the machine itself for a password. Here everybody comes from the machine itself, so it is
    # asked too.
    "$programs/initdb" --username="${POSTGRES_USER:-postgres}" --pwfile="$password_file" \
        --auth-local=trust --auth-host=scram-sha-256 --no-sync
    if [ -n "$create_database" ]; then
        printf '%s\n' "$create_database" | "$programs/postgres" --single -F -D "$PGDATA" postgres
    fi
fi

# Each line of the input is a signal for the server. The input ends with the test, however that ends, and the server has
# to end too. It may only just be starting, when it does not notice signals yet: hence the loop.
{
    while read -r signal <&3; do
        kill -"$signal" 1
    done
    while kill -QUIT 1; do :; done
} &
exec "$programs/postgres" -F -c "listen_addresses=$address" -c "port=$port" 3<&-
