/* SPDX-License-Identifier: Apache-2.0 */
/** Recorded gradients as files: what is written comes back, what is wrong is said in one line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/tool/gradients.h"
#include "tests/lib/test.h"
#include "tests/planner/json_cases.h"

#define STEPS 3
#define PER_STEP 4
#define RANKS 2

/** Small enough that every byte of its file can be named; of one rank, with values for RANKS. */
struct made {
    char a[8], b[8], source[16];
    struct wring_gradients_tensor tensors[2];
    uint64_t steps[STEPS];
    float values[RANKS * STEPS * PER_STEP];
    struct wring_gradients gradients;
};

static void make(struct made *made)
{
    *made = (struct made){
        .a = "a",
        .b = "bias",
        .source = "by hand",
        .steps = {4, 5, 9},
        .gradients = {.n_tensors = 2, .n_steps = STEPS, .n_ranks = 1, .per_step = PER_STEP}};
    made->tensors[0] = (struct wring_gradients_tensor){made->a, 1, 1, 0};
    made->tensors[1] = (struct wring_gradients_tensor){made->b, UINT64_C(1) << 40, 3, 1};
    for (int i = 0; i < RANKS * STEPS * PER_STEP; i++)
        made->values[i] = 0.5f * (float)i - 2;
    made->gradients.source = made->source;
    made->gradients.tensors = made->tensors;
    made->gradients.steps = made->steps;
    made->gradients.values = made->values;
}

static enum wring_status save(const void *gradients, FILE *file)
{
    return wring_gradients_save(gradients, file);
}

static enum wring_status load(const char *path, const struct wring_log *log)
{
    struct wring_gradients *gradients = NULL;
    enum wring_status status = wring_gradients_load(path, log, &gradients);

    CHECK((status == WRING_OK) == (gradients != NULL), "status %d, and gradients or none", status);
    wring_gradients_destroy(gradients);
    return status;
}

static void comes_back(void)
{
    struct wring_log loud = {.level = WRING_LOG_ERROR};
    struct wring_gradients *got = NULL;
    struct made made;
    char path[64];
    size_t bytes;

    make(&made);
    char *text = json_text_save(&made.gradients, save, &bytes);
    int fd = json_text_open(text, bytes, path);
    REQUIRE(wring_gradients_load(path, &loud, &got) == WRING_OK, "what was saved is refused");
    CHECK(strcmp(got->source, "by hand") == 0 && got->n_tensors == 2 && got->n_steps == STEPS &&
              got->n_ranks == 1,
          "head");
    CHECK(memcmp(got->steps, made.steps, sizeof(made.steps)) == 0, "steps");
    CHECK(strcmp(got->tensors[1].name, "bias") == 0 && got->tensors[1].elems == UINT64_C(1) << 40 &&
              got->tensors[1].n == 3 && got->tensors[1].begin == 1,
          "tensors[1]");
    CHECK(*wring_gradients_at(got, 0, 2, 0) == made.values[8] &&
              memcmp(wring_gradients_at(got, 0, 1, 1), made.values + 5, 3 * sizeof(float)) == 0,
          "values");
    wring_gradients_destroy(got);
    wring_gradients_destroy(NULL);
    close(fd);
    free(text);
}

/** Of several ranks: a file of version 2, with a hash of its own. */
static void several_ranks(void)
{
    struct wring_log loud = {.level = WRING_LOG_ERROR};
    struct made made;
    uint64_t hash[RANKS];

    make(&made);
    for (uint32_t ranks = 1; ranks <= RANKS; ranks++) {
        struct wring_gradients *got = NULL;
        char path[64];
        size_t bytes;
        made.gradients.n_ranks = ranks;
        char *text = json_text_save(&made.gradients, save, &bytes);
        int fd = json_text_open(text, bytes, path);
        REQUIRE(wring_gradients_load(path, &loud, &got) == WRING_OK, "%u ranks are refused", ranks);
        CHECK(got->n_ranks == ranks && (uint8_t)text[16] == ranks, "%u ranks, version %d",
              got->n_ranks, text[16]);
        CHECK(memcmp(got->values, made.values, ranks * STEPS * PER_STEP * sizeof(float)) == 0 &&
                  *wring_gradients_at(got, ranks - 1, 2, 0) ==
                      made.values[(ranks - 1) * STEPS * PER_STEP + 8],
              "values of %u ranks", ranks);
        hash[ranks - 1] = got->hash;
        wring_gradients_destroy(got);
        close(fd);
        free(text);
    }
    CHECK(hash[0] != hash[1], "more ranks, the same hash");
}

