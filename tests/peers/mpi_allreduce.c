/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Times MPI_Allreduce; built for each MPI library that is there.
 *
 *     mpirun -n 2 openmpi_allreduce [-o] [-l] SECONDS BYTES...
 */
#include <mpi.h>
#include <stddef.h>

#include "tests/peers/peer_method.h"

struct call {
    const void *in;
    float *out;
    int elems;
};

static void prepare(void *arg, float *in, float *out, uint64_t elems)
{
    struct call *call = arg;
    *call = (struct call){in == out ? MPI_IN_PLACE : in, out, (int)elems};
}

static void run(void *arg)
{
    const struct call *call = arg;
    MPI_Allreduce(call->in, call->out, call->elems, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void barrier(void *arg)
{
    (void)arg;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void max(void *arg, double *values, int n)
{
    (void)arg;
    MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const struct peer_ops ops = {prepare, run, barrier, max};
    struct call call = {0};
    struct peer peer = {.ops = &ops, .arg = &call};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &peer.ranks);
    int code = peer_measure(&peer, argc - 1, argv + 1);
    MPI_Finalize();
    return code;
}
