# Runs PostgreSQL in what a container would give it, as far as a test can tell: a file system of its own that is
# read-only but for the mounts, a user of its own without any capability, and its own processes. It runs as root of a
# user namespace that has the rights of the user who started the test, and no more.
set -eu
root=$1 system=$2 user=$3 group=$4
shift 4

mount --bind "$root" "$root"
mount --bind -o ro,nosuid,nodev "$system/usr" "$root/usr"
for device in null urandom; do
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t tmpfs tmpfs "$root/dev/shm"
while [ "$1" != -- ]; do
    # Only mounts of their own stay writable when the rest no longer is.
    mount --bind "$root$1" "$root$1"
    shift
done
shift
mount -o remount,bind,ro,nosuid,nodev "$root"

# The second namespace makes root the user that the pod asks for. Becoming another user takes all capabilities away.
exec unshare --user --map-user "$user" --map-group "$group" --root "$root" --wd / /bin/sh /entrypoint.sh "$@"
