#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each public header compiles alone, as C11, C17 and C++11 to C++20, also inside extern "C":
# alone.sh ROOT CC [CC_ARGUMENT...]
set -u
root=$1
shift

compilers=
for name in g++ clang++; do
    if echo 'int x;' | "$name" -std=c++17 -fsyntax-only -x c++ - 2>/dev/null; then
        compilers="$compilers $name"
    fi
done
if [ -z "$compilers" ]; then
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

# check WHAT LANGUAGE STANDARD TEXT COMPILER [ARGUMENT...]
check() {
    what=$1 language=$2 standard=$3 text=$4
    shift 4
    # shellcheck disable=SC2086
    if ! echo "$text" | "$@" -std="$standard" $strict $includes -x "$language" -; then
        echo "$what does not compile as $standard ($1)"
        faults=$((faults + 1))
    fi
}

# check_cxx WHAT TEXT: in each standard, outside and inside extern "C"
check_cxx() {
    inside="extern \"C\" {
$2
}"
    for compiler in $compilers; do
        for standard in c++11 c++14 c++17 c++20; do
            check "$1" c++ "$standard" "$2" "$compiler"
            check "$1 inside extern \"C\"" c++ "$standard" "$inside" "$compiler"
        done
    done
}

for header in "$root"/*/include/wring/*.h; do
    name=wring/$(basename "$header")
    headers=$((headers + 1))
    # twice, for the include guard; then something of our own, as an empty unit is not ISO C
    text="#include <$name>
#include <$name>
int wring_header_compiles;"
    for standard in c11 c17; do
        check "$name" c "$standard" "$text" "$@"
    done
    check_cxx "$name" "$text"
done

# what C and C++ spell differently
text="#include <wring/wring.h>
struct wring_session_params session_params = WRING_SESSION_PARAMS_INIT;
struct wring_bucket_params bucket_params = WRING_BUCKET_PARAMS_INIT;
struct wring_session_stats session_stats = WRING_SESSION_STATS_INIT;
struct wring_bucket_stats bucket_stats = WRING_BUCKET_STATS_INIT;
struct wring_error_detail error_detail = WRING_ERROR_DETAIL_INIT;"
check "an initialiser of <wring/wring.h>" c c17 "$text" "$@"
check_cxx "an initialiser of <wring/wring.h>" "$text"
echo "$headers headers, $faults faults"
[ "$faults" -eq 0 ] && [ "$headers" -ge 5 ]