/** Hashes tell files apart, whatever they say of where they come from. */
static void hashes(void)
{
    struct wring_log loud = {.level = WRING_LOG_ERROR};
    uint64_t hash[3];

    for (int i = 0; i < 3; i++) {
        struct wring_gradients *got = NULL;
        struct made made;
        char path[64];
        size_t bytes;
        make(&made);
        made.values[11] += i == 1;
        made.source[0] = i == 2 ? 'B' : 'b';
        char *text = json_text_save(&made.gradients, save, &bytes);
        int fd = json_text_open(text, bytes, path);
        REQUIRE(wring_gradients_load(path, &loud, &got) == WRING_OK, "refused");
        hash[i] = got->hash;
        wring_gradients_destroy(got);
        close(fd);
        free(text);
    }
    CHECK(hash[0] != hash[1], "other values, the same hash");
    CHECK(hash[0] == hash[2], "another source, another hash");
}

/** Where in the file of make() a field lies. */
enum {
    AT_VERSION = 16,
    AT_TENSORS = 20,
    AT_STEPS = 24,
    AT_SOURCE = 28,
    AT_RANKS = AT_SOURCE, /* in version 2, where all else comes after it */
    AT_NUMBERS = AT_SOURCE + 4 + 7,
    AT_A = AT_NUMBERS + 8 * STEPS,
    AT_A_ELEMENTS = AT_A + 5,
    AT_A_KEPT = AT_A_ELEMENTS + 8,
    AT_BIAS = AT_A_KEPT + 4,
    AT_VALUES = AT_BIAS + 4 + 4 + 8 + 4,
    AT_END = AT_VALUES + 4 * STEPS * PER_STEP,
};

struct bad {
    size_t at, bytes; /* so many bytes there are those of `value` */
    uint64_t value;
    enum wring_status status;
    const char *line;
};

static const struct bad bad[] = {
    {0, 1, 'W', WRING_ERR_INVALID, "is no wring-gradients file"},
    {AT_VERSION, 4, 3, WRING_ERR_VERSION, "version: needs 1 or 2, is 3"},
    {AT_TENSORS, 4, 0, WRING_ERR_INVALID, "tensors: needs a whole number from 1 to 65536, is 0"},
    {AT_TENSORS, 4, UINT32_MAX, WRING_ERR_INVALID,
     "tensors: needs a whole number from 1 to 65536, is 4294967295"},
    {AT_TENSORS, 4, 3, WRING_ERR_INVALID, "tensors[2].name: the file ends too early"},
    {AT_STEPS, 4, 0, WRING_ERR_INVALID, "steps: needs a whole number from 1 to 4096, is 0"},
    {AT_STEPS, 4, 4096, WRING_ERR_INVALID, "steps[4]: step "},
    {AT_SOURCE, 4, UINT32_MAX, WRING_ERR_INVALID, "source: the file ends too early"},
    {AT_SOURCE + 4, 1, 0xFF, WRING_ERR_INVALID, "source: needs UTF-8 without NUL"},
    {AT_NUMBERS + 8, 8, 4, WRING_ERR_INVALID, "steps[1]: step 4 does not come after step 4"},
    {AT_A + 4, 1, 0, WRING_ERR_INVALID, "tensors[0].name: needs UTF-8 without NUL"},
    {AT_A_ELEMENTS, 8, 0, WRING_ERR_INVALID,
     "tensors[0].elements: needs a whole number from 1 to 1099511627776, is 0"},
    {AT_A_ELEMENTS, 8, UINT64_C(1) << 63, WRING_ERR_INVALID,
     "tensors[0].elements: needs a whole number from 1 to 1099511627776, is 9223372036854775808"},
    {AT_A_KEPT, 4, 0, WRING_ERR_INVALID, "tensors[0].kept: needs a whole number from 1 to 1, is 0"},
    {AT_A_KEPT, 4, 2, WRING_ERR_INVALID, "tensors[0].kept: needs a whole number from 1 to 1, is 2"},
    {AT_BIAS + 16, 4, 1u << 26, WRING_ERR_INVALID,
     "tensors[1].kept: makes it more than the 67108864 values that a file may have"},
    {AT_BIAS + 16, 4, 4, WRING_ERR_INVALID, "values: need 60 bytes, have 48"},
    {AT_VALUES + 20, 4, 0x7FC00000, WRING_ERR_INVALID,
     "values[5]: needs a finite number, in step 5"},
    {AT_VALUES, 4, 0xFF800000, WRING_ERR_INVALID, "values[0]: needs a finite number, in step 4"},
};

