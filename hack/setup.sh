# Sourced by the other scripts in hack/: goes to the repository's top and puts a
# virtual environment on PATH, made on first use and again when pyproject.toml changes.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# Root on Debian installs what is missing; anybody else is told what to install.
need_package() { # COMMAND PACKAGE
    command -v "$1" >/dev/null && return 0
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "installing the Debian package $2"
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends "$2"; } >/dev/null 2>&1
    command -v "$1" >/dev/null
}

find_python() {
    need_package "${PYTHON:=python3}" python3 || die "$PYTHON not found: install Python 3.11 or newer"
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        die "$("$PYTHON" --version) is too old: 3.11 or newer is needed (set PYTHON=...)"
    "$PYTHON" -c 'import ensurepip' 2>/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || die "install Python's venv module (Debian: python3-venv)"
    say "installing the Debian package python3-venv"
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends python3-venv; } >/dev/null
}

# What of pyproject.toml decides about an environment; the rest may change freely.
wanted_packages() {
    "$PYTHON" - <<'EOF'
import tomllib
document = tomllib.load(open("pyproject.toml", "rb"))
project = document["project"]
print(project["dependencies"], project["scripts"], document["dependency-groups"])
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

# With it set, every start would compile the generated messages again.
unset PYTHONDONTWRITEBYTECODE
find_python
