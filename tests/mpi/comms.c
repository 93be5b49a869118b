/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators, requests, threads and errors of a program with libwring_mpi.so: comms CASE */
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_check.h"

static int rank, size, failures;

/** The sum of all members' ranks in MPI_COMM_WORLD, found out twice. */
static void check_comm(MPI_Comm comm, const char *what)
{
    int n, all = -1, *ranks, want = 0;
    MPI_Comm_size(comm, &n);
    ranks = malloc(n * sizeof(int));
    MPI_Allgather(&rank, 1, MPI_INT, ranks, 1, MPI_INT, comm);
    for (int i = 0; i < n; i++)
        want += ranks[i];
    MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, comm);
    CHECK(all == want, "%s: %d, not %d", what, all, want);
    free(ranks);
}

static void test_made(void)
{
    MPI_Comm comm, other;
    MPI_Group world, part;
    int dims[2] = {0, 0}, periods[2] = {0, 0}, keep[2] = {1, 0};

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
    check_comm(comm, "split");
    MPI_Comm_dup(comm, &other);
    check_comm(other, "a dup of a split");
    MPI_Comm_free(&comm);
    check_comm(other, "a dup whose origin is freed");
    MPI_Comm_free(&other);

    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &comm);
    if (comm != MPI_COMM_NULL) {
        check_comm(comm, "all but one");
        MPI_Comm_free(&comm);
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int first[2] = {1, 0};
    MPI_Group_incl(world, 2, first, &part);
    MPI_Comm_create(MPI_COMM_WORLD, part, &comm);
    if (comm != MPI_COMM_NULL) {
        check_comm(comm, "create");
        MPI_Comm_free(&comm);
    }
    if (rank < 2) {
        MPI_Comm_create_group(MPI_COMM_WORLD, part, 7, &comm);
        check_comm(comm, "create_group");
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&part);
    MPI_Group_free(&world);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &comm);
    check_comm(comm, "cart_create");
    MPI_Cart_sub(comm, keep, &other);
    check_comm(other, "cart_sub");
    MPI_Comm_free(&other);
    MPI_Comm_free(&comm);
    check_comm(MPI_COMM_SELF, "self");
    MPI_Request request;
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    int all = 0;
    MPI_Iallreduce(&rank, &all, 1, MPI_INT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(all == size * (size - 1) / 2, "idup, nobody met: %d", all);
    check_comm(comm, "idup");
    MPI_Comm_free(&comm);
    for (int i = 0; i < 100; i++) {
        MPI_Comm_split(MPI_COMM_WORLD, (rank + i) % 2, rank, &comm);
        check_comm(comm, "one of many");
        MPI_Comm_free(&comm);
    }
}

/** Communicators of the same ranks, used in another order on each. */
static void test_orders(void)
{
    enum {
        N = 4
    };
    MPI_Comm comms[N];
    MPI_Request requests[N];
    int sums[N], mine[N];

    for (int i = 0; i < N; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < N; i++) {
        int c = rank % 2 == 0 ? i : N - 1 - i;
        mine[c] = rank + c;
        MPI_Iallreduce(&mine[c], &sums[c], 1, MPI_INT, MPI_SUM, comms[c], &requests[c]);
    }
    MPI_Waitall(N, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++) {
        CHECK(sums[i] == size * (size - 1) / 2 + size * i, "comm %d: %d", i, sums[i]);
        MPI_Comm_free(&comms[i]);
    }
}

