/* SPDX-License-Identifier: Apache-2.0 */
/* Codecs of calls in a drop-in: which rule or setting decides, and what is said of those that
 * cannot be used or never count. */
#include "runtime/call_codecs.h"

#include <string.h>

#include "tests/lib/test.h"

enum operation {
    ALLREDUCE,
    REDUCE,
    SCATTER,
};

static const struct wring_call_codecs_dropin dropin = {
    "libsome.so",
    "WRING_MPI_CODEC",
    "WRING_MPI_CODEC_MIN",
    {{"allreduce", true}, {"reduce", true}, {"reduce_scatter", false}},
};

static char said[8][1024];
static unsigned n_said;

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)module;
    if (n_said < 8)
        snprintf(said[n_said++], sizeof(said[0]), "%c %s", level == WRING_LOG_ERROR ? 'E' : 'W',
                 text);
}

static const struct wring_log kept = {keep_line, NULL, WRING_LOG_WARN};

/** @param own  a codec, and behind a slash its least bytes */
static enum wring_status read_both(const char *rules, const char *own,
                                   struct wring_call_codecs *codecs)
{
    static struct wring_config config;
    char spec[128];
    unsigned long least = 262144;
    const char *slash = strchr(own, '/');

    n_said = 0;
    snprintf(spec, sizeof(spec), "%.*s", slash != NULL ? (int)(slash - own) : 127, own);
    CHECK(wring_config_defaults(&config, &kept) == WRING_OK, "defaults");
    CHECK(wring_config_set(&config, &kept, "WRING_CODEC_RULES", rules) == WRING_OK, "%s", rules);
    if (slash != NULL) {
        CHECK(wring_config_set(&config, &kept, "WRING_MPI_CODEC_MIN", slash + 1) == WRING_OK, "%s",
              slash);
        least = (unsigned long)config.mpi_codec_min;
    }
    enum wring_status status = wring_call_codecs_read(codecs, &dropin, &config, spec, least, &kept);
    if (status == WRING_OK)
        status = wring_call_codecs_check(codecs, &dropin, "best", &kept);
    if (status == WRING_OK)
        wring_call_codecs_warn(codecs, &dropin, rules, &kept);
    return status;
}

static void check_found(const struct wring_call_codecs *codecs, enum operation operation,
                        uint64_t elems, const char *want)
{
    const char *spec = wring_call_codecs_find(codecs, operation, WRING_F32, WRING_SUM, elems);
    CHECK(strcmp(spec != NULL ? spec : "exact", want) == 0,
          "operation %d, %llu elements: %s, not %s", operation, (unsigned long long)elems,
          spec != NULL ? spec : "exact", want);
}

static void the_first_rule_decides(void)
{
    struct wring_call_codecs codecs;

    REQUIRE(read_both(" *scatter = int8 ;reduce=none;allreduce=onebit:block=1024;*=bf16", "",
                      &codecs) == WRING_OK,
            "%s", said[0]);
    check_found(&codecs, ALLREDUCE, 16384, "onebit"); /* as all ranks write it */
    check_found(&codecs, ALLREDUCE, 16383, "exact");
    check_found(&codecs, REDUCE, 1 << 20, "exact");
    check_found(&codecs, SCATTER, 1 << 20, "int8");
    CHECK(n_said == 1 && strstr(said[0], "*=bf16: never counts") != NULL, "%u lines: %s", n_said,
          said[0]);
}

static void sizes_are_of_rules(void)
{
    struct wring_call_codecs codecs;

    REQUIRE(read_both("all*=bf16; min=10; max=100", "int8/1k", &codecs) == WRING_OK, "%s", said[0]);
    check_found(&codecs, ALLREDUCE, 9, "exact");
    check_found(&codecs, ALLREDUCE, 10, "bf16");
    check_found(&codecs, ALLREDUCE, 100, "bf16");
    check_found(&codecs, ALLREDUCE, 101, "exact");
    check_found(&codecs, SCATTER, 255, "exact");
    check_found(&codecs, SCATTER, 256, "int8");
    check_found(&codecs, SCATTER, 1 << 30, "int8");
    CHECK(n_said == 0, "%s", said[0]);
}

static void others_are_exact(void)
{
    struct wring_call_codecs codecs;

    REQUIRE(read_both("*=bf16; min=1", "", &codecs) == WRING_OK, "%s", said[0]);
    for (int dtype = WRING_F32; dtype <= WRING_BYTE; dtype++)
        for (int op = WRING_SUM; op <= WRING_PREMUL_SUM; op++) {
            bool takes = (dtype == WRING_F32 || dtype == WRING_F16 || dtype == WRING_BF16) &&
                         (op == WRING_SUM || op == WRING_AVG || op == WRING_PREMUL_SUM);
            const char *spec = wring_call_codecs_find(&codecs, ALLREDUCE, (enum wring_dtype)dtype,
                                                      (enum wring_op)op, 100);
            CHECK((spec != NULL) == takes, "%s of %s: %s", wring_op_name((enum wring_op)op),
                  wring_dtype_name((enum wring_dtype)dtype), spec != NULL ? spec : "exact");
        }
    REQUIRE(read_both("", "", &codecs) == WRING_OK, "%s", said[0]);
    check_found(&codecs, ALLREDUCE, 1 << 20, "exact");
    REQUIRE(read_both("", "none", &codecs) == WRING_OK, "%s", said[0]);
    check_found(&codecs, ALLREDUCE, 1 << 20, "exact");
    CHECK(n_said == 0, "%s", said[0]);
}

