#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# root.sh FOLDER: the libraries that wring needs, of Debian's arm64, unpacked in FOLDER/root. The
# system's own packages stay as they are. FOLDER/cross.ini tells meson of them.
set -e -o pipefail
packages="libjansson-dev libjansson4 libssl-dev libssl3 libhwloc-dev libhwloc15 libudev1
    libibverbs-dev libibverbs1 libnl-3-200 libnl-route-3-200"
folder=$(realpath -m "$1")
root=$folder/root
[ ! -e "$folder/cross.ini" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder"/{lists,cache,debs}/partial "$root"
apt() {
    apt-get -q -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 \
        -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/cache" "$@"
}
apt update
cd "$folder/debs"
apt download $(printf '%s:arm64 ' $packages)
for deb in *.deb; do
    dpkg -x "$deb" "$root"
done
libraries=$root/usr/lib/aarch64-linux-gnu:$root/lib/aarch64-linux-gnu
rm -rf "$folder/lists" "$folder/cache"
cat >"$folder/cross.tmp" <<TEXT
[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-L', '/usr/aarch64-linux-gnu', '-E', 'LD_LIBRARY_PATH=$libraries']

[properties]
sys_root = '$root'
pkg_config_libdir = '$root/usr/lib/aarch64-linux-gnu/pkgconfig'

[built-in options]
c_args = ['-isystem', '$root/usr/include/aarch64-linux-gnu']
c_link_args = ['-Wl,-rpath-link=$libraries']

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
TEXT
mv "$folder/cross.tmp" "$folder/cross.ini"
