# SPDX-License-Identifier: Apache-2.0
# Process 1 of a machine: makes its network, then runs one test after the other.
#
#     agent.sh RUN MACHINE
#
# RUN is a folder that all machines and the host share. RUN/settings says what there is to be. For
# test N the host makes RUN/N with the files `command`, `seconds` and, last, `go`; each machine
# answers with `output.MACHINE` and, last, `status.MACHINE`. RUN/stop ends it.
run=$1 MACHINE=$2
export PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
. "$run/settings"
. "$RIG/guest/network.sh"
echo "machine$MACHINE" >/proc/sys/kernel/hostname
echo 0 >/proc/sys/kernel/randomize_va_space # what is translated for one process serves the next

load_modules() {
    mkdir -p "/lib/modules/$RELEASE"
    mount --bind "$MODULES" "/lib/modules/$RELEASE"
    modprobe -a crc32_generic veth virtio_net sch_netem ib_uverbs rdma_rxe
}

# What a test that was not done in time leaves: its ranks' words, and where each thread stands.
show_what_hangs() {
    for said in "$here"/said.*; do
        [ ! -e "$said" ] || tail -n 20 "$said" | sed "s/^/[rank ${said##*.}] /"
    done
    for thread in /proc/[0-9]*/task/[0-9]*; do
        [ "${thread#/proc/1/}" = "$thread" ] && readlink "${thread%/task/*}/exe" >/dev/null &&
            cat "$thread/comm" "$thread/syscall" "$thread/stack" | paste -sd' '
    done
}

run_test() {
    here=$run/$1
    HERE=$here MACHINE=$MACHINE setsid -w timeout --foreground -s KILL "$(cat "$here/seconds")" \
        sh "$here/command" </dev/null >"$here/output.$MACHINE" 2>&1
    status=$?
    [ $status != 137 ] || show_what_hangs >>"$here/output.$MACHINE" 2>&1
    kill -9 -1 # whatever it left: this is process 1
    rm -rf /dev/shm/* /tmp/vm-*
    [ ! -e /run/faults ] || for_each clear_faults
    rm -f /run/faults
    echo $status >"$here/new.$MACHINE"
    mv "$here/new.$MACHINE" "$here/status.$MACHINE"
}

load_modules
if make_network; then
    : >"$run/up.$MACHINE"
fi
ulimit -l unlimited
ulimit -c 0
n=0
while :; do
    until [ -e "$run/$n/go" ] || [ -e "$run/stop" ]; do sleep 0.05; done
    [ ! -e "$run/stop" ] || break
    run_test $n
    n=$((n + 1))
done
echo o >/proc/sysrq-trigger
sleep 10
