#!/bin/sh
# Says what is missing on this machine, in one line on stdout; prints nothing when all is there.
# Usage: sh scripts/need.sh [python] [java] [maven] [go] [chromium]
#        sh scripts/need.sh which-python      prints the first Python that is new enough
set -u

find_python() {
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

# A JDK, not only a runtime: the demo's Java client is compiled when it starts.
have_jdk() {
    bin=${JAVA_HOME:+$JAVA_HOME/bin/}
    "${bin}java" -version >/dev/null 2>&1 || return 1
    major=$("${bin}javac" -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
    [ "${major:-0}" -ge 17 ]
}

missing=""
lack() { missing="$missing${missing:+; }$1"; }

for need in "$@"; do
    case $need in
    which-python) find_python && exit 0 ;;
    python)
        if ! python=$(find_python); then
            lack "Python 3.11 or newer (Debian: apt install python3 python3-venv; macOS: brew install python)"
        elif ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            lack "Python's venv module (Debian: apt install python3-venv)"
        fi ;;
    java)
        have_jdk || lack "a JDK of version 17 or newer (Debian: apt install openjdk-17-jdk-headless; macOS: brew install openjdk)" ;;
    maven)
        command -v mvn >/dev/null 2>&1 || lack "Maven (Debian: apt install maven; macOS: brew install maven)" ;;
    go)
        command -v go >/dev/null 2>&1 || lack "Go, to build toxiproxy's server (Debian: apt install golang; macOS: brew install go)" ;;
    chromium)
        command -v chromium >/dev/null 2>&1 || lack "Chromium, for the tests of pages (Debian: apt install chromium; macOS: brew install chromium)" ;;
    *)
        lack "scripts/need.sh knows nothing of '$need'" ;;
    esac
done

[ -z "$missing" ] || echo "missing on this machine: $missing"
