# SPDX-License-Identifier: Apache-2.0
# The network of a machine, and its devices; sourced by the agent and by lib.sh.
#
# One machine alone has both ends: rail 0 is a virtual cable from cable0 to cable1, with the devices
# rxa and rxb; rail 1 from cable2 to cable3, with rxc and rxd. Several machines have one end each:
# rail 0 is eth0 with rxa, rail 1 eth1 with rxb. An end's address on a rail is 10.77.RAIL.END+1.

# Ends that this machine has.
ends() {
    if [ "$MACHINES" = 1 ]; then echo 0 1; else echo "$MACHINE"; fi
}

rails() {
    if [ "$RAILS" = 1 ]; then echo 0; else echo 0 1; fi
}

# nic END RAIL, and so on
nic() {
    if [ "$MACHINES" = 1 ]; then echo "cable$((2 * $2 + $1))"; else echo "eth$2"; fi
}

device() {
    if [ "$MACHINES" = 1 ]; then set -- $((2 * $2 + $1)); else set -- "$2"; fi
    case $1 in
    0) echo rxa ;;
    1) echo rxb ;;
    2) echo rxc ;;
    3) echo rxd ;;
    esac
}

address() {
    echo "10.77.$2.$(($1 + 1))"
}

# for_each FUNCTION ARGUMENT...: FUNCTION END RAIL ARGUMENT... for all that this machine has
for_each() {
    for_each_function=$1
    shift
    for for_each_rail in $(rails); do
        for for_each_end in $(ends); do
            "$for_each_function" "$for_each_end" "$for_each_rail" "$@" || return 1
        done
    done
}

# Both ends of a cable are addresses of this machine: without rules TCP would go through lo.
route_on_cable() {
    [ "$MACHINES" = 1 ] || return 0
    there=$((1 - $1)) table=$((100 + 2 * $2 + $1))
    ip route replace "$(address $there "$2")/32" dev "$(nic "$1" "$2")" \
        src "$(address "$1" "$2")" table $table
}

rule_for_cable() {
    there=$((1 - $1)) table=$((100 + 2 * $2 + $1))
    ip rule add pref $((10 + 2 * $2 + $1)) iif lo to "$(address $there "$2")" lookup $table
}

make_cables() {
    for rail in $(rails); do
        ip link add "$(nic 0 "$rail")" type veth peer name "$(nic 1 "$rail")"
    done
    ip rule add pref 40 lookup local
    ip rule del pref 0
    for_each rule_for_cable
    for name in all $(for_each nic); do
        echo 1 >"/proc/sys/net/ipv4/conf/$name/accept_local"
        echo 0 >"/proc/sys/net/ipv4/conf/$name/rp_filter"
    done
}

# set_up END RAIL: as it is when a test begins
set_up() {
    ip link set "$(nic "$1" "$2")" mtu "$LINK_MTU" up && route_on_cable "$1" "$2"
}

add_address() {
    ip addr add "$(address "$1" "$2")/24" dev "$(nic "$1" "$2")"
}

add_device() {
    rdma link add "$(device "$1" "$2")" type rxe netdev "$(nic "$1" "$2")"
}

make_network() {
    ip link set lo up
    [ "$MACHINES" != 1 ] || make_cables
    for_each add_address && for_each set_up && for_each add_device
}

clear_faults() {
    tc qdisc del dev "$(nic "$1" "$2")" root 2>/dev/null
    set_up "$1" "$2"
    [ -e "/sys/class/infiniband/$(device "$1" "$2")" ] || add_device "$1" "$2"
}
