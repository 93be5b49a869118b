/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 1 is killed between two sums; what the others' next ones answer. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, code = MPI_SUCCESS, length;
    char text[MPI_MAX_ERROR_STRING];
    double mine = 1, sum;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; code == MPI_SUCCESS; i++) {
        if (rank == 1 && i == 100) {
            printf("rank 1 goes\n");
            fflush(stdout);
            raise(SIGKILL);
        }
        code = MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Error_string(code, text, &length);
    printf("rank %d: %s\n", rank, text);
    fflush(stdout);
    _exit(3); /* MPI_Finalize would wait for who is dead */
}
