#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each public header compiles alone, as C17 and as C++17: alone.sh ROOT CC [CC_ARGUMENT...]
set -u
root=$1
shift

cxx=
for name in g++ clang++; do
    if [ -z "$cxx" ] && echo 'int x;' | "$name" -std=c++17 -fsyntax-only -x c++ - 2>/dev/null; then
        cxx=$name
    fi
done
if [ -z "$cxx" ]; then
    echo "skipped: neither g++ nor clang++ works here"
    exit 77
fi

includes=
for directory in "$root"/*/include; do
    includes="$includes -I$directory"
done

faults=0
headers=0
strict="-fsyntax-only -Wall -Wextra -Wpedantic -Werror"
for header in "$root"/*/include/wring/*.h; do
    name=wring/$(basename "$header")
    headers=$((headers + 1))
    # twice, for the include guard; then something of our own, as an empty unit is not ISO C
    text="#include <$name>
#include <$name>
int wring_header_compiles;"
    # shellcheck disable=SC2086
    if ! echo "$text" | "$@" -std=c17 $strict $includes -x c -; then
        echo "$name is not C17 by itself"
        faults=$((faults + 1))
    fi
    # shellcheck disable=SC2086
    if ! echo "$text" | "$cxx" -std=c++17 $strict $includes -x c++ -; then
        echo "$name is not C++17 by itself ($cxx)"
        faults=$((faults + 1))
    fi
done

# what C and C++ spell differently
text="#include <wring/wring.h>
struct wring_session_params session_params = WRING_SESSION_PARAMS_INIT;
struct wring_bucket_params bucket_params = WRING_BUCKET_PARAMS_INIT;
struct wring_session_stats session_stats = WRING_SESSION_STATS_INIT;
struct wring_bucket_stats bucket_stats = WRING_BUCKET_STATS_INIT;
struct wring_error_detail error_detail = WRING_ERROR_DETAIL_INIT;"
# shellcheck disable=SC2086
if ! echo "$text" | "$@" -std=c17 $strict $includes -x c - ||
    ! echo "$text" | "$cxx" -std=c++17 $strict $includes -x c++ -; then
    echo "the initialisers of <wring/wring.h> do not compile"
    faults=$((faults + 1))
fi
echo "$headers headers, $faults faults"
[ "$faults" -eq 0 ] && [ "$headers" -ge 5 ]
