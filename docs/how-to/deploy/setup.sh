#!/bin/sh
# Runs before the service processes do, and as often as one likes: brings the database up to date, and makes the first
# tokens where there are none. Needs KERNEL_EVO_DB; tokens are written as files that their owner alone can read.
set -eu
umask 077
admin=${ADMIN_TOKEN_FILE:-/run/kernel-evo/admin/token}
workers=${WORKER_TOKENS:-/run/kernel-evo/workers}
port=${SETUP_PORT:-8765}
url=http://127.0.0.1:$port

# a service of our own, which nobody else reaches: the first tokens can be made without one
kernel-evo serve --port "$port" &
service=$!
trap 'kill "$service" 2>/dev/null || true; wait "$service" 2>/dev/null || true' EXIT

tries=0
until python -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1] + "/api/v1/ready", timeout=5)' "$url" 2>/dev/null; do
    tries=$((tries + 1))
    if [ "$tries" -gt 120 ] || ! kill -0 "$service" 2>/dev/null; then
        echo "setup: the database could not be opened, see above" >&2
        exit 1
    fi
    sleep 0.5
done

# make FILE NAME ROLE: a token, unless the file has one
make() {
    if [ ! -s "$1" ]; then
        mkdir -p "$(dirname "$1")"
        kernel-evo token create "$2" --role "$3" --url "$url" --json >"$1.new"
        python -c 'import json, sys; print(json.load(open(sys.argv[1]))["secret"])' "$1.new" >"$1"
        rm "$1.new"
        echo "setup: made the token $2 ($3)"
    fi
}

make "$admin" admin admin
KERNEL_EVO_TOKEN=$(cat "$admin")
export KERNEL_EVO_TOKEN
# each in a folder of its own: a worker runs code of others, which should find its own token at most
make "$workers/cpu/token" worker-cpu worker
make "$workers/cuda/token" worker-cuda worker
