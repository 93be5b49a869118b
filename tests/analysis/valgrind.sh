#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# valgrind's memcheck over the unit tests that are built:
#
#     tests/analysis/valgrind.sh BUILD [SECONDS]
#
# Each may take so long (600). What is said of a test below is valgrind's doing, or the test's, and is
# not counted; all else is an error of ours, and its log is shown. Exits with 1 if there is any.
set -u
declare -A explained=(
    [test_memory]="asks the system by msync() whether a page is mapped that is not"
    [test_job_types]="valgrind knows no flush-to-zero mode, which the case callers_mode sets"
    [test_codec_conform]="the case strays waits for faults at guard pages, which valgrind takes otherwise"
)
cd "$1" || exit 2
seconds=${2:-600} tests=0 faulty=0
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
for test in tests/unit/test_*; do
    [ -f "$test" ] && [ -x "$test" ] || continue
    name=${test##*/}
    HWLOC_COMPONENTS=-pci timeout "$seconds" valgrind -q --max-threads=2200 --error-exitcode=99 --leak-check=full \
        --errors-for-leak-kinds=definite --show-leak-kinds=definite "$test" >"$log" 2>&1
    code=$?
    tests=$((tests + 1))
    if [ -n "${explained[$name]:-}" ]; then
        echo "$name: $code; ${explained[$name]}"
    elif [ $code = 124 ]; then
        echo "$name: not through after $seconds s"
        faulty=$((faulty + 1))
    elif [ $code != 0 ] && [ $code != 77 ]; then
        echo "$name: $code"
        grep -v '^ok ' "$log"
        faulty=$((faulty + 1))
    fi
done
echo "$tests tests, $faulty with errors"
[ $tests -gt 0 ] && [ $faulty = 0 ]
