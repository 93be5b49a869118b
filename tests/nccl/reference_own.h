/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A small network plugin over loopback sockets, which shows that the driver of these tests is
 * right: every case passes on it, and fails on it once it is broken in the way that the case is
 * about. REFERENCE_BREAK names the way; reference_proof.py has the list.
 *
 * It is no example to follow: what has come is copied, and what nobody waits for is kept without a
 * bound.
 */
#ifndef WRING_TESTS_NCCL_REFERENCE_OWN_H
#define WRING_TESTS_NCCL_REFERENCE_OWN_H

#include <stdbool.h>

#include "dropin/nccl/nccl_abi.h"

/** Is it broken in that way? */
bool reference_broken(const char *how);

/** REFERENCE_NO_DEVICE is set. */
bool reference_has_no_device(void);

/** One line to whoever initialised it last. */
#define REFERENCE_SAY(level, ...) \
    reference_log(level, WRING_NCCL_PART_NET, __FILE__, __LINE__, __VA_ARGS__)
extern wring_nccl_log_fn reference_log;

/** What is the same in all versions of the tables. */
int reference_init(void **context, wring_nccl_log_fn log);
int reference_finalize(void *context);
int reference_devices(int *n);
struct wring_nccl_properties_v12 reference_properties(void);

int reference_net_listen(void *handle, void **listen_comm);
int reference_net_connect(void *handle, void **send_comm);
int reference_net_accept(void *listen_comm, void **recv_comm,
                         struct wring_nccl_device_handle **device_handle);
int reference_net_reg_mr(void *comm, void *data, size_t bytes, int memory, void **mhandle);
int reference_net_dereg_mr(void *comm, void *mhandle);
int reference_net_isend(void *comm, void *data, size_t bytes, int tag, void *mhandle,
                        void **request);
int reference_net_irecv(void *comm, int n, void **data, const size_t *bytes, const int *tags,
                        void **mhandles, void **request);
int reference_net_iflush(void *comm, int n, void **data, int *bytes, void **mhandles,
                         void **request);
int reference_net_test(void *request, int *done, int *bytes);
int reference_net_close(void *comm);
int reference_net_close_listen(void *listen_comm);

int reference_coll_listen(void *handle, void **listen_comm);
int reference_coll_close_listen(void *listen_comm);
int reference_coll_connect(void *handles[], int ranks, int rank, void *listen_comm, void **comm);
int reference_coll_reduce_support(int dtype, int op, int *supported);
int reference_coll_reg_mr(void *comm, void *data, size_t bytes, int memory, void **mhandle);
int reference_coll_dereg_mr(void *comm, void *mhandle);
int reference_coll_iallreduce(void *comm, void *send, void *recv, size_t elems, int dtype, int op,
                              void **request);
int reference_coll_iallgather(void *comm, void *send, void *recv, size_t block, size_t window,
                              size_t window_bytes, void **request);
int reference_coll_ireducescatter(void *comm, void *send, void *recv, size_t block, size_t window,
                                  size_t window_bytes, int dtype, int op, void **request);
int reference_coll_iflush(void *comm, void *data, int bytes, void *mhandle, void **request);
int reference_coll_test(void *request, int *done, int *bytes);
int reference_coll_close(void *comm);

#endif
