/* SPDX-License-Identifier: Apache-2.0 */
/** Which of this host's networks a session uses: WRING_IFACE. */
#ifndef WRING_TRANSPORT_INTERFACE_H
#define WRING_TRANSPORT_INTERFACE_H

#include <ifaddrs.h>
#include <stdbool.h>
#include <stddef.h>

#include <wring/status.h>

struct wring_log;

#define WRING_INTERFACE_ADDRESS 64 /* bytes of an address as text */

/**
 * Does a list name an interface? Lists are as others in this field have them:
 *
 *     eth,ib      names that begin so; what stands first is preferred
 *     =eth0,eth1  these names exactly
 *     ^docker,lo  all names but those that begin so; ^=docker0: all but this one
 *
 * @return its preference, 0 the best; -1: no
 */
int wring_interface_match(const char *list, const char *name);

/** The fault of a list, whichever interfaces there are; NULL: it has none. */
const char *wring_interface_list_fault(const char *list);

/**
 * Choose one of some addresses. Interfaces that are down, and addresses that others cannot use as
 * they stand (link-local, multicast), are passed over; loopback too, unless the list names it.
 *
 * @param like an address as text; of several addresses one of its family is preferred, else IPv4
 * @param text out, [WRING_INTERFACE_ADDRESS] the address
 * @return the interface's name, borrowed from all; NULL: there is none
 */
const char *wring_interface_choose(const struct ifaddrs *all, const char *list, const char *like,
                                   char *text);

/**
 * The same, of this host's. Errors, logged: WRING_ERR_INVALID for a malformed list,
 * WRING_ERR_ADDRESS, WRING_ERR_SYSTEM.
 * @param variable  in, that holds the list, for log lines
 */
enum wring_status wring_interface_find_by(const struct wring_log *log, const char *variable,
                                          const char *list, const char *like, char *text);

/** The same, of WRING_IFACE. */
enum wring_status wring_interface_find(const struct wring_log *log, const char *list,
                                       const char *like, char *text);

/** Is this one of this host's own addresses, or of loopback? A zone is not looked at. */
bool wring_interface_has(const char *address);

/** The interface that has an address. @param name out, [bytes], "" where none has */
void wring_interface_name(const char *address, char *name, size_t bytes);

/** This host's interfaces: "eth0 (10.0.0.1), ib0 (10.1.0.1, down)". @param text out, [bytes] */
void wring_interface_list(char *text, size_t bytes);

#endif
