# Sourced by scripts/demo and scripts/test: virtual environments inside the checkout, with MPI from wheels.

# make_environment FOLDER EXTRAS: a virtual environment in FOLDER (under the checkout) with the project installed in it
# together with EXTRAS; recreated if the project's requirements have changed. Nothing is installed elsewhere.
make_environment() {
    local folder=$1 extras=$2 python wanted
    unset PYTHONPATH PYTHONHOME
    unset PYTHONDONTWRITEBYTECODE # otherwise hundreds of processes would compile the package anew
    wanted="$(cksum setup.cfg) $extras"
    if [ -f "$folder/complete" ] && [ "$(cat "$folder/complete")" = "$wanted" ] && "$folder/bin/python" -c "import spmd_grid"; then
        return 0
    fi
    python=$(find_python) || return 1
    echo "Setting up $folder with $("$python" --version) (a minute or so, once) ..."
    rm -rf "$folder"
    "$python" -m venv "$folder" || return 1
    if ! "$folder/bin/python" -m pip install --disable-pip-version-check --editable ".[$extras]" > "$folder/install.log" 2>&1; then
        tail -n 20 "$folder/install.log" >&2
        echo "The installation into $folder failed; all of its output is in $folder/install.log" >&2
        return 1
    fi
    printf '%s' "$wanted" > "$folder/complete"
}

find_python() {
    local candidate
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$candidate" > /dev/null && "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
            echo "$candidate"
            return 0
        fi
    done
    echo "spmd_grid needs Python 3.11 or newer with venv and pip; found none (on Debian: apt install python3-venv)" >&2
    return 1
}
