/* SPDX-License-Identifier: Apache-2.0 */
/** Traces as files: what is written comes back, and what is wrong is said in one line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/core/files/tensor_trace.h"
#include "tests/lib/test.h"
#include "tests/planner/json_cases.h"

static const char good[] =
    "{\"format\": \"wring-trace\", \"version\": 1, \"model\": \"Two\", \"dtype\": \"float32\",\n"
    " \"forward_us\": 12.5, \"optimizer_us\": 2.25, \"source\": \"nowhere\", \"unknown\": "
    "{\"tensors\": [1, 2]},\n"
    " \"tensors\": [\n"
    "  {\"name\": \"b\", \"elements\": 1000, \"ready_us\": 0},\n"
    "  {\"name\": \"a\", \"elements\": 7, \"ready_us\": 0.1, \"shape\": [7]},\n"
    "  {\"name\": \"c\", \"elements\": 3000000000, \"ready_us\": 99.5}\n"
    " ]}\n";

static enum wring_status load(const char *path, const struct wring_log *log)
{
    struct wring_tensor_trace *trace = NULL;
    enum wring_status status = wring_tensor_trace_load(path, log, &trace);

    CHECK((status == WRING_OK) == (trace != NULL), "status %d, and a trace or none", status);
    wring_tensor_trace_destroy(trace);
    return status;
}

static struct wring_tensor_trace *load_text(const char *text, size_t bytes)
{
    struct wring_tensor_trace *trace = NULL;
    struct wring_log log = {.level = WRING_LOG_ERROR};
    char path[64];
    int fd = json_text_open(text, bytes, path);

    CHECK(wring_tensor_trace_load(path, &log, &trace) == WRING_OK, "%s", text);
    close(fd);
    return trace;
}

static void fields(void)
{
    struct wring_tensor_trace *trace = load_text(good, strlen(good));

    REQUIRE(trace != NULL, "the good trace is refused");
    CHECK(strcmp(trace->model, "Two") == 0 && strcmp(trace->source, "nowhere") == 0, "%s, %s",
          trace->model, trace->source);
    CHECK(trace->dtype == WRING_F32 && trace->forward_us == 12.5 && trace->n == 3, "head");
    CHECK(strcmp(trace->tensors[1].name, "a") == 0 && trace->tensors[1].elems == 7 &&
              trace->tensors[1].ready_us == 0.1,
          "tensors[1]");
    CHECK(trace->tensors[2].elems == 3000000000, "more than 32 bits are lost");
    CHECK(trace->optimizer_us == 2.25 && wring_tensor_trace_alone_us(trace) == 101.75, "%g",
          trace->optimizer_us);
    wring_tensor_trace_destroy(trace);
    wring_tensor_trace_destroy(NULL);
}

static enum wring_status save(const void *trace, FILE *file)
{
    return wring_tensor_trace_save(trace, file);
}

/** Save and load again. */
static struct wring_tensor_trace *again(const struct wring_tensor_trace *trace)
{
    size_t bytes = 0;
    char *text = json_text_save(trace, save, &bytes);
    struct wring_tensor_trace *result = load_text(text, bytes);

    free(text);
    return result;
}

static void round_trip(void)
{
    struct wring_tensor_trace *trace = load_text(good, strlen(good));
    uint32_t random = 5;

    REQUIRE(trace != NULL, "the good trace is refused");
    for (int turn = 0; turn < 200; turn++) {
        double us = 0;
        for (uint32_t i = 0; i < trace->n; i++) /* doubles with all their digits */
            trace->tensors[i].ready_us = us +=
                ldexp((double)wring_test_random(&random), (int)(random % 40) - 30) / 3;
        trace->forward_us = turn % 2 == 0 ? us / 7 : (double)NAN;
        trace->optimizer_us = turn % 3 == 0 ? us / 9 : 0;
        REQUIRE(wring_tensor_trace_rehash(trace) == WRING_OK, "no hash");
        struct wring_tensor_trace *copy = again(trace);
        REQUIRE(copy != NULL, "what was saved is refused");
        CHECK(copy->hash == trace->hash, "another hash in turn %d", turn);
        CHECK(memcmp(&copy->forward_us, &trace->forward_us, sizeof(double)) == 0 ||
                  (isnan(copy->forward_us) && isnan(trace->forward_us)),
              "%.17g became %.17g", trace->forward_us, copy->forward_us);
        CHECK(copy->optimizer_us == trace->optimizer_us, "%.17g became %.17g", trace->optimizer_us,
              copy->optimizer_us);
        wring_tensor_trace_destroy(copy);
    }
    wring_tensor_trace_destroy(trace);
}

