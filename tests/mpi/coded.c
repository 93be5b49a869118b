/* SPDX-License-Identifier: Apache-2.0 */
/* Sums with WRING_MPI_CODEC=bf16, of which rank 0 says whether each is exact. */
#include <mpi.h>
#include <stdio.h>

#define ELEMS 100000

static float floats[ELEMS], float_sums[ELEMS];
static double doubles[ELEMS], double_sums[ELEMS];

static const char *judge(int n, int size)
{
    for (int i = 0; i < n; i++)
        if (float_sums[i] != (float)size * floats[i])
            return "lossy";
    return "exact";
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < ELEMS; i++)
        doubles[i] = floats[i] = 1 + (float)(i % 4096) / 4096; /* more bits than bf16 has */
    MPI_Allreduce(floats, float_sums, ELEMS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    const char *large = judge(ELEMS, size);
    MPI_Allreduce(floats, float_sums, 1000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    const char *small = judge(1000, size);
    MPI_Allreduce(doubles, double_sums, ELEMS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    const char *wide = "exact";
    for (int i = 0; i < ELEMS; i++)
        wide = double_sums[i] != size * doubles[i] ? "lossy" : wide;
    if (rank == 0)
        printf("large %s, small %s, double %s\n", large, small, wide);
    MPI_Finalize();
    return 0;
}
