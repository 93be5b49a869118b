/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of each kind, large and small, of which rank 0 says whether each is exact: ruled [allreduce]
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LARGE 100000
#define SMALL 20000
#define MEMBERS 4 /* at most */

static float in[LARGE * MEMBERS], out[LARGE * MEMBERS];
static double doubles[LARGE], double_sums[LARGE];
static int rank, size;

static float input_at(int i)
{
    return 1 + (float)(i % 4096) / 4096; /* more bits than bf16 and int8 have */
}

/** @param begin  of the result here among all that is summed */
static void say(const char *call, int n, int begin)
{
    bool exact = true, all;
    for (int i = 0; i < n; i++)
        exact &= out[i] == (float)size * input_at(begin + i);
    MPI_Reduce(&exact, &all, 1, MPI_C_BOOL, MPI_LAND, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %s\n", call, all ? "exact" : "lossy");
}

static void sum_otherwise(void)
{
    int counts[MEMBERS];

    MPI_Reduce(in, out, LARGE, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    say("reduce", rank == 0 ? LARGE : 0, 0);
    for (int i = 0; i < size; i++)
        counts[i] = LARGE;
    MPI_Reduce_scatter(in, out, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    say("reduce_scatter", LARGE, rank * LARGE);
    MPI_Reduce_scatter_block(in, out, LARGE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    say("reduce_scatter_block", LARGE, rank * LARGE);
    MPI_Allreduce(doubles, double_sums, LARGE, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < LARGE; i++)
        out[i] = (float)double_sums[i];
    say("double", LARGE, 0);
    MPI_Allreduce(in, out, LARGE, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < LARGE; i++)
        out[i] *= (float)size;
    say("max", LARGE, 0);
}

int main(int argc, char **argv)
{
    MPI_Request request;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < LARGE * size; i++)
        in[i] = input_at(i);
    for (int i = 0; i < LARGE; i++)
        doubles[i] = in[i];
    MPI_Allreduce(in, out, LARGE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    say("allreduce", LARGE, 0);
    if (argc == 1) {
        MPI_Iallreduce(in, out, SMALL, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        say("small", SMALL, 0);
        sum_otherwise();
    }
    MPI_Finalize();
    return 0;
}
