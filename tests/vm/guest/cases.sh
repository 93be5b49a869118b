# SPDX-License-Identifier: Apache-2.0
# Tests of plan.toml that are more than a line. Each runs in every machine at the same time.

LOST='rank [0-9]+ (is lost|gave no sign of life|gave up)'

# The last rank is killed: the others name it, soon.
kill_rank() {
    victim=$((RANKS - 1))
    begin_endless_job
    eval "pid=\$pid_$victim"
    [ -z "$pid" ] || kill -9 "$pid"
    finish
    for r in $(ranks); do
        [ "$r" = $victim ] || ended_badly "$r" "rank $victim is lost"
    done
}

# Nothing gets through any more, and nobody says so: each rank names another after the timeout, which
# is longer than a busy host keeps a rank from its processor.
black_hole() {
    export WRING_PEER_TIMEOUT=10s
    begin_endless_job
    netem loss 100%
    finish_badly "$LOST"
}

# The link goes down for good.
cut_link() {
    export WRING_PEER_TIMEOUT=10s
    begin_endless_job
    for_each link_down
    finish_badly "$LOST"
}

# The link goes down, and comes back soon: a job that goes on has right results, one that does not
# says why; the next one is fine.
flap_link() {
    begin "$TESTS/test_verbs_until" "$HERE/enough"
    await_traffic 1000000
    barrier traffic
    for_each link_down
    sleep 1
    for_each link_up
    enough
    finish || for r in $(ranks); do
        ended_badly "$r" "$LOST"
    done
    barrier flapped
    job "$TESTS/test_verbs_job" lengths
}

# loss PERCENT: packets are lost in both directions. Whether one is lost is chance: there is traffic
# until all ends have lost some.
loss() {
    netem loss "$1%"
    job "$TESTS/test_verbs_job" lengths
    attempt=0
    until all_have_lost $attempt; do
        attempt=$((attempt + 1))
        [ $attempt -le 10 ] || fail "nothing was lost at some end, in $attempt attempts"
        job "$WRING" bench allreduce -b 1m -i 2
    done
}

# all_have_lost ATTEMPT: every machine comes to the same answer
all_have_lost() {
    for lost_end in $(ends); do
        [ "$(dropped "$lost_end" 0)" -gt 0 ] || : >"$HERE/nothing_lost.$1.$MACHINE"
    done
    barrier "looked.$1"
    ! ls "$HERE/nothing_lost.$1".* >/dev/null 2>&1
}

# mtu_of_ends A B: in bytes of RoCE, of even and of odd ends; packets are as large as the smaller one
# allows.
mtu_of_ends() {
    smaller=$(($1 < $2 ? $1 : $2))
    end=$(ends | cut -d' ' -f1)
    for_each mtu_of_parity "$@"
    barrier mtu
    bytes=$(sent_bytes "$end" 0) packets=$(sent_packets "$end" 0)
    job "$WRING" bench allreduce -b 1m -i 2
    bytes=$(($(sent_bytes "$end" 0) - bytes)) packets=$(($(sent_packets "$end" 0) - packets))
    average=$((bytes / packets))
    [ $average -lt $((smaller + 100)) ] && [ $average -gt $((smaller / 2)) ] ||
        fail "$packets packets have $average bytes on average, for an MTU of $smaller"
}

mtu_of_parity() {
    if [ $(($1 % 2)) = 0 ]; then roce_mtu "$1" "$2" "$3"; else roce_mtu "$1" "$2" "$4"; fi
}

# Less memory may be locked than registering takes: the reason names the remedy.
little_memlock() {
    begin setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \
        sh -c 'ulimit -l 16 && exec "$@"' sh "$WRING" bench allreduce -b 1m -i 2
    finish_badly 'ulimit -l'
}

# An entry of the GID table that holds nothing.
wrong_gid() {
    export WRING_VERBS_GID_INDEX=200
    begin "$WRING" bench allreduce -b 64k -i 2
    finish_badly 'GID'
}

# A rank with another key is turned away, and all say so.
wrong_key() {
    export WRING_JOIN_TIMEOUT=15s
    RANK_WITH_WRONG_KEY=1
    begin "$WRING" bench allreduce -b 64k -i 2
    finish_badly 'key'
}

# Long messages travel over both rails, and come together right.
two_rails() {
    RAILS=2
    end=$(ends | cut -d' ' -f1)
    before=$(sent_bytes "$end" 1)
    job "$WRING" bench allreduce -b 1m -i 10
    job "$TESTS/test_verbs_job" lengths
    on_second=$(($(sent_bytes "$end" 1) - before))
    [ $on_second -gt 2000000 ] || fail "only $on_second bytes went over the second rail"
}

# A rail dies under a job, which goes on over the other one and loses nothing.
failover() {
    RAILS=2
    begin "$TESTS/test_verbs_until" "$HERE/enough"
    await_traffic 1000000 1
    barrier traffic
    only_rail 1 link_down
    await_words 'goes on over 1 of 2'
    await_traffic 3000000 0
    enough
    finish || fail "a rank did not survive the end of a rail"
}

# Packets vanish on a rail for a while, and its port says nothing: the job goes on over the other one,
# and takes the rail back when it works again. Not with a shorter WRING_VERBS_TIMEOUT: README.md has why.
taken_back() {
    RAILS=2
    export WRING_VERBS_REVIVE=1s
    begin "$TESTS/test_verbs_until" "$HERE/enough"
    await_traffic 1000000 1
    barrier traffic
    only_rail 1 set_netem loss 100%
    await_words 'goes on over 1 of 2'
    barrier lost
    only_rail 1 set_netem limit 10000
    await_words 'goes on over 2 of 2'
    await_traffic 1000000 1
    enough
    finish || fail "a rank did not survive"
}

# first_rail_only COMMAND...: in a machine that has the devices of the first rail and no others
first_rail_only() {
    : >/run/faults
    only_rail 1 remove_device && "$@"
}

# Between hosts soft-RoCE is taken unasked where it is named, and only there.
automatic() {
    export WRING_PROVIDER=auto WRING_LOG=info
    job "$WRING" bench allreduce -b 64k -i 2
    [ "$MACHINE" != 0 ] || grep -q 'verbs leads to other hosts' "$HERE/said.0" || fail "not taken"
    barrier named
    job env -u WRING_VERBS_DEVICES "$WRING" bench allreduce -b 64k -i 2
    [ "$MACHINE" != 0 ] || grep -q 'tcp leads to other hosts: .* soft-RoCE' "$HERE/said.0" ||
        fail "taken unasked"
}

# The plugin for NCCL, whose ranks are processes of the driver's own, at the ends of the cable in turn.
nccl_plugin() {
    own="$(device_setting 0)|$(device_setting 1 | cut -d= -f2-)"
    for driver in "test_net connecting_never_blocks grouped_receives tags_pick_slots receives_may_be" \
        "test_net larger_sends regions_nest closing_ends dead_receiver" "test_collnet several_are"; do
        program=${driver%% *}
        # shellcheck disable=SC2086 # cases are words
        "$BUILD/tests/nccl/$program" "$BUILD/dropin/nccl/libnccl-net-wring.so" v12 \
            WRING_PROVIDER=verbs "each=WRING_BIND=$(address 0 0)|$(address 1 0)" "each=$own" \
            deadline=120 ${driver#* } || fail "the plugin does not do what NCCL wants"
    done
}
