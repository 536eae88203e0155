# Sets CHROMIUM, for the scripts that open pages: the variable itself, else Debian's package, else the one that
# scripts/setup.py fetches from npm. Sourced from the repository's root; the file may be missing.
if [ -z "${CHROMIUM:-}" ]; then
    CHROMIUM=/usr/bin/chromium
    [ -x "$CHROMIUM" ] || CHROMIUM=$PWD/.cache/javascript/chromium/run
fi
export CHROMIUM
