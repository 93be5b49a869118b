#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run a libFuzzer binary on a corpus without adding to it: libfuzzer.sh BINARY CORPUS SECONDS
found=$(mktemp -d) || exit 1
trap 'rm -rf "$found"' EXIT
"$1" -max_total_time="$3" -timeout=10 -max_len=65536 -print_final_stats=1 -artifact_prefix=fuzz- "$found" "$2"