/** Equal traces have equal hashes, and what a plan depends on changes them. */
static void hashes(void)
{
    static const struct {
        const char *find, *replace;
        bool same;
    } changes[] = {
        {"nowhere", "elsewhere", true}, {"\"Two\"", "\"2\"", true},
        {"12.5", "13", true},           {"\"ready_us\": 0}", "\"ready_us\": -0.0}", true},
        {"1000", "1e3", true},          {"1000", "1001", false},
        {"\"a\"", "\"d\"", false},      {"0.1", "0.2", false},
        {"2.25", "225e-2", true},       {"2.25", "0", false},
        {"float32", "float16", false},  {"[7]", "[7], \"dtype\": \"float16\"", false},
    };
    struct wring_tensor_trace *trace = load_text(good, strlen(good));

    REQUIRE(trace != NULL, "the good trace is refused");
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        char text[sizeof(good) + 32];
        const char *at = strstr(good, changes[i].find);
        snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, changes[i].replace,
                 at + strlen(changes[i].find));
        struct wring_tensor_trace *changed = load_text(text, strlen(text));
        REQUIRE(changed != NULL, "%s is refused", text);
        CHECK((changed->hash == trace->hash) == changes[i].same, "%s for %s", changes[i].replace,
              changes[i].find);
        wring_tensor_trace_destroy(changed);
    }
    wring_tensor_trace_destroy(trace);
}

/** Types of all tensors, and of some. */
static void types(void)
{
    struct wring_tensor_trace *trace = load_text(good, strlen(good));
    static const uint32_t given[][3] = {{WRING_BF16, WRING_BF16, WRING_BF16},
                                        {WRING_F16, WRING_BF16, WRING_F16},
                                        {WRING_F32, WRING_F16, WRING_F32},
                                        {WRING_F32, WRING_F32, WRING_F32}};
    static const uint64_t bytes[] = {6000002014, 6000002014, 12000004014, 12000004028};

    REQUIRE(trace != NULL, "the good trace is refused");
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        for (uint32_t t = 0; t < trace->n; t++)
            trace->tensors[t].dtype = given[i][t];
        wring_tensor_trace_gather_dtype(trace);
        REQUIRE(wring_tensor_trace_rehash(trace) == WRING_OK, "no hash");
        struct wring_tensor_trace *copy = again(trace);
        REQUIRE(copy != NULL, "what was saved is refused");
        CHECK(copy->hash == trace->hash && copy->dtype == trace->dtype, "%zu is another", i);
        CHECK((trace->dtype == WRING_BF16) == (i == 0), "%zu: the type of all is %u", i,
              trace->dtype);
        for (uint32_t t = 0; t < trace->n; t++)
            CHECK(wring_tensor_trace_dtype(copy, t) == given[i][t], "%zu, tensor %u", i, t);
        CHECK(wring_tensor_trace_bytes(copy) == bytes[i], "%zu: %llu bytes", i,
              (unsigned long long)wring_tensor_trace_bytes(copy));
        wring_tensor_trace_destroy(copy);
    }
    wring_tensor_trace_destroy(trace);
}

static void smaller(void)
{
    struct wring_tensor_trace *trace = load_text(good, strlen(good));

    REQUIRE(trace != NULL, "the good trace is refused");
    trace->optimizer_us = 10;
    CHECK(wring_tensor_trace_scale(trace, 0.5) == WRING_OK, "no hash");
    CHECK(trace->tensors[0].elems == 500 && trace->tensors[1].elems == 3, "sizes");
    CHECK(trace->forward_us == 6.25 && trace->optimizer_us == 5, "times");
    CHECK(wring_tensor_trace_alone_us(trace) == 5 + 49.75, "%g",
          wring_tensor_trace_alone_us(trace));
    wring_tensor_trace_destroy(trace);
}

#define I WRING_ERR_INVALID

