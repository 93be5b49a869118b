#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# The first program of a machine: makes its / out of the host's, read-only, and memory on top.
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t devtmpfs dev /dev
for module in /modules/*; do $B insmod $module; done
for word in $($B cat /proc/cmdline); do
    case $word in
    wring.run=*) run=${word#*=} ;;
    wring.agent=*) agent=${word#*=} ;;
    wring.machine=*) machine=${word#*=} ;;
    esac
done
options=trans=virtio,version=9p2000.L,msize=262144
$B mount -t 9p -o $options,ro,cache=loose host /host || $B poweroff -f
$B mount -t tmpfs memory /memory
$B mkdir /memory/upper /memory/work
$B mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work overlay /root
$B mkdir -p /root$run
$B mount -t 9p -o $options,cache=none run /root$run || $B poweroff -f
$B mount --move /dev /root/dev
$B umount /proc
exec $B switch_root /root /bin/sh $agent $run $machine
