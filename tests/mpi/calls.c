/* SPDX-License-Identifier: Apache-2.0 */
/* Each collective that wring serves, in all its forms, against what it must give. */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_check.h"

static int rank, size;
static MPI_Comm comm;
static int failures;

static const int counts[] = {1, 2, 7, 100, 1024, 5000, 100000};
#define COUNTS ((int)(sizeof(counts) / sizeof(counts[0])))
#define MOST 100000

/** Small numbers, whose sums every type holds. */
static int value(int of, int i)
{
    return (i * 3 + of * 5) % 11;
}

static int sum(int i)
{
    int all = 0;
    for (int r = 0; r < size; r++)
        all += value(r, i);
    return all;
}

enum form {
    BLOCKING,
    BEGUN,
    IN_PLACE,
    IN_PLACE_BEGUN,
    FORMS
};

static void finish(MPI_Request *request)
{
    MPI_Status status;
    CHECK(MPI_Wait(request, &status) == MPI_SUCCESS, "wait");
    CHECK(*request == MPI_REQUEST_NULL, "a request that is done is none");
}

static void check_allreduce(int count, enum form form)
{
    float *in = malloc(count * sizeof(float)), *out = malloc(count * sizeof(float));
    bool in_place = form == IN_PLACE || form == IN_PLACE_BEGUN;
    MPI_Request request;
    for (int i = 0; i < count; i++)
        in[i] = out[i] = (float)value(rank, i);
    const void *from = in_place ? MPI_IN_PLACE : in;
    if (form == BLOCKING || form == IN_PLACE)
        MPI_Allreduce(from, out, count, MPI_FLOAT, MPI_SUM, comm);
    else {
        MPI_Iallreduce(from, out, count, MPI_FLOAT, MPI_SUM, comm, &request);
        finish(&request);
    }
    for (int i = 0; i < count; i++)
        if (out[i] != (float)sum(i)) {
            CHECK(false, "allreduce of %d, form %d: [%d] is %g, not %d", count, form, i, out[i],
                  sum(i));
            break;
        }
    free(in), free(out);
}

static void check_reduce(int count, enum form form, int root)
{
    int *in = malloc(count * sizeof(int)), *out = calloc(count, sizeof(int));
    bool in_place = rank == root && (form == IN_PLACE || form == IN_PLACE_BEGUN);
    MPI_Request request;
    for (int i = 0; i < count; i++) {
        in[i] = value(rank, i);
        out[i] = in_place ? in[i] : -1;
    }
    const void *from = in_place ? MPI_IN_PLACE : in;
    void *to = rank == root ? out : NULL;
    if (form == BLOCKING || form == IN_PLACE)
        MPI_Reduce(from, to, count, MPI_INT, MPI_SUM, root, comm);
    else {
        MPI_Ireduce(from, to, count, MPI_INT, MPI_SUM, root, comm, &request);
        finish(&request);
    }
    for (int i = 0; rank == root && i < count; i++)
        if (out[i] != sum(i)) {
            CHECK(false, "reduce of %d, form %d: [%d] is %d, not %d", count, form, i, out[i],
                  sum(i));
            break;
        }
    free(in), free(out);
}

static void check_reduce_scatter(int count, enum form form, bool block)
{
    int *runs = malloc(size * sizeof(int)), total = 0, begin = 0;
    for (int r = 0; r < size; r++) {
        runs[r] = block ? count / size + 1 : r == 0 ? 0 : count / size + r;
        begin = r == rank ? total : begin;
        total += runs[r];
    }
    double *in = malloc(total * sizeof(double)), *out = malloc(total * sizeof(double));
    bool in_place = form == IN_PLACE || form == IN_PLACE_BEGUN;
    MPI_Request request = MPI_REQUEST_NULL;
    for (int i = 0; i < total; i++)
        in[i] = out[i] = value(rank, i);
    const void *from = in_place ? MPI_IN_PLACE : in;
    bool begun = form == BEGUN || form == IN_PLACE_BEGUN;
    if (block && !begun)
        MPI_Reduce_scatter_block(from, out, runs[0], MPI_DOUBLE, MPI_SUM, comm);
    else if (block)
        MPI_Ireduce_scatter_block(from, out, runs[0], MPI_DOUBLE, MPI_SUM, comm, &request);
    else if (!begun)
        MPI_Reduce_scatter(from, out, runs, MPI_DOUBLE, MPI_SUM, comm);
    else
        MPI_Ireduce_scatter(from, out, runs, MPI_DOUBLE, MPI_SUM, comm, &request);
    finish(&request);
    for (int i = 0; i < runs[rank]; i++)
        if (out[i] != sum(begin + i)) {
            CHECK(false, "reduce_scatter%s of %d, form %d: [%d] is %g, not %d",
                  block ? "_block" : "", count, form, i, out[i], sum(begin + i));
            break;
        }
    for (int i = runs[rank]; in_place && i < total; i++)
        if (out[i] != in[i]) {
            CHECK(false, "reduce_scatter of %d changes [%d] behind its result", count, i);
            break;
        }
    free(runs), free(in), free(out);
}