static void bad_numbers(void)
{
    static const struct json_case cases[] = {
        {"1000", "0", I, "tensors[0].elements: needs a whole number from 1 to 1099511627776, is 0"},
        {"1000", "-5", I,
         "tensors[0].elements: needs a whole number from 1 to 1099511627776, is -5"},
        {"1000", "9223372036854775808", I,
         "tensors[0].elements: needs a whole number from 1 to 1099511627776, is "
         "9.22337203685478e+18"},
        {"1000", "18446744073709551617", I,
         "tensors[0].elements: needs a whole number from 1 to 1099511627776, is "
         "1.84467440737096e+19"},
        {"1000", "1.5", I,
         "tensors[0].elements: needs a whole number from 1 to 1099511627776, is 1.5"},
        {"1000", "\"1000\"", I,
         "tensors[0].elements: needs a whole number from 1 to 1099511627776, is \"1000\""},
        {"1000", "null", I,
         "tensors[0].elements: needs a whole number from 1 to 1099511627776, is null"},
        {"1000", "NaN", I, "tensors[0].elements: line 4: invalid token near 'NaN'"},
        {"1000", "-Infinity", I, "tensors[0].elements: line 4: invalid token near '-'"},
        {"1000", "1e999", I, "tensors[0].elements: line 4: real number overflow near '1e999'"},
        {"1000", "0x10", I, "tensors[0].elements: line 4: '}' expected near 'x'"},
        {"0.1", "NaN", I, "tensors[1].ready_us: line 5: invalid token near 'NaN'"},
        {"0.1", "-1e-9", I,
         "tensors[1].ready_us: needs a number from 0 to 1000000000000, is -1e-09"},
        {"0.1", "1e13", I,
         "tensors[1].ready_us: needs a number from 0 to 1000000000000, is 10000000000000"},
        {"0.1", "[0]", I, "tensors[1].ready_us: needs a number from 0 to 1000000000000, is a list"},
        {"12.5", "true", I, "forward_us: needs a number from 0 to 1000000000000, is true"},
        {"12.5", "-1", I, "forward_us: needs a number from 0 to 1000000000000, is -1"},
        {"12.5", "null", WRING_OK, ""},
        {"\"optimizer_us\": 2.25,", "", WRING_OK, ""},
        {"2.25", "null", WRING_OK, ""},
        {"2.25", "-0.5", I, "optimizer_us: needs a number from 0 to 1000000000000, is -0.5"},
        {"\"forward_us\": 12.5,", "", WRING_OK, ""},
        {"1000", "1099511627776", I,
         "tensors[1].elements: makes it 1099511627783 with the tensors before it; all together may "
         "have 1099511627776"},
        {"99.5", "0.05", I,
         "tensors[2].ready_us: 0.05 is before the 0.1 of tensors[1]; list tensors in the order in "
         "which they become ready"},
        {0},
    };
    json_cases_check(good, cases, load);
}

static void bad_fields(void)
{
    static const struct json_case cases[] = {
        {"\"c\"", "\"b\"", I,
         "tensors[2].name: \"b\" is the name of tensors[0] already; names must differ"},
        {"\"name\": \"a\",", "", I, "tensors[1].name: needs a text of 1 to 512 bytes, is missing"},
        {"\"a\"", "\"\"", I, "tensors[1].name: needs a text of 1 to 512 bytes, is \"\""},
        {"\"a\"", "7", I, "tensors[1].name: needs a text of 1 to 512 bytes, is 7"},
        {"\"a\"", "\"a\\u0000\"", I,
         "tensors[1].name: line 5: \\u0000 is not allowed without JSON_ALLOW_NUL near "
         "'\"a\\u0000\"'"},
        {"\"a\"", "\"a\\nb\"", I,
         "tensors[1].name: needs a text of 1 to 512 bytes without control characters, is \"a?b\""},
        {"\"nowhere\"", "\"a\\u001b[2J\"", I,
         "source: needs a text of 0 to 4096 bytes without control characters, is \"a?[2J\""},
        {"\"nowhere\"", "\"a\\u009b2J\"", I,
         "source: needs a text of 0 to 4096 bytes without control characters, is \"a??"
         "2J\""},
        {"\"nowhere\"", "\"Mod\\u00e8le\\u00a0\"", WRING_OK, ""},
        {"\"a\"", "\"\xff\"", I, "tensors[1].name: line 5: unable to decode byte 0xff near '\"'"},
        {"\"name\": \"a\"", "\"name\": \"a\", \"name\": \"d\"", I,
         "tensors[1].name: line 5: duplicate object key near '\"name\"'"},
        {"{\"name\": \"a\", \"elements\": 7, \"ready_us\": 0.1, \"shape\": [7]}", "3", I,
         "tensors[1]: needs an object, is 3"},
        {"wring-trace", "wring-plan", I, "format: needs \"wring-trace\", is \"wring-plan\""},
        {"\"format\": \"wring-trace\",", "", I,
         "format: needs a text of 0 to 64 bytes, is missing"},
        {"\"version\": 1", "\"version\": 2", WRING_ERR_VERSION,
         "version: is 2; this wring reads version 1"},
        {"\"version\": 1", "\"version\": \"1\"", I,
         "version: needs a whole number from 1 to 4294967295, is \"1\""},
        {"float32", "float16", WRING_OK, ""},
        {"float32", "bfloat16", WRING_OK, ""},
        {"float32", "float64", I,
         "dtype: needs one of \"float32\", \"float16\", \"bfloat16\", is \"float64\""},
        {"\"float32\"", "2", I, "dtype: needs a text of 0 to 64 bytes, is 2"},
        {"\"dtype\": \"float32\",", "", I, "dtype: needs a text of 0 to 64 bytes, is missing"},
        {"\"shape\": [7]", "\"dtype\": \"bfloat16\"", WRING_OK, ""},
        {"\"shape\": [7]", "\"dtype\": \"float32\"", I,
         "tensors[1].dtype: needs one of \"float16\", \"bfloat16\", is \"float32\""},
        {"\"Two\"", "null", I, "model: needs a text of 1 to 512 bytes, is null"},
        {"\"nowhere\"", "[]", I, "source: needs a text of 0 to 4096 bytes, is a list"},
        {"\"source\": \"nowhere\",", "", WRING_OK, ""},
        {"\"tensors\": [\n", "\"tensors\": 1, \"others\": [", I, "tensors: needs a list, is 1"},
        {"\"tensors\": [\n", "\"tensors\": [], \"others\": [", I,
         "tensors: needs 1 to 65536 elements, has 0"},
        {"\"elements\": 7", NULL, I, "tensors[1]: line 5: string or '}' expected near end of file"},
        {"7, \"ready", NULL, I, "tensors[1].elements: line 5: unexpected token near end of file"},
        {" ]}\n", NULL, I, "tensors[2]: line 7: ']' expected near end of file"},
        {" ]}\n", "]} x", I, "line 7: end of file expected near 'x'"},
        {NULL, "", I, "line 1: '[' or '{' expected near end of file"},
        {NULL, "[1]", I, "needs a JSON object, is a list"},
        {NULL, "{}", I, "format: needs a text of 0 to 64 bytes, is missing"},
        {0},
    };
    json_cases_check(good, cases, load);
}