/** A rank that waits in one library is waited for in the other. */
static void test_progress(void)
{
    enum {
        BIG = 8 << 20
    };
    char *big = malloc(BIG);
    MPI_Request request;
    MPI_Comm comm;
    int sum, token = rank;

    memset(big, rank, BIG);
    for (int turn = 0; turn < 3; turn++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (rank == 0) { /* the sender cannot go on before we look at our messages */
            MPI_Irecv(big, BIG, MPI_CHAR, 1, 3, MPI_COMM_WORLD, &request);
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            CHECK(big[BIG - 1] == 1, "message");
        } else {
            if (rank == 1)
                MPI_Ssend(big, BIG, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        }
        MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
        if (rank == 0)
            MPI_Recv(&token, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(&token, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
        CHECK(sum == size * (size - 1) / 2, "sum %d", sum);
        MPI_Comm_free(&comm);
    }
    /* of a communicator whose first call does not block */
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
    if (rank == 0)
        MPI_Recv(&token, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 1)
        MPI_Send(&token, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
    free(big);
}

/** Requests of both libraries in one array. */
static void test_mixed(void)
{
    enum {
        N = 6
    };
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int variant = 0; variant < 7; variant++) {
        MPI_Request requests[N];
        MPI_Status statuses[N];
        int got = -1, sum = -1, data[1000], all[1000], root = rank, done = 0;
        for (int i = 0; i < 1000; i++)
            data[i] = rank + i;
        MPI_Irecv(&got, 1, MPI_INT, before, variant, MPI_COMM_WORLD, &requests[0]);
        MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
        requests[2] = MPI_REQUEST_NULL;
        MPI_Iallreduce(data, all, 1000, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[3]);
        MPI_Isend(&rank, 1, MPI_INT, next, variant, MPI_COMM_WORLD, &requests[4]);
        MPI_Ibcast(&root, 1, MPI_INT, size - 1, MPI_COMM_WORLD, &requests[5]);
        if (variant == 0) {
            MPI_Waitall(N, requests, statuses);
            CHECK(statuses[0].MPI_SOURCE == before, "source");
        } else if (variant == 1) {
            while (!done)
                MPI_Testall(N, requests, &done, MPI_STATUSES_IGNORE);
        } else if (variant == 2 || variant == 3) {
            for (int left = N - 1; left > 0;) {
                int index, flag = 1;
                if (variant == 2)
                    MPI_Waitany(N, requests, &index, MPI_STATUS_IGNORE);
                else
                    MPI_Testany(N, requests, &index, &flag, MPI_STATUS_IGNORE);
                if (!flag)
                    continue;
                CHECK(index >= 0 && index < N && index != 2, "index %d", index);
                left--;
            }
            int index;
            MPI_Waitany(N, requests, &index, MPI_STATUS_IGNORE);
            CHECK(index == MPI_UNDEFINED, "nothing is left: %d", index);
        } else if (variant == 4 || variant == 5) {
            int indices[N], n;
            for (int left = N - 1; left > 0;) {
                if (variant == 4)
                    MPI_Waitsome(N, requests, &n, indices, statuses);
                else
                    MPI_Testsome(N, requests, &n, indices, statuses);
                CHECK(n >= 0 && n <= left, "n %d", n);
                left -= n;
            }
            MPI_Waitsome(N, requests, &n, indices, statuses);
            CHECK(n == MPI_UNDEFINED, "nothing is left: %d", n);
        } else {
            for (int i = 0; i < N; i++) {
                int flag = 0;
                while (!flag)
                    MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
                for (flag = 0; !flag;)
                    MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
            }
        }
        CHECK(got == before && sum == size * (size - 1) / 2 && root == size - 1,
              "variant %d: %d %d %d", variant, got, sum, root);
        for (int i = 0; i < 1000; i++)
            if (all[i] != size * (size - 1) / 2 + size * i) {
                CHECK(false, "variant %d: [%d] is %d", variant, i, all[i]);
                break;
            }
        for (int i = 0; i < N; i++)
            CHECK(requests[i] == MPI_REQUEST_NULL, "request %d", i);
    }
}

static void add_odd(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *n; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/** What wring leaves to the MPI works beside what it serves. */
static void test_passed(void)
{
    MPI_Op op;
    int sum = 0;
    struct {
        double value;
        int index;
    } mine = {rank, rank}, most;
    long double fine = rank, finest;

    MPI_Op_create(add_odd, 1, &op);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
    MPI_Op_free(&op);
    CHECK(sum == size * (size - 1) / 2, "own operation: %d", sum);
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    CHECK(most.index == size - 1, "maxloc: %d", most.index);
    MPI_Allreduce(&fine, &finest, 1, MPI_LONG_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    CHECK(finest == size - 1, "long double");
    MPI_Allreduce(&rank, &sum, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm half, inter;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 == 0 ? 1 : 0, 9, &inter);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    int want = 0;
    for (int r = 1 - rank % 2; r < size; r += 2)
        want += r;
    CHECK(sum == want, "intercommunicator: %d, not %d", sum, want);
    MPI_Comm merged;
    MPI_Intercomm_merge(inter, rank % 2, &merged);
    check_comm(merged, "merged");
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION == 4 /* before MPI 4 had them */
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init
#define MPI_Bcast_init MPIX_Bcast_init
#define MPI_Reduce_scatter_init MPIX_Reduce_scatter_init
#endif

static void test_persistent(void)
{
    MPI_Request requests[4];
    float in[3000], out[3000];
    int root = -1, got = -1, runs[64], next = (rank + 1) % size, before = (rank + size - 1) % size;

    MPI_Allreduce_init(in, out, 3000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &requests[0]);
    MPI_Bcast_init(&root, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Recv_init(&got, 1, MPI_INT, before, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Send_init(&rank, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[3]);
    for (int turn = 0; turn < 12; turn++) {
        int n, index, flag = 0, indices[4];
        for (int i = 0; i < 3000; i++)
            in[i] = (float)(rank + i + turn);
        root = rank == 0 ? turn : -1;
        MPI_Startall(4, requests);
        if (turn % 4 == 0)
            MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        else if (turn % 4 == 1)
            while (!flag)
                MPI_Testall(4, requests, &flag, MPI_STATUSES_IGNORE);
        else if (turn % 4 == 2)
            for (int left = 4; left > 0; left -= index != MPI_UNDEFINED)
                MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
        else
            for (int left = 4; left > 0; left -= n)
                MPI_Waitsome(4, requests, &n, indices, MPI_STATUSES_IGNORE);
        CHECK(root == turn && got == before, "turn %d: %d %d", turn, root, got);
        for (int i = 0; i < 3000; i++)
            if (out[i] != (float)(size * (size - 1) / 2 + size * (i + turn))) {
                CHECK(false, "turn %d: [%d] is %g", turn, i, out[i]);
                break;
            }
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE); /* of what is inactive: returns at once */
    for (int variant = 0; variant < 2;
         variant++) { /* they match by the order in which they were made */
        root = rank == 0 ? 77 : -1;
        MPI_Start(&requests[rank % 2]);
        MPI_Start(&requests[1 - rank % 2]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(root == 77, "root %d", root);
    }
    for (int i = 0; i < 4; i++)
        MPI_Request_free(&requests[i]);
    for (int r = 0; r < size; r++)
        runs[r] = r + 1;
    MPI_Reduce_scatter_init(in, out, runs, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &requests[0]);
    memset(runs, 0, sizeof(runs)); /* which the call may have copied */
    for (int r = 0; r < size; r++)
        runs[r] = r + 1;
    MPI_Start(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    CHECK(out[0] == (float)(size * (size - 1) / 2 + size * (rank * (rank + 1) / 2 + 11)), "%g",
          out[0]);
    MPI_Request_free(&requests[0]);
}

static void *run_thread(void *arg)
{
    MPI_Comm comm = *(MPI_Comm *)arg;
    for (int i = 0; i < 200; i++) {
        int sum, got, other = rank ^ 1, mine = rank + i;
        MPI_Request request;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == size * (size - 1) / 2 + size * i, "sum %d", sum);
        MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_MAX, comm, &request);
        if (other < size)
            MPI_Sendrecv(&mine, 1, MPI_INT, other, 0, &got, 1, MPI_INT, other, 0, comm,
                         MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(sum == size - 1 + i, "maximum %d", sum);
    }
    return NULL;
}

static void test_threads(void)
{
    enum {
        N = 3
    };
    pthread_t threads[N];
    MPI_Comm comms[N];
    for (int i = 0; i < N; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < N; i++)
        pthread_create(&threads[i], NULL, run_thread, &comms[i]);
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < N; i++)
        MPI_Comm_free(&comms[i]);
}

static int handled;

static void handle(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
}

/** A failure goes to the communicator's own handler. */
static void test_errors(void)
{
    static float data[200];
    MPI_Errhandler handler;
    MPI_Comm comm;
    char text[MPI_MAX_ERROR_STRING];
    int length;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    int code = MPI_Allreduce(data, data + 1, 100, MPI_FLOAT, MPI_SUM, comm);
    CHECK(code != MPI_SUCCESS && handled == 1, "code %d, handled %d", code, handled);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "wring") != NULL, "%s", text);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    check_comm(MPI_COMM_WORLD, "after an error");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"made", test_made},         {"orders", test_orders},
                 {"progress", test_progress}, {"mixed", test_mixed},
                 {"passed", test_passed},     {"persistent", test_persistent},
                 {"threads", test_threads},   {"errors", test_errors}};
    bool threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    int provided, all;

    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0 &&
            (!threads || provided == MPI_THREAD_MULTIPLE))
            cases[i].run();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        printf("%d failures\n", all);
    return all == 0 ? 0 : 1;
}