static void check_allgather(int count, enum form form)
{
    int *in = malloc(count * sizeof(int)), *out = malloc((size_t)count * size * sizeof(int));
    bool in_place = form == IN_PLACE || form == IN_PLACE_BEGUN;
    MPI_Request request = MPI_REQUEST_NULL;
    memset(out, 0xff, (size_t)count * size * sizeof(int));
    for (int i = 0; i < count; i++) {
        in[i] = value(rank, i);
        if (in_place)
            out[rank * count + i] = in[i];
    }
    const void *from = in_place ? MPI_IN_PLACE : in;
    if (form == BLOCKING || form == IN_PLACE)
        MPI_Allgather(from, count, MPI_INT, out, count, MPI_INT, comm);
    else
        MPI_Iallgather(from, count, MPI_INT, out, count, MPI_INT, comm, &request);
    finish(&request);
    for (int i = 0; i < count * size; i++)
        if (out[i] != value(i / count, i % count)) {
            CHECK(false, "allgather of %d, form %d: [%d] is %d", count, form, i, out[i]);
            break;
        }
    free(in), free(out);
}

static void check_alltoall(int count, enum form form)
{
    int n = count * size;
    int *in = malloc(n * sizeof(int)), *out = malloc(n * sizeof(int));
    bool in_place = form == IN_PLACE || form == IN_PLACE_BEGUN;
    MPI_Request request = MPI_REQUEST_NULL;
    for (int i = 0; i < n; i++) {
        in[i] = value(rank * 100 + i / count, i % count);
        out[i] = in_place ? in[i] : -1;
    }
    const void *from = in_place ? MPI_IN_PLACE : in;
    if (form == BLOCKING || form == IN_PLACE)
        MPI_Alltoall(from, count, MPI_INT, out, count, MPI_INT, comm);
    else
        MPI_Ialltoall(from, count, MPI_INT, out, count, MPI_INT, comm, &request);
    finish(&request);
    for (int i = 0; i < n; i++)
        if (out[i] != value(i / count * 100 + rank, i % count)) {
            CHECK(false, "alltoall of %d, form %d: [%d] is %d", count, form, i, out[i]);
            break;
        }
    free(in), free(out);
}

/** The root's type has gaps, the others' has none: signatures are equal. */
static void check_bcast(int count, enum form form, int root)
{
    MPI_Datatype gaps;
    bool strided = rank == root && (form == IN_PLACE || form == IN_PLACE_BEGUN);
    int step = strided ? 2 : 1;
    int *data = calloc((size_t)count * 2, sizeof(int));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Type_vector(count, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    for (int i = 0; i < count; i++)
        data[i * step] = rank == root ? value(root, i) : -1;
    MPI_Datatype type = strided ? gaps : MPI_INT;
    if (form == BLOCKING || form == IN_PLACE)
        MPI_Bcast(data, strided ? 1 : count, type, root, comm);
    else
        MPI_Ibcast(data, strided ? 1 : count, type, root, comm, &request);
    finish(&request);
    for (int i = 0; i < count; i++)
        if (data[i * step] != value(root, i)) {
            CHECK(false, "bcast of %d, form %d: [%d] is %d", count, form, i, data[i * step]);
            break;
        }
    MPI_Type_free(&gaps);
    free(data);
}

static void check_all(void)
{
    for (int c = 0; c < COUNTS; c++)
        for (enum form form = BLOCKING; form < FORMS; form++) {
            check_allreduce(counts[c], form);
            check_reduce(counts[c], form, c % size);
            check_reduce_scatter(counts[c], form, false);
            check_reduce_scatter(counts[c], form, true);
            check_allgather(counts[c], form);
            check_alltoall(counts[c], form);
            check_bcast(counts[c], form, c % size);
        }
    MPI_Request request;
    MPI_Barrier(comm);
    MPI_Ibarrier(comm, &request);
    finish(&request);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    check_all();
    int all, mine = failures;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        printf("%d failures\n", all);
    return all == 0 ? 0 : 1;
}
