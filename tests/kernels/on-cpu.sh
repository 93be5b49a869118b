#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run a test binary on an emulated processor: on-cpu.sh QEMU CPU BINARY
if [ -z "$1" ]; then
    echo "skipped: qemu-x86_64 is not installed"
    exit 77
fi
exec "$1" -cpu "$2" "$3" quick
