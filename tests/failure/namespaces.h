/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Two hosts and the cable between them: network namespaces and a veth pair. Nothing of it has a
 * name outside, and all of it goes when the test ends, however it ends.
 */
#ifndef WRING_TESTS_NAMESPACES_H
#define WRING_TESTS_NAMESPACES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/** The addresses of the two hosts on their cable. */
#define HOST_V4(i) ((i) == 0 ? "10.77.0.1" : "10.77.0.2")
#define HOST_V6(i) ((i) == 0 ? "fd00:77::1" : "fd00:77::2")

struct hosts {
    pid_t keepers[2]; /* processes that do nothing but live there */
    int namespaces[2];
};

/** Make both and connect them by the family's addresses alone (4 or 6).
 *  @return false with the reason, which is often that this is not permitted */
bool hosts_make(struct hosts *hosts, int family, char *reason, size_t bytes);
void hosts_unmake(struct hosts *hosts);

/** Addresses of interfaces that reach nobody: both hosts have the same one of a bridge, as
 * containers make it, and a network of its own each. */
#define HOST_BRIDGE_V4 "172.31.0.1"
#define HOST_BRIDGE_V6 "fd00:31::1"
#define HOST_OWN_V4(i) ((i) == 0 ? "10.98.0.1" : "10.99.0.1")
#define HOST_OWN_V6(i) ((i) == 0 ? "fd00:98::1" : "fd00:99::1")

/** Give both hosts these interfaces beside the cable. @return false when ip failed */
bool hosts_add_interfaces(const struct hosts *hosts, int family);

/** Move this process to a host. @return false with errno */
bool hosts_enter(const struct hosts *hosts, int host);

/** In a rank: what this process reads as /etc/hosts from now on. @return false with errno */
bool hosts_name(const char *lines);

/** Pull the cable at host 0's end, or plug it in again. @return false when ip failed */
bool hosts_plug(const struct hosts *hosts, bool in);

#endif
