#!/bin/sh
# Runs before the service processes, any number of times: migrates the database, and creates the first tokens if there
# are none, or if the database does not know those stored here, as after a restore.
# Needs KERNEL_EVO_DB; tokens are written to files that only their owner can read.
set -eu
umask 077
admin=${ADMIN_TOKEN_FILE:-/run/kernel-evo/admin/token}
workers=${WORKER_TOKENS:-/run/kernel-evo/workers}
port=${SETUP_PORT:-8765}
url=http://127.0.0.1:$port

# a private service that only this script reaches: one with a public URL would not start without a token
KERNEL_EVO_PUBLIC_URL='' kernel-evo serve --port "$port" &
service=$!
trap 'kill "$service" 2>/dev/null || true; wait "$service" 2>/dev/null || true' EXIT

tries=0
until python -c 'import sys, urllib.request as u; u.build_opener(u.ProxyHandler({})).open(sys.argv[1] + "/api/v1/ready", timeout=5)' "$url" 2>/dev/null; do
    tries=$((tries + 1))
    if [ "$tries" -gt 120 ] || ! kill -0 "$service" 2>/dev/null; then
        echo "setup: the database could not be opened, see above" >&2
        exit 1
    fi
    sleep 0.5
done

# each token in its own folder: a worker runs code of others, which must find no other token
python - "$url" "$admin" "$workers/cpu/token" "$workers/cuda/token" <<'END'
import sys
from pathlib import Path

from api.settings import Settings
from db.engine.key import local_key
from evo.client import Client

url, *files = sys.argv[1:]
# the key of the service grants access even if all tokens of the database are lost
client = Client(url, token=local_key(Settings().key_file))
made = client.tokens().items
known = {token.id for token in made}  # revoked ones too: a person revoked them
for place, name, role in zip(map(Path, files), ("admin", "worker-cpu", "worker-cuda"), ("admin", "worker", "worker")):
    if place.exists() and place.read_text().count("_") > 1 and place.read_text().split("_")[1] in known:
        continue
    for token in made:  # a worker has one token: the one that was lost would be in the way
        if role == "worker" and token.name == name and token.revoked_at is None:
            client.revoke_token(token.id)
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f"{place.name}.new")
    draft.write_text(client.create_token(name, [role]).secret + "\n")
    draft.replace(place)
    print(f"setup: made the token {name} ({role})")
END