static void check_line(const char *text, size_t bytes, enum wring_status status, const char *want)
{
    char line[512];
    unsigned n;

    enum wring_status got = json_text_load(text, bytes, load, line, sizeof(line), &n);
    CHECK(got == status, "%s: status %d, not %d", want, got, status);
    CHECK(n == 1 && strncmp(line, want, strlen(want)) == 0, "%u lines, \"%s\", not \"%s\"", n, line,
          want);
}

static void refusals(void)
{
    struct made made;
    size_t bytes;

    make(&made);
    char *good = json_text_save(&made.gradients, save, &bytes);
    REQUIRE(bytes == AT_END, "%zu bytes, not %d", bytes, AT_END);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char *text = malloc(bytes);
        REQUIRE(text != NULL, "out of memory");
        memcpy(text, good, bytes);
        memcpy(text + bad[i].at, &bad[i].value, bad[i].bytes);
        check_line(text, bytes, bad[i].status, bad[i].line);
        free(text);
    }
    for (size_t cut = 16; cut < bytes; cut++) { /* wherever it ends, it is refused */
        char line[512];
        unsigned n;
        CHECK(json_text_load(good, cut, load, line, sizeof(line), &n) == WRING_ERR_INVALID &&
                  n == 1,
              "%zu of %zu bytes: %u lines, %s", cut, bytes, n, line);
    }
    snprintf(made.b, sizeof(made.b), "a");
    free(good);
    good = json_text_save(&made.gradients, save, &bytes);
    check_line(good, bytes, WRING_ERR_INVALID,
               "tensors[0] and tensors[1] have the same name, \"a\"");
    free(good);
}

/** One rank is a file of version 1, and of too many ranks there is none. */
static void refused_ranks(void)
{
    static const uint32_t ranks[] = {0, 1, WRING_GRADIENTS_RANKS_MAX + 1};
    struct made made;
    size_t bytes;

    make(&made);
    made.gradients.n_ranks = RANKS;
    char *text = json_text_save(&made.gradients, save, &bytes);
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        char want[96];
        memcpy(text + AT_RANKS, &ranks[i], sizeof(ranks[i]));
        snprintf(want, sizeof(want), "ranks: needs a whole number from 2 to 1024, is %u", ranks[i]);
        check_line(text, bytes, WRING_ERR_INVALID, want);
    }
    free(text);
}

static void no_file(void)
{
    struct json_log log;
    struct wring_gradients *none = NULL;

    json_log_init(&log);
    CHECK(wring_gradients_load("/nonexistent/g", &log.log, &none) == WRING_ERR_SYSTEM &&
              none == NULL && log.n == 1 && strstr(log.line, "/nonexistent/g: cannot be read") != 0,
          "%u lines: %s", log.n, log.line);
}

/** Of a large tensor both ends are there, and neighbours stay neighbours. */
static void samples(void)
{
    static const uint64_t sizes[] = {1, 4097, 65536, 65537, 100000, 1000003};
    float *gradient = malloc(1000003 * sizeof(*gradient)), *kept = malloc(65536 * sizeof(*kept));

    REQUIRE(gradient != NULL && kept != NULL, "out of memory");
    for (int i = 0; i < 1000003; i++)
        gradient[i] = (float)i;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint32_t n = wring_gradients_sampled(sizes[s]);
        CHECK(n == (sizes[s] < 65536 ? sizes[s] : 65536), "%u of %llu", n,
              (unsigned long long)sizes[s]);
        wring_gradients_sample(gradient, sizes[s], kept);
        CHECK(kept[0] == 0 && kept[n - 1] == (float)(sizes[s] - 1), "ends of %llu: %g, %g",
              (unsigned long long)sizes[s], (double)kept[0], (double)kept[n - 1]);
        for (uint32_t i = 1; i < n; i++)
            if (i % 4096 != 0)
                CHECK(kept[i] == kept[i - 1] + 1, "%g after %g", (double)kept[i],
                      (double)kept[i - 1]);
    }
    free(gradient);
    free(kept);
}

static const struct wring_test_case cases[] = {
    {"comes back", comes_back},
    {"several ranks", several_ranks},
    {"hashes", hashes},
    {"refusals", refusals},
    {"refused ranks", refused_ranks},
    {"no file", no_file},
    {"samples", samples},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
