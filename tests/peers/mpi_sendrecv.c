/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Times messages between two ranks by MPI_Send and MPI_Recv; built for each MPI library that is
 * there. As `wring bench sendrecv` does, it changes the end of each message before it is sent, and
 * looks at the end of each that has come.
 *
 *     mpirun -n 2 openmpi_sendrecv SECONDS BYTES...
 *
 * Each size takes about SECONDS. Rank 0 prints for each a line "BYTES MIN_US MEDIAN_US P99_US
 * WRONG": half of the time of a message each way, and how many ends were wrong.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/bench/bench.h"

#define TRIPS_MAX 100000
#define TRIPS_MIN 20
#define WARM_TRIPS 100

struct bench {
    int rank;
    int bytes;
    uint8_t *out, *in;
    uint64_t sent, taken, wrong;
};

static size_t stamp_bytes(const struct bench *bench)
{
    return bench->bytes < (int)sizeof(uint64_t) ? (size_t)bench->bytes : sizeof(uint64_t);
}

static void send_one(struct bench *bench)
{
    uint64_t number = bench->sent++;
    memcpy(bench->out + (size_t)bench->bytes - stamp_bytes(bench), &number, stamp_bytes(bench));
    MPI_Send(bench->out, bench->bytes, MPI_BYTE, 1 - bench->rank, 0, MPI_COMM_WORLD);
}

static void receive_one(struct bench *bench)
{
    uint64_t number = bench->taken++;
    MPI_Recv(bench->in, bench->bytes, MPI_BYTE, 1 - bench->rank, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    bench->wrong += memcmp(bench->in + (size_t)bench->bytes - stamp_bytes(bench), &number,
                           stamp_bytes(bench)) != 0;
}

/** @param times  out, [n] us */
static void time_trips(struct bench *bench, int n, double *times)
{
    for (int i = 0; i < n; i++) {
        uint64_t begin = wring_now_ns();
        if (bench->rank == 0)
            send_one(bench);
        receive_one(bench);
        if (bench->rank != 0)
            send_one(bench);
        times[i] = (double)(wring_now_ns() - begin) / 2e3;
    }
}

static void measure(struct bench *bench, double seconds, double *times)
{
    int n = WARM_TRIPS;
    time_trips(bench, n, times);
    struct wring_spread warm = wring_spread_of(times, (size_t)n);
    double fit = seconds * 1e6 / (2 * warm.median);
    n = fit > TRIPS_MAX ? TRIPS_MAX : fit < TRIPS_MIN ? TRIPS_MIN : (int)fit;
    MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
    time_trips(bench, n, times);
    MPI_Allreduce(MPI_IN_PLACE, &bench->wrong, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    struct wring_spread spread = wring_spread_of(times, (size_t)n);
    if (bench->rank == 0)
        printf("%d %.3f %.3f %.3f %llu\n", bench->bytes, spread.min, spread.median, spread.p99,
               (unsigned long long)bench->wrong);
}

int main(int argc, char **argv)
{
    int rank;
    double *times = calloc(TRIPS_MAX, sizeof(*times));

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 3 || times == NULL) {
        fprintf(stderr, "needs: SECONDS BYTES...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        struct bench bench = {.rank = rank, .bytes = atoi(argv[i])};
        size_t room = (size_t)bench.bytes + sizeof(uint64_t);
        bench.out = malloc(room);
        bench.in = malloc(room);
        if (bench.out == NULL || bench.in == NULL)
            return 1;
        memset(bench.out, rank, room);
        memset(bench.in, 0xff, room);
        measure(&bench, atof(argv[1]), times);
        free(bench.in);
        free(bench.out);
    }
    free(times);
    MPI_Finalize();
    return 0;
}
