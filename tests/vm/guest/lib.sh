# SPDX-License-Identifier: Apache-2.0
# What the tests of plan.toml are written with; sourced in each machine, before each test.
#
# A job has RANKS ranks: as many as there are machines, EACH on each, or two on the only machine, one
# at each end of the cable. Every machine runs the same script. Nothing here waits for ever: what
# takes longer than it may is killed with its test.
. "$RIG/guest/network.sh"
TESTS=$BUILD/tests/vm
WRING=$BUILD/tools/wring
RAILS=1 # in use, until a test says otherwise
EACH=1
RANKS=$MACHINES
[ "$MACHINES" != 1 ] || RANKS=2
KEY="of the job in the machines"

fail() {
    echo "machine $MACHINE: $*"
    exit 1
}

skip() {
    echo "skipped: $*"
    exit 77
}

# ---- jobs ----------------------------------------------------------------------------------

end_of() {
    if [ "$MACHINES" = 1 ]; then echo $(($1 % 2)); else echo $(($1 / EACH)); fi
}

# ranks_each N: so many on each of several machines
ranks_each() {
    EACH=$1
    RANKS=$((MACHINES * EACH))
}

# Ranks that this machine runs.
ranks() {
    if [ "$MACHINES" = 1 ]; then seq 0 $((RANKS - 1)); else seq $((MACHINE * EACH)) $((MACHINE * EACH + EACH - 1)); fi
}

# The devices of an end on all rails in use, exactly these, as a setting.
device_setting() {
    list=$(for rail in $(rails); do device "$1" "$rail"; done | paste -sd,)
    echo "WRING_VERBS_DEVICES==$list"
}

# rank R COMMAND...: as rank R; other settings come from the environment
rank() {
    rank=$1
    shift
    rank_end=$(end_of "$rank")
    rank_key=$KEY
    [ "$rank" != "$RANK_WITH_WRONG_KEY" ] || rank_key="of another job"
    $RANK_EXEC env WRING_RANK="$rank" WRING_SIZE="$RANKS" WRING_ROOT="$(address 0 0):5555" \
        WRING_KEY="$rank_key" WRING_PROVIDER="${WRING_PROVIDER:-verbs}" \
        WRING_BIND="$(address "$rank_end" 0)" "$(device_setting "$rank_end")" "$@"
}

# begin COMMAND...: all ranks of this machine, in the background
begin() {
    for r in $(ranks); do
        (RANK_EXEC=exec && rank "$r" "$@") >"$HERE/said.$r" 2>&1 &
        eval "pid_$r=$!"
    done
}

# finish: wait for them. Their statuses are in status_R, what they said is shown
finish() {
    worst=0
    for r in $(ranks); do
        eval "wait \$pid_$r"
        status=$?
        eval "status_$r=$status"
        [ $status = 0 ] || worst=$status
        sed "s/^/[rank $r] /" "$HERE/said.$r"
    done
    return $worst
}

# job COMMAND...: every rank must end well
job() {
    begin "$@"
    finish || fail "a rank failed: exit $worst"
}

# ended_badly R PATTERN: rank R said what PATTERN matches, and ended by itself
ended_badly() {
    eval "status=\$status_$1"
    [ "$status" != 0 ] || fail "rank $1 ended well"
    [ "$status" -lt 124 ] || fail "rank $1 was killed: $status"
    grep -Eq -e "$2" "$HERE/said.$1" || fail "rank $1 did not say: $2"
}

# finish_badly PATTERN: no rank may end well, and each must have said what PATTERN matches
finish_badly() {
    finish
    for r in $(ranks); do
        ended_badly "$r" "$1"
    done
}

# A job that goes on until something is done to it.
begin_endless_job() {
    begin "$WRING" bench allreduce -b 64k --seconds 3600
    await_traffic 1000000
    barrier traffic
}

# Enough was done to the job of test_verbs_until, by all machines: it ends.
enough() {
    barrier enough
    : >"$HERE/enough"
}

# ---- machines --------------------------------------------------------------------------------

# barrier NAME: wait for all machines
barrier() {
    : >"$HERE/barrier.$1.$MACHINE"
    for machine in $(seq 0 $((MACHINES - 1))); do
        until [ -e "$HERE/barrier.$1.$machine" ]; do sleep 0.05; done
    done
}

# sent_bytes END RAIL, sent_packets END RAIL: so far
sent_bytes() {
    cat "/sys/class/net/$(nic "$1" "$2")/statistics/tx_bytes"
}

sent_packets() {
    cat "/sys/class/net/$(nic "$1" "$2")/statistics/tx_packets"
}

# dropped END RAIL: packets that netem has lost there, on their way out
dropped() {
    tc -s qdisc show dev "$(nic "$1" "$2")" | sed -n 's/.*dropped \([0-9]*\).*/\1/p' | head -1
}

# await_traffic BYTES [RAIL]: until so many more have left this machine, as long as its ranks live
await_traffic() {
    traffic_end=$(ends | cut -d' ' -f1)
    traffic_goal=$(($(sent_bytes "$traffic_end" "${2:-0}") + $1))
    while [ "$(sent_bytes "$traffic_end" "${2:-0}")" -lt $traffic_goal ]; do
        for r in $(ranks); do
            eval "kill -0 \$pid_$r" 2>/dev/null || { finish; fail "rank $r ended before its time"; }
        done
        sleep 0.05
    done
}

# await_words WORDS: until each rank of this machine has said them, as long as it lives
await_words() {
    for r in $(ranks); do
        until grep -q "$1" "$HERE/said.$r"; do
            eval "kill -0 \$pid_$r" 2>/dev/null || { finish; fail "rank $r ended before it said: $1"; }
            sleep 0.1
        done
    done
}

# ---- links -----------------------------------------------------------------------------------

# These are for_each's: END RAIL ARGUMENT... The agent undoes them after the test.
set_netem() {
    : >/run/faults
    netem_end=$1 netem_rail=$2
    shift 2
    tc qdisc replace dev "$(nic "$netem_end" "$netem_rail")" root netem "$@"
}

set_mtu() {
    : >/run/faults
    ip link set "$(nic "$1" "$2")" mtu "$3"
}

link_down() {
    : >/run/faults
    ip link set "$(nic "$1" "$2")" down
}

remove_device() {
    rdma link delete "$(device "$1" "$2")"
}

link_up() {
    ip link set "$(nic "$1" "$2")" up && route_on_cable "$1" "$2"
}

# netem SPEC...: on all that leaves this machine
netem() {
    for_each set_netem "$@" || fail "no netem $*"
}

# only_rail RAIL FUNCTION ARGUMENT...: as for_each, on one rail
only_rail() {
    only=$1
    only_function=$2
    shift 2
    for only_end in $(ends); do
        "$only_function" "$only_end" "$only" "$@" || return 1
    done
}

# The link's MTU that gives RoCE packets of so many bytes.
link_mtu() {
    case $1 in
    1024) echo 1500 ;;
    2048) echo 2300 ;;
    4096) echo 4300 ;;
    esac
}

# roce_mtu END RAIL BYTES
roce_mtu() {
    set_mtu "$1" "$2" "$(link_mtu "$3")"
}
