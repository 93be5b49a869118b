/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduces that a group has made before: of sizes, types and operations more than it keeps, in
 * and out of place, beside calls with options, and with memory that must be refused once more.
 */
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define TURNS 3
#define SMALL 40
#define ELEMS_MAX 70000

struct kind {
    enum wring_dtype dtype;
    enum wring_op op;
};

static const struct kind kinds[] = {{WRING_F32, WRING_SUM}, {WRING_F32, WRING_MAX},
                                    {WRING_I32, WRING_SUM}, {WRING_I32, WRING_MIN},
                                    {WRING_F64, WRING_SUM}, {WRING_F32, WRING_AVG}};

static double get(const void *data, enum wring_dtype dtype, uint64_t i)
{
    if (dtype == WRING_F32)
        return ((const float *)data)[i];
    return dtype == WRING_I32 ? ((const int32_t *)data)[i] : ((const double *)data)[i];
}

/** Rank 0 has the least, and the last one the most. */
static int number(uint64_t i, uint32_t rank, uint32_t turn)
{
    return (int)((i + turn) % 97) * 6 + (int)rank * 6;
}

static void fill(void *data, enum wring_dtype dtype, uint64_t elems, uint32_t rank, uint32_t turn)
{
    for (uint64_t i = 0; i < elems; i++) {
        int value = number(i, rank, turn);
        if (dtype == WRING_F32)
            ((float *)data)[i] = (float)value;
        else if (dtype == WRING_I32)
            ((int32_t *)data)[i] = value;
        else
            ((double *)data)[i] = value;
    }
}

static double expect(const struct kind *kind, uint64_t i, uint32_t ranks, uint32_t turn)
{
    double sum = 0;
    if (kind->op == WRING_MAX)
        return number(i, ranks - 1, turn);
    if (kind->op == WRING_MIN)
        return number(i, 0, turn);
    for (uint32_t rank = 0; rank < ranks; rank++)
        sum += number(i, rank, turn);
    return kind->op == WRING_AVG ? sum / ranks : sum;
}

static void call(struct wring_group *group, const struct kind *kind, uint64_t elems, uint32_t rank,
                 uint32_t ranks, uint32_t turn)
{
    static _Thread_local double in[ELEMS_MAX], out[ELEMS_MAX];
    struct wring_call how = WRING_CALL_INIT;
    bool in_place = (elems + turn) % 2 == 0;
    void *result = in_place ? in : out;
    uint64_t wrong = 0;

    fill(in, kind->dtype, elems, rank, turn);
    CHECK(wring_allreduce(group, in, result, elems, kind->dtype, kind->op,
                          elems % 5 == 0 ? &how : NULL, NULL) == WRING_OK,
          "allreduce");
    for (uint64_t i = 0; i < elems; i++)
        wrong += get(result, kind->dtype, i) != expect(kind, i, ranks, turn);
    CHECK(wrong == 0, "turn %u: %llu of %llu elements of %s %s are wrong", turn,
          (unsigned long long)wrong, (unsigned long long)elems, wring_dtype_name(kind->dtype),
          wring_op_name(kind->op));
}

static void refused(struct wring_group *group, uint64_t elems)
{
    static _Thread_local float data[2 * SMALL];
    char *odd = (char *)data + 1;

    CHECK(wring_allreduce(group, data, NULL, elems, WRING_F32, WRING_SUM, NULL, NULL) ==
              WRING_ERR_INVALID,
          "no memory");
    CHECK(wring_allreduce(group, odd, odd, elems, WRING_F32, WRING_SUM, NULL, NULL) ==
              WRING_ERR_INVALID,
          "memory at an odd place");
    CHECK(wring_allreduce(group, data, data + 1, elems, WRING_F32, WRING_SUM, NULL, NULL) ==
              WRING_ERR_INVALID,
          "memory that overlaps");
}

static void again(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *group = wring_session_world(session);
    uint32_t ranks = *(const uint32_t *)arg;

    for (uint32_t turn = 0; turn < TURNS; turn++) {
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            for (uint64_t elems = 1; elems < SMALL; elems++)
                call(group, &kinds[k], elems, rank, ranks, turn);
            call(group, &kinds[k], 3000, rank, ranks, turn);
            call(group, &kinds[k], ELEMS_MAX, rank, ranks, turn);
        }
        refused(group, 2);
    }
}

static void swallow(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void calls_end_as_the_first_did(void)
{
    static const char *const settings[][2] = {{"WRING_PROVIDER=tcp", NULL},
                                              {"WRING_PROVIDER=shm", NULL}};
    for (size_t i = 0; i < 2; i++)
        for (uint32_t ranks = 1; ranks <= 3; ranks++) {
            struct wring_test_job job = {.ranks = ranks,
                                         .settings = settings[i],
                                         .run = again,
                                         .arg = &ranks,
                                         .log = swallow};
            wring_test_run_ranks(&job);
        }
}

static const struct wring_test_case cases[] = {
    {"calls_end_as_the_first_did", calls_end_as_the_first_did},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
