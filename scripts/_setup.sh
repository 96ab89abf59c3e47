# Sourced by the other scripts: leaves $ROOT and $PYTHON (the project's own .venv, with bnfold and its tools in it).
# BNFOLD_VENV and BNFOLD_EXTRA name another environment, and what it needs: then .venv is neither made nor changed.
# Installs only when pyproject.toml or the interpreter changed since the last time, so that a second run costs nothing.

# Hundreds of processes are started from here, and uv leaves packages uncompiled: without bytecode kept, each process would
# compile all that it imports.
unset PYTHONDONTWRITEBYTECODE

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="$ROOT/${BNFOLD_VENV:-.venv}"
EXTRA="${BNFOLD_EXTRA:-dev}"

find_python() {
    local candidate
    for candidate in "${BNFOLD_PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    echo "bnfold needs Python 3.11 or newer; found $(python3 --version 2>&1 || echo none)." \
        "Install one, or name it: BNFOLD_PYTHON=/path/to/python $0" >&2
    return 1
}

venv_python() { # Windows keeps its interpreter elsewhere
    if [ -x "$VENV/Scripts/python.exe" ]; then echo "$VENV/Scripts/python.exe"; else echo "$VENV/bin/python"; fi
}

set_up() {
    PYTHON="$(venv_python)"
    if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        local base
        base="$(find_python)" || return 1
        echo "Making $VENV with $("$base" --version)" >&2
        "$base" -m venv --clear "$VENV" || return 1
        PYTHON="$(venv_python)"
    fi
    local stamp="$VENV/bnfold.stamp" wanted
    wanted="$("$PYTHON" -c 'import hashlib, sys; sys.stdout.write(
        hashlib.sha256(open(sys.argv[1], "rb").read() + sys.version.encode()).hexdigest())' "$ROOT/pyproject.toml")" || return 1
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
        echo "Installing bnfold[$EXTRA] into $VENV" >&2
        local pip=("$PYTHON" -m pip install --quiet --disable-pip-version-check)
        # uv takes a tenth of the time. Where it reaches no index, pip may be set up for another.
        { "${pip[@]}" uv && "$PYTHON" -m uv pip install --quiet --python "$PYTHON" --editable "$ROOT[$EXTRA]"; } >&2 ||
            "${pip[@]}" --editable "$ROOT[$EXTRA]" >&2 || return 1
        echo "$wanted" >"$stamp"
    fi
}

set_up
