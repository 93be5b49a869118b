/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose MPI_Init fails, and which may go on, sums without wring. */
#include <mpi.h>
#include <stdio.h>

#include "mpi_check.h"

int main(int argc, char **argv)
{
    char text[MPI_MAX_ERROR_STRING];
    int rank, size, length, sum = 0, failures = 0;

    int code = MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (code != MPI_SUCCESS) {
        MPI_Error_string(code, text, &length);
        printf("rank %d hears: %s\n", rank, text);
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * (size - 1) / 2, "%d", sum);
    printf("rank %d: %d failures\n", rank, failures);
    MPI_Finalize();
    return failures > 0;
}
