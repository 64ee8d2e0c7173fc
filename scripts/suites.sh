#!/bin/sh
# The suites that are too long for each run of CI.
# Usage: sh scripts/suites.sh turn N    run the one whose turn it is: N is the number of commits
#        sh scripts/suites.sh all       run all of them; the last line of each is shown again at the end
set -u
cd "$(dirname "$0")/.."

SUITES="test-exact test-links test-carry test-migration test-console test-hand test-security
demo-exact demo-secure demo-topologies demo-carry demo-app
test-spark test-bench demo-spark
simulate-mutations fuzz-mutations test-audit-mutations test-mutations test-broker-model test-quickstart test-wheel test-docs"
LOGS=build/suites
MINUTES=25 # with the fixed part of CI in front of it, 45 are not reached

# Prints what `make $1` cannot run without, if this machine lacks it.
lacks() {
    case $1 in
    test-console | test-security) sh scripts/need.sh chromium ;;
    esac
}

# Runs one suite, shows what it prints and keeps it.
run() {
    mkdir -p "$LOGS"
    { timeout "${MINUTES}m" "${MAKE:-make}" --no-print-directory "$1" 2>&1; echo $? >"$LOGS/$1.status"; } | tee "$LOGS/$1.log"
    return "$(cat "$LOGS/$1.status")"
}

case ${1:-} in
turn)
    number=${2:?the number of commits}
    set -- $SUITES
    tries=$#
    while [ "$tries" -gt 0 ]; do
        suite=$(echo "$@" | cut -d ' ' -f $((number % $# + 1)))
        missing=$(lacks "$suite")
        [ -n "$missing" ] || break
        echo "== passed over: $suite: $missing"
        number=$((number + 1)) tries=$((tries - 1))
    done
    echo "== in turn: $suite"
    run "$suite" ;;
all)
    failed=0
    for suite in $SUITES; do
        echo "== $suite"
        run "$suite" || failed=1
    done
    for suite in $SUITES; do
        echo "$suite: $(grep -v '^$' "$LOGS/$suite.log" | tail -1) (exit $(cat "$LOGS/$suite.status"))"
    done
    exit $failed ;;
*)
    echo "scripts/suites.sh: turn N or all, not '${1:-}'" >&2
    exit 2 ;;
esac
