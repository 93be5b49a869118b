/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls wring served, and which it left to the MPI, and why: WRING_STATS=1. */
#include "dropin/mpi/mpi_own.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const kind_names[WRING_MPI_CALLS] = {
    [WRING_MPI_ALLREDUCE] = "allreduce",
    [WRING_MPI_REDUCE] = "reduce",
    [WRING_MPI_REDUCE_SCATTER] = "reduce_scatter",
    [WRING_MPI_REDUCE_SCATTER_BLOCK] = "reduce_scatter_block",
    [WRING_MPI_ALLGATHER] = "allgather",
    [WRING_MPI_ALLTOALL] = "alltoall",
    [WRING_MPI_BCAST] = "bcast",
    [WRING_MPI_BARRIER] = "barrier",
};

static const char *const reason_texts[WRING_MPI_REASONS] = {
    [WRING_MPI_SERVED] = "served",
    [WRING_MPI_NO_SESSION] = "wring is not open",
    [WRING_MPI_ALONE] = "communicator of one process",
    [WRING_MPI_INTER] = "intercommunicator",
    [WRING_MPI_FOREIGN] = "processes of another MPI_COMM_WORLD",
    [WRING_MPI_UNSEEN] = "no blocking call has met on the communicator yet",
    [WRING_MPI_TYPE] = "datatype",
    [WRING_MPI_OP] = "operation",
    [WRING_MPI_EMPTY] = "no elements",
    [WRING_MPI_ARGUMENT] = "arguments for the MPI to judge",
};

static atomic_ullong counts[WRING_MPI_CALLS][WRING_MPI_REASONS], coded[WRING_MPI_CALLS];

void wring_mpi_count(enum wring_mpi_call_kind kind, enum wring_mpi_reason reason)
{
    if (wring_mpi_own.stats)
        atomic_fetch_add_explicit(&counts[kind][reason], 1, memory_order_relaxed);
}

void wring_mpi_count_coded(enum wring_mpi_call_kind kind)
{
    if (wring_mpi_own.stats)
        atomic_fetch_add_explicit(&coded[kind], 1, memory_order_relaxed);
}

/** Numbers that ranks add up. */
struct totals {
    uint64_t calls[WRING_MPI_CALLS][WRING_MPI_REASONS];
    uint64_t coded[WRING_CALL_CODECS];
    uint64_t bytes_sent;
};

/** @return whether there were any */
static bool print_row(const struct totals *sums, enum wring_mpi_reason reason)
{
    char line[512];
    int at = 0;
    for (int kind = 0; kind < WRING_MPI_CALLS; kind++)
        if (sums->calls[kind][reason] > 0)
            at += snprintf(line + at, sizeof(line) - (size_t)at, "%s %s %" PRIu64,
                           at > 0 ? "," : "", kind_names[kind], sums->calls[kind][reason]);
    if (at == 0)
        return false;
    if (reason == WRING_MPI_SERVED)
        fprintf(stderr, "wring: mpi: served:%s\n", line);
    else
        fprintf(stderr, "wring: mpi: left to %s (%s):%s\n", wring_mpi_abi.name,
                reason_texts[reason], line);
    return true;
}

/** Which sums travelled by which codec, and what all that is served came to. */
static void print_bytes(const struct totals *sums)
{
    for (int kind = 0; kind < WRING_CALL_CODECS; kind++)
        if (sums->coded[kind] > 0)
            fprintf(stderr, "wring: mpi: by codec %s: %s %" PRIu64 "\n",
                    wring_mpi_own.codecs.of[kind].spec, kind_names[kind], sums->coded[kind]);
    fprintf(stderr, "wring: mpi: sent by wring, all ranks: %" PRIu64 " bytes\n", sums->bytes_sent);
}

static void load_own(struct totals *own)
{
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;

    for (int kind = 0; kind < WRING_MPI_CALLS; kind++)
        for (int reason = 0; reason < WRING_MPI_REASONS; reason++)
            own->calls[kind][reason] = atomic_load(&counts[kind][reason]);
    for (int kind = 0; kind < WRING_CALL_CODECS; kind++)
        own->coded[kind] = atomic_load(&coded[kind]);
    if (wring_session_stats(wring_mpi_own.session, &stats) == WRING_OK)
        own->bytes_sent = stats.wire_bytes_sent;
}

void wring_mpi_counts_print(void)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    struct totals own = {0}, sums = {0};
    bool any = false;

    load_own(&own);
    if (abi->pmpi.Reduce(&own, &sums, sizeof(own) / sizeof(uint64_t), abi->u64, abi->sum, 0,
                         wring_mpi_own.control) != MPI_SUCCESS ||
        wring_mpi_own.rank != 0)
        return;
    for (int reason = 0; reason < WRING_MPI_REASONS; reason++)
        any |= print_row(&sums, (enum wring_mpi_reason)reason);
    print_bytes(&sums);
    if (!any)
        fprintf(stderr, "wring: mpi: the program called no collective that wring knows\n");
}
