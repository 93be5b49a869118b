/* SPDX-License-Identifier: Apache-2.0 */
/**
 * libibverbs, found at run time: one binary serves hosts with and without it. Data-path calls
 * (post, poll, notify) are inline in its header and go through the device's own table.
 */
#ifndef WRING_VERBS_LIBRARY_H
#define WRING_VERBS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

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

#endif