/** {"format": "wring-trace", …, "tensors": [n of them]} */
static char *many(size_t n, size_t *bytes)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, bytes);

    fprintf(file, "{\"format\": \"wring-trace\", \"version\": 1, \"model\": \"M\", "
                  "\"dtype\": \"float32\", \"tensors\": [");
    for (size_t i = 0; i < n; i++)
        fprintf(file, "%s{\"name\": \"t%zu\", \"elements\": 1, \"ready_us\": 0}", i > 0 ? "," : "",
                i);
    fprintf(file, "]}");
    fclose(file);
    return text;
}

static void limits(void)
{
    char line[1024];
    unsigned n;
    size_t bytes;
    char *text = many(65536, &bytes);

    CHECK(json_text_load(text, bytes, load, line, sizeof(line), &n) == WRING_OK, "%s", line);
    free(text);
    text = many(65537, &bytes);
    CHECK(json_text_load(text, bytes, load, line, sizeof(line), &n) == I &&
              strcmp(line, "tensors: needs 1 to 65536 elements, has 65537") == 0,
          "%s", line);
    free(text);
    bytes = 3000;
    text = malloc(bytes);
    memset(text, '[', bytes);
    CHECK(json_text_load(text, bytes, load, line, sizeof(line), &n) == I && n == 1,
          "a deep file: %s", line);
    CHECK(strstr(line, "maximum parsing depth reached") != NULL, "%s", line);
    free(text);
    bytes = (64u << 20) + 2;
    text = calloc(1, bytes);
    memset(text, ' ', bytes);
    CHECK(json_text_load(text, bytes, load, line, sizeof(line), &n) == I &&
              strcmp(line, "is longer than 64 MiB") == 0,
          "%s", line);
    free(text);
}

static void unreadable(void)
{
    struct json_log log;

    json_log_init(&log);
    CHECK(load("/nowhere/trace.json", &log.log) == WRING_ERR_SYSTEM, "%s", log.line);
    CHECK(strcmp(log.line, "/nowhere/trace.json: cannot be read: No such file or directory") == 0,
          "%s", log.line);
    CHECK(load("/", &log.log) == WRING_ERR_SYSTEM, "%s", log.line);
    CHECK(strcmp(log.line, "/: cannot be read: Is a directory") == 0, "%s", log.line);
    CHECK(log.n == 2, "%u lines", log.n);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"fields", fields},         {"round_trip", round_trip},
        {"hashes", hashes},         {"types", types},
        {"smaller", smaller},       {"bad_numbers", bad_numbers},
        {"bad_fields", bad_fields}, {"limits", limits},
        {"unreadable", unreadable}, {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
