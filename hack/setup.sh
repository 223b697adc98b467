# Sourced by the other scripts in hack/: goes to the repository's top and puts a
# virtual environment on PATH, made on first use and again when pyproject.toml changes.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# As root on Debian, a missing package is installed; otherwise the caller says which.
install_package() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "installing the Debian package $1"
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends "$1"; } >/dev/null 2>&1
}

need_package() { # COMMAND PACKAGE
    command -v "$1" >/dev/null || { install_package "$2" && command -v "$1" >/dev/null; }
}

# PYTHON if it is set, else the distribution's, which is an optimised build and what a
# node has, else the first on PATH.
find_python() {
    local candidate
    need_package python3 python3 || die "python3 not found: install Python 3.11 or newer"
    for candidate in ${PYTHON:-/usr/bin/python3 python3}; do
        new_enough "$candidate" && can_make_venv "$candidate" && PYTHON=$candidate && return
    done
    die "no Python 3.11 or newer with the venv module (Debian: python3-venv); looked at ${PYTHON:-/usr/bin/python3, python3}"
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

can_make_venv() {
    "$1" -c 'import ensurepip' 2>/dev/null && return
    [ "$1" = /usr/bin/python3 ] && install_package python3-venv && "$1" -c 'import ensurepip' 2>/dev/null
}

# The parts of pyproject.toml of which an environment is made: if they change, it is
# made anew.
wanted_packages() {
    "$PYTHON" - <<'EOF'
import tomllib
document = tomllib.load(open("pyproject.toml", "rb"))
project = document["project"]
print(project["dependencies"], project["scripts"], project["entry-points"], document["dependency-groups"])
EOF
}

# make_venv DIRECTORY WHAT-FOR PIP-ARGUMENTS...
make_venv() {
    local dir=$1 what=$2 stamp
    shift 2
    stamp="$("$PYTHON" -VV) $PWD $* $(wanted_packages)"
    [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$stamp" ] && return
    say "setting up $dir: packages for $what (about half a minute)"
    rm -rf "$dir"
    "$PYTHON" -m venv "$dir"
    # --group needs pip 25.1; Debian's is older.
    "$dir/bin/python" -m pip -q --disable-pip-version-check install --upgrade 'pip>=25.1'
    "$dir/bin/python" -m pip -q --disable-pip-version-check install "$@"
    printf '%s' "$stamp" >"$dir/.stamp"
}

# With PYTHONDONTWRITEBYTECODE, every start would compile the generated messages again.
unset PYTHONDONTWRITEBYTECODE
find_python
