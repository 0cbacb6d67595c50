#!/bin/sh
# Migrates the database, and creates the tokens of the administrator and of the workers in files that only their owner
# can read. Runs before the service processes start. A repeated run creates only missing tokens, and tokens that the
# database does not contain, for example after a restore. Needs KERNEL_EVO_DB.
set -eu
umask 077
admin=${ADMIN_TOKEN_FILE:-/run/kernel-evo/admin/token}
workers=${WORKER_TOKENS:-/run/kernel-evo/workers}
port=${SETUP_PORT:-8765}
url=http://127.0.0.1:$port

# without a public URL, the service starts although no token exists; only this container can reach it
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

# each token has its own folder, because a worker runs code of other people, which must not find a second token
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
known = {token.id for token in made}  # includes revoked tokens, so that a token that a person revoked is not replaced
for place, name, role in zip(map(Path, files), ("admin", "worker-cpu", "worker-cuda"), ("admin", "worker", "worker")):
    if place.exists() and place.read_text().count("_") > 1 and place.read_text().split("_")[1] in known:
        continue
    for token in made:  # a worker has only one token: revoke the lost token first
        if role == "worker" and token.name == name and token.revoked_at is None:
            client.revoke_token(token.id)
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f"{place.name}.new")
    draft.write_text(client.create_token(name, [role]).secret + "\n")
    draft.replace(place)
    print(f"setup: created the token {name} ({role})")
END