static void the_rest_is_refused(void)
{
    static const struct {
        const char *rules, *own;
        enum wring_status status;
        const char *cause, *remedy;
    } cases[] = {
        {"bf16", "", WRING_ERR_INVALID, "WRING_CODEC_RULES=bf16", "PATTERN=CODEC"},
        {"*=typo", "", WRING_ERR_INVALID, "WRING_CODEC_RULES=*=typo", "'typo'"},
        {"*=bf16; max=3", "", WRING_ERR_INVALID, "no size is from min=16384", "unless rules say"},
        {"*=bf16; min=5; min=6", "", WRING_ERR_INVALID, "WRING_CODEC_RULES=*=bf16", "given twice"},
        {"re[du=bf16", "", WRING_ERR_INVALID, "'re[du': the bracket at byte 3", "write [[]"},
        {"*=bf16", "int8", WRING_ERR_INVALID, "WRING_MPI_CODEC=int8 counts for no call",
         "leave one of the two out"},
        {"*=bf16", "none", WRING_ERR_INVALID, "WRING_MPI_CODEC=none counts for no call",
         "(allreduce, reduce, reduce_scatter)"},
        {"reduce=bf16", "/4k", WRING_ERR_INVALID, "WRING_MPI_CODEC_MIN is the size",
         "min=ELEMENTS instead"},
        {"", "onebit+ef", WRING_ERR_UNSUPPORTED, "WRING_MPI_CODEC=onebit+ef", "leave +ef out"},
        {"", "powersgd", WRING_ERR_UNSUPPORTED, "it keeps state", "name another codec"},
        {"reduce=int8+ef", "", WRING_ERR_UNSUPPORTED, "reduce of libsome.so cannot take int8+ef",
         "put reduce=CODEC before"},
        {"*=dgc", "", WRING_ERR_UNSUPPORTED, "allreduce of libsome.so cannot take dgc", "+ef"},
        {"r*=bf16>int8", "", WRING_ERR_UNSUPPORTED, "reduce_scatter of libsome.so", "a way back"},
        {"r*=signsgd", "", WRING_ERR_UNSUPPORTED, "reduce_scatter of libsome.so", "a way back"},
        {"r*=thc", "", WRING_ERR_UNSUPPORTED, "reduce_scatter of libsome.so", "rounds"},
    };
    struct wring_call_codecs codecs;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum wring_status status = read_both(cases[i].rules, cases[i].own, &codecs);
        CHECK(status == cases[i].status, "%s and %s: %s", cases[i].rules, cases[i].own,
              wring_status_text(status));
        CHECK(n_said == 1 && said[0][0] == 'E' && strstr(said[0], cases[i].cause) != NULL &&
                  strstr(said[0], cases[i].remedy) != NULL,
              "%s and %s: %u lines: %s", cases[i].rules, cases[i].own, n_said, said[0]);
    }
    /* a rule before it keeps that codec from calls, as a job of buckets and calls needs it */
    CHECK(read_both("*reduce*=none; *=int8+ef", "", &codecs) == WRING_OK, "%s", said[0]);
    CHECK(read_both("*scatter=none; *=thc", "", &codecs) == WRING_OK, "%s", said[0]);
}

/** The codec of all operations that no rule names is for those that can take it. */
static void the_rest_goes_without_the_own_codec(void)
{
    static const char *const own[] = {"thc", "signsgd", "bf16>int8"};
    struct wring_call_codecs codecs;

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        REQUIRE(read_both("", own[i], &codecs) == WRING_OK, "%s", said[0]);
        check_found(&codecs, ALLREDUCE, 1 << 20, own[i]);
        check_found(&codecs, REDUCE, 1 << 20, own[i]);
        check_found(&codecs, SCATTER, 1 << 20, "exact");
        CHECK(n_said == 1 && strstr(said[0], "W WRING_MPI_CODEC leaves reduce_scatter of "
                                             "libsome.so exact: it has ") == said[0],
              "%u lines: %s", n_said, said[0]);
    }
    REQUIRE(read_both("*scatter=int8", "thc", &codecs) == WRING_OK, "%s", said[0]);
    check_found(&codecs, SCATTER, 1 << 20, "int8");
    CHECK(n_said == 0, "%s", said[0]);
}

/** Each cause has a line, with the rules that it is true of. */
static void rules_that_never_count_are_told(void)
{
    struct wring_call_codecs codecs;

    REQUIRE(read_both("all*=bf16; *embed*=int8; 1d=fp16; min=5; allreduce=int8; reduce?=bf16", "",
                      &codecs) == WRING_OK,
            "%s", said[0]);
    static const char *const lines[] = {
        "W WRING_CODEC_RULES: *embed*=int8; reduce?=bf16: never counts in libsome.so: its sums",
        "W WRING_CODEC_RULES: allreduce=int8: never counts in libsome.so: rules before it",
        "W WRING_CODEC_RULES: 1d=fp16: never counts in libsome.so: its calls have no shape",
    };
    CHECK(n_said == 3, "%u lines", n_said);
    CHECK(strstr(said[0], " are called allreduce, reduce, reduce_scatter") != NULL, "%s", said[0]);
    for (unsigned i = 0; i < 3; i++)
        CHECK(strncmp(said[i], lines[i], strlen(lines[i])) == 0, "%s", said[i]);
    REQUIRE(read_both("x=bf16; min=5; max=7", "bf16", &codecs) == WRING_OK, "%s", said[0]);
    CHECK(n_said == 2 && strstr(said[1], " min=5; max=7: never counts") != NULL, "%u lines: %s",
          n_said, said[1]);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"the_first_rule_decides", the_first_rule_decides},
        {"sizes_are_of_rules", sizes_are_of_rules},
        {"others_are_exact", others_are_exact},
        {"the_rest_is_refused", the_rest_is_refused},
        {"the_rest_goes_without_the_own_codec", the_rest_goes_without_the_own_codec},
        {"rules_that_never_count_are_told", rules_that_never_count_are_told},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
