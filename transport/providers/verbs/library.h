/* SPDX-License-Identifier: Apache-2.0 */
/**
 * libibverbs, found at run time: one binary serves hosts with and without it. Data-path calls
 * (post, poll, notify) are inline in its header and go through the device's own table.
 */
#ifndef WRING_VERBS_LIBRARY_H
#define WRING_VERBS_LIBRARY_H

#include <hwloc.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

#include "transport/providers/verbs/devices.h"

/* the header's names of some are macros, so the members go without the prefix */
/* clang-format off */
#define VERBS_FUNCTIONS(X)                                                                     \
    X(get_device_list) X(free_device_list) X(get_device_name) X(open_device) X(close_device)   \
    X(query_port) X(query_pkey) X(query_device) X(alloc_pd) X(dealloc_pd) X(reg_mr) X(dereg_mr)              \
    X(create_comp_channel) X(destroy_comp_channel) X(create_cq) X(destroy_cq)                  \
    X(get_cq_event) X(ack_cq_events) X(create_qp) X(modify_qp) X(destroy_qp)                   \
    X(get_async_event) X(ack_async_event) X(wc_status_str) X(event_type_str)                   \
    X(resize_cq) X(qp_to_qp_ex)
/* NULL in releases before theirs */
#define VERBS_OPTIONAL(X) X(reg_mr_iova2) X(reg_dmabuf_mr)
/* clang-format on */

#define VERBS_MEMBER(name) __typeof__(&ibv_##name) name;
struct verbs_library {
    void *handle;
    VERBS_FUNCTIONS(VERBS_MEMBER)
    VERBS_OPTIONAL(VERBS_MEMBER)
    __typeof__(&_ibv_query_gid_ex) query_gid_ex;
};
#undef VERBS_MEMBER

/** Load it. @param reason out, [bytes], why not; written on failure only */
bool wring_verbs_library_load(struct verbs_library *library, char *reason, size_t bytes);

void wring_verbs_library_unload(struct verbs_library *library);

/* The RDMA devices of this host, as tables (verbs/devices.h), read from libibverbs. */

/** Devices that this process has open already: to look at one takes no opening then. */
struct verbs_opened {
    struct ibv_context *(*borrow)(const char *device); /* NULL: it is not */
    void (*give_back)(struct ibv_context *context);
};

/**
 * Look at every port of every device; nothing stays open.
 *
 * @param opened  NULL: each is opened for it
 * @param with_abilities  try out what the devices can do, too: makes queue pairs and takes a while
 * @param table   out, to be freed with wring_verbs_table_free(); untouched on failure
 * @param reason  out, [bytes], why it cannot be read; written on failure only. No device at all is
 *                such a failure
 */
bool wring_verbs_table_read(const struct verbs_library *library, const struct verbs_opened *opened,
                            bool with_abilities, struct verbs_table *table, char *reason,
                            size_t bytes);
void wring_verbs_table_free(struct verbs_table *table);

/** Open the device of that name. @return NULL where it is not there or does not open; errno */
struct ibv_context *wring_verbs_open_named(const struct verbs_library *library, const char *name);

/* The abilities of a device, tried out on it. */

/**
 * Does the device register dma-bufs? Asked with a descriptor that is none: those that know the call
 * object to the descriptor (EBADF), the others to the call (EOPNOTSUPP, EPROTONOSUPPORT).
 */
bool wring_verbs_takes_dmabuf(const struct verbs_library *library, struct ibv_pd *pd);

/** Does the kernel translate addresses of CUDA memory for devices? @param wish  of
 *  WRING_VERBS_PEERMEM */
bool wring_verbs_takes_addresses(const char *wish);

/**
 * May this process register memory worth speaking of with a device? Where `ulimit -l` is small a
 * bit more than it allows is tried: some processes need not keep to it.
 * @param reason  out, [bytes], written where it may not
 */
bool wring_verbs_may_lock(const struct verbs_library *library, const char *device, char *reason,
                          size_t bytes);

/* Where a device hangs in a machine that hwloc knows. */

/**
 * Fill in port->place and port->numa: near if the device hangs off a part of the machine that has
 * one of these cores. A device that hwloc does not list (soft-RoCE hangs nowhere) stays unknown.
 *
 * @param topology  loaded with I/O devices
 * @param cores     those that this process may run on
 */
void wring_verbs_find_locality_in(hwloc_topology_t topology, hwloc_const_bitmap_t cores,
                                  struct verbs_port *port);

#endif
