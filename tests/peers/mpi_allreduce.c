/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Times MPI_Allreduce by the rules of `wring bench allreduce`: every rank writes its input anew
 * before each call, a barrier goes before it, a call takes as long as its slowest rank, and the
 * result is checked against the exact sum.
 *
 *     mpirun -n 2 mpi_allreduce SECONDS BYTES...
 *
 * Rank 0 prints a line "BYTES MIN_US MEDIAN_US P99_US WRONG" for each size.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"

#define SHIFTS 4096
#define ITERATIONS_MIN 5
#define ITERATIONS_MAX 10000

struct bench {
    int rank, ranks;
    float *source, *data; /* [elems + SHIFTS], [elems] */
    uint64_t elems, round;
};

static uint64_t shift_of(const struct bench *bench)
{
    return bench->round * 61 % SHIFTS;
}

/** @return this rank's time in us */
static double timed_call(struct bench *bench)
{
    bench->round++;
    memcpy(bench->data, bench->source + shift_of(bench), bench->elems * sizeof(float));
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, bench->data, (int)bench->elems, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return (MPI_Wtime() - begin) * 1e6;
}

/** Elements of the last result that are off, over all ranks. */
static unsigned long long count_wrong(const struct bench *bench)
{
    unsigned long long wrong = 0;

    for (uint64_t i = 0; i < bench->elems; i++) {
        double sum = 0;
        for (int rank = 0; rank < bench->ranks; rank++)
            sum += (double)wring_pattern((uint32_t)rank, i + shift_of(bench));
        wrong += bench->data[i] != (float)sum;
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    return wrong;
}

static int choose_iterations(double seconds, double warm_us)
{
    double fit = seconds * 1e6 / (warm_us > 1 ? warm_us : 1);
    int count = fit > ITERATIONS_MAX ? ITERATIONS_MAX : (int)fit;

    if (count < ITERATIONS_MIN)
        count = ITERATIONS_MIN;
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return count;
}

static void measure(struct bench *bench, double seconds)
{
    timed_call(bench);
    unsigned long long wrong = count_wrong(bench);
    int n = choose_iterations(seconds, timed_call(bench));
    double *times = malloc((size_t)n * sizeof(*times));

    if (times == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < n; i++)
        times[i] = timed_call(bench);
    MPI_Allreduce(MPI_IN_PLACE, times, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    wrong += count_wrong(bench);
    struct wring_spread spread = wring_spread_of(times, (size_t)n);
    if (bench->rank == 0)
        printf("%llu %.3f %.3f %.3f %llu\n", (unsigned long long)bench->elems * sizeof(float),
               spread.min, spread.median, spread.p99, wrong);
    free(times);
}

int main(int argc, char **argv)
{
    struct bench bench = {0};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.ranks);
    for (int i = 2; i < argc; i++) {
        bench.elems = strtoull(argv[i], NULL, 10) / sizeof(float);
        bench.source = malloc((bench.elems + SHIFTS) * sizeof(float));
        bench.data = malloc(bench.elems * sizeof(float));
        if (bench.source == NULL || bench.data == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        wring_pattern_fill(bench.source, bench.elems + SHIFTS, (uint32_t)bench.rank);
        measure(&bench, atof(argv[1]));
        free(bench.source);
        free(bench.data);
    }
    MPI_Finalize();
    return 0;
}
