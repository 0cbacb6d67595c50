#!/bin/bash
# Start-up script of a GPU machine that is paid by the hour (GCP: metadata `startup-script`; elsewhere: user data).
# Installs kernel-evo on the first boot, runs a worker, and switches the machine off after IDLE_MINUTES without work.
# The script also suits spot machines. If the machine stops with a notice, the worker returns its jobs. Without a notice,
# its leases expire. After the next start, the worker continues with the same identity and delivers remaining results.
#
# Set the following variables here or in the environment.
set -euo pipefail
: "${KERNEL_EVO_URL:=https://evo.example.org}"
: "${JOIN_TOKEN:=}"                # from `kernel-evo token join l4-vm --hours 24`; only the first boot uses it
: "${IDLE_MINUTES:=15}"
: "${SOURCE:=git+https://github.com/OWNER/kernel-evo}"  # or the path of a wheel on this machine
: "${HOME_FOLDER:=/opt/kernel-evo}"
: "${STATE:=/var/lib/kernel-evo-worker}"
: "${SWITCH_OFF:=systemctl poweroff}"

# prints the path of Python 3.11 or newer: the system's Python or, if that is older, a Python that uv installs
python_for_us() {
    for candidate in python3.13 python3.12 python3.11 python3; do
        if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            command -v "$candidate"
            return
        fi
    done
    python3 -m venv "$HOME_FOLDER-uv" >&2 || { apt-get install --yes python3-venv && python3 -m venv "$HOME_FOLDER-uv"; } >&2
    "$HOME_FOLDER-uv/bin/pip" install --quiet uv >&2
    UV_PYTHON_INSTALL_DIR="$HOME_FOLDER-python" "$HOME_FOLDER-uv/bin/uv" python install 3.11 >&2
    UV_PYTHON_INSTALL_DIR="$HOME_FOLDER-python" "$HOME_FOLDER-uv/bin/uv" python find 3.11
}

# prints the extra of kernel-evo for the driver, whose major CUDA version is in the output of nvidia-smi
cuda_extra() {
    if ! command -v nvidia-smi >/dev/null; then
        echo cpu-compiler
        return
    fi
    case $(nvidia-smi | sed -n 's/.*CUDA Version: \([0-9]*\).*/\1/p') in
        12) echo cuda12 ;;
        1[3-9]) echo cuda13 ;;
        *) echo "this driver is too old for CUDA 12: install one from 525 on" >&2 && return 1 ;;
    esac
}

if [ ! -x "$HOME_FOLDER/bin/kernel-evo" ]; then
    python=$(python_for_us)
    "$python" -m venv "$HOME_FOLDER"
    "$HOME_FOLDER/bin/pip" install --quiet "kernel-evo[$(cuda_extra)] @ $SOURCE"
fi
mkdir -p "$STATE"
if [ -n "$JOIN_TOKEN" ]; then
    (umask 077 && echo "$JOIN_TOKEN" >"$STATE/join-token")
fi

# the worker ends with status 0 if it has no work; after a kill or a failure, the machine stays on for inspection
"$HOME_FOLDER/bin/kernel-evo" worker --url "$KERNEL_EVO_URL" --data "$STATE" --cache "$STATE/cache" \
    ${JOIN_TOKEN:+--token-file "$STATE/join-token"} --exit-when-idle "$IDLE_MINUTES"
$SWITCH_OFF
