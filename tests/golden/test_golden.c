/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Frozen codes: what the library writes, keeps and reads must be what an independent program once
 * wrote down. golden.py explains the lines of the files, which are the arguments.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/fpenv.h"
#include "compress/codec.h"
#include "compress/delta.h"
#include "compress/residual.h"
#include "compress/solo.h"
#include "tests/lib/test.h"
#include <wring/codec.h>
#include <wring/executor.h>

struct bytes {
    unsigned char *data; /* NULL: the line is not there */
    size_t n;
};

struct record {
    char spec[WRING_CODEC_SPEC_MAX];
    uint32_t phase;
    enum wring_dtype dtype;
    uint64_t elems, rows;
    uint32_t members;
    struct bytes input, residual, code, left, decoded, refused, base, sum;
};

#define MEMBERS_MAX 32

static const char *file_name;
static unsigned line_number, codes, refusals;

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static struct bytes hexadecimal(const char *text)
{
    size_t n = strlen(text) / 2;
    struct bytes bytes = {malloc(n + 1), n};

    CHECK(strlen(text) % 2 == 0, "%s:%u: half a byte", file_name, line_number);
    for (size_t i = 0; i < n; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        CHECK(high >= 0 && low >= 0, "%s:%u: not hexadecimal", file_name, line_number);
        bytes.data[i] = (unsigned char)(high * 16 + low);
    }
    return bytes;
}

static struct bytes repeated(uint64_t count, const char *pattern)
{
    struct bytes one = hexadecimal(pattern), all = {malloc(count * 4), count * 4};
    for (size_t i = 0; i < all.n; i++)
        all.data[i] = one.data[i % one.n];
    free(one.data);
    return all;
}

static struct bytes random_numbers(uint32_t seed, uint64_t count)
{
    struct bytes all = {malloc(count * 4), count * 4};
    for (uint64_t i = 0; i < count; i++) {
        float x = wring_test_random_float(&seed);
        memcpy(all.data + 4 * i, &x, 4);
    }
    return all;
}

static struct bytes elements(const char *text)
{
    unsigned long count;
    unsigned seed;
    int at = 0;
    if (sscanf(text, "random %u %lu", &seed, &count) == 2)
        return random_numbers(seed, count);
    if (sscanf(text, "repeat %lu %n", &count, &at) == 1 && at > 0)
        return repeated(count, text + at);
    return hexadecimal(text);
}

static void take_line(struct record *record, const char *key, const char *value)
{
    struct {
        const char *key;
        struct bytes *bytes;
    } fields[] = {{"residual", &record->residual}, {"code", &record->code},
                  {"left", &record->left},         {"decoded", &record->decoded},
                  {"refused", &record->refused},   {"input", &record->input},
                  {"base", &record->base},         {"sum", &record->sum}};

    if (strcmp(key, "spec") == 0)
        snprintf(record->spec, sizeof(record->spec), "%s", value);
    else if (strcmp(key, "phase") == 0)
        record->phase = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(key, "elems") == 0)
        record->elems = strtoull(value, NULL, 10);
    else if (strcmp(key, "members") == 0)
        record->members = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(key, "dtype") == 0)
        record->dtype = strcmp(value, "f16") == 0 ? WRING_F16 : WRING_BF16;
    else if (strcmp(key, "rows") == 0)
        record->rows = strtoull(value, NULL, 10);
    else if (strcmp(key, "input") == 0)
        record->input = elements(value);
    else
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
            if (strcmp(key, fields[i].key) == 0) {
                *fields[i].bytes = hexadecimal(value);
                return;
            }
}

static void *guarded_copy(struct bytes bytes)
{
    void *copy = wring_test_guarded(bytes.n);
    if (bytes.n > 0)
        memcpy(copy, bytes.data, bytes.n);
    return copy;
}

static bool equal(const void *got, size_t n, struct bytes want)
{
    return n == want.n && memcmp(got, want.data, n) == 0;
}

/** The record's residual, in the form that the codec keeps it in. @return NULL: there is none */
static float *residual_of(const struct record *record, const struct wring_codec *codec)
{
    uint64_t n = record->input.n / 4;

    if (record->residual.data == NULL)
        return NULL;
    size_t bytes = wring_residual_size(codec, n);
    float *residual = memset(wring_test_guarded(bytes), 0, bytes),
          *back = wring_test_guarded(n * 4);
    wring_residual_write(codec, residual, 0, n, guarded_copy(record->residual));
    wring_residual_read(codec, residual, 0, n, back);
    CHECK(equal(back, n * 4, record->residual), "%s:%u: %s: a residual that it cannot have",
          file_name, line_number, record->spec);
    return residual;
}

static bool is_left(const struct record *record, const struct wring_codec *codec,
                    const float *residual)
{
    uint64_t n = record->input.n / 4;
    float *left = wring_test_guarded(n * 4);

    wring_residual_read(codec, residual, 0, n, left);
    return equal(left, n * 4, record->left);
}

/** The codes are those of a first step, and of a group of one. */
static void check_encode(const struct record *record, const struct wring_codec *codec,
                         struct wring_solo *solo, struct wring_codec_context context)
{
    const char *tier = wring_codec_info(codec)->tier;
    uint64_t n = record->input.n / 4;
    const float *input = guarded_copy(record->input);
    float *residual = residual_of(record, codec);
    unsigned char *code = wring_test_guarded(wring_codec_bound(codec, n));

    wring_solo_rounds(solo, &context, input, residual);
    size_t bytes = wring_codec_encode(codec, &context, input, n, residual, code);
    CHECK(equal(code, bytes, record->code), "%s:%u: %s by %s: other bytes than once", file_name,
          line_number, record->spec, tier);
    CHECK(residual == NULL || is_left(record, codec, residual),
          "%s:%u: %s by %s: another residual than once", file_name, line_number, record->spec,
          tier);
    codes++;
}

static void check_decode(const struct record *record, const struct wring_codec *codec,
                         struct wring_codec_context context)
{
    uint64_t n = record->input.n / 4;
    const void *code = guarded_copy(record->code);
    float *out = wring_test_guarded(n * 4);

    enum wring_status status =
        wring_codec_decode(codec, &context, code, record->code.n, out, n, false);
    CHECK(status == WRING_OK, "%s:%u: %s: old bytes are refused", file_name, line_number,
          record->spec);
    CHECK(record->decoded.data == NULL || equal(out, n * 4, record->decoded),
          "%s:%u: %s by %s: decodes to something else than once", file_name, line_number,
          record->spec, wring_codec_info(codec)->tier);
}

static void check_refusal(const struct record *record, const struct wring_codec *codec,
                          struct wring_codec_context context)
{
    const void *code = guarded_copy(record->refused);
    float *out = wring_test_guarded(record->elems * 4);

    for (int add = 0; add < 2; add++)
        CHECK(wring_codec_decode(codec, &context, code, record->refused.n, out, record->elems,
                                 add != 0) == WRING_ERR_FRAME,
              "%s:%u: %s by %s: a malformed code is taken", file_name, line_number, record->spec,
              wring_codec_info(codec)->tier);
    refusals++;
}

/** @return what the job says */
static enum wring_status run_job(struct wring_job *job)
{
    size_t bytes = wring_job_scratch_bytes(wring_job_scratch_elems(job));
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);

    wring_job_run(job, scratch);
    free(scratch);
    return job->result.status;
}

static enum wring_status decode_16(const struct record *record, const struct wring_codec *codec,
                                   struct bytes code, uint64_t elems, void *out)
{
    const struct wring_source source = {guarded_copy(code), code.n, codec, {0}};
    struct wring_job job = {.kind = WRING_JOB_DECODE,
                            .dtype = record->dtype,
                            .elems = elems,
                            .sources = &source,
                            .n_sources = 1,
                            .dst = out};
    return run_job(&job);
}

static void check_16(const struct record *record, const struct wring_codec *codec)
{
    const char *tier = wring_codec_info(codec)->tier;
    uint64_t n = record->refused.data != NULL ? record->elems : record->input.n / 2;
    void *out = wring_test_guarded(n * 2);

    if (record->refused.data != NULL) {
        CHECK(decode_16(record, codec, record->refused, n, out) == WRING_ERR_FRAME,
              "%s:%u: %s by %s: a malformed code is taken", file_name, line_number, record->spec,
              tier);
        refusals++;
        return;
    }
    unsigned char *code = wring_test_guarded(wring_codec_bound(codec, n));
    struct wring_job job = {.kind = WRING_JOB_ENCODE,
                            .dtype = record->dtype,
                            .elems = n,
                            .src = guarded_copy(record->input),
                            .codec_out = codec,
                            .code = code};
    CHECK(run_job(&job) == WRING_OK && equal(code, job.result.code_bytes, record->code),
          "%s:%u: %s by %s: other bytes than once", file_name, line_number, record->spec, tier);
    CHECK(decode_16(record, codec, record->code, n, out) == WRING_OK &&
              equal(out, n * 2, record->decoded),
          "%s:%u: %s by %s: decodes to something else than once", file_name, line_number,
          record->spec, tier);
    codes++;
}

/** A part of some bytes, of as many that follow one another. */
static struct bytes part_of(struct bytes all, uint32_t parts, uint32_t part)
{
    return (struct bytes){all.data + all.n / parts * part, all.n / parts};
}

/** What all members find in the round, by one that reduces theirs. @return to be freed */
static void *run_round(const struct record *record, struct wring_job *job)
{
    const struct wring_codec_round *round = &job->codec_out->ops->rounds[0];
    uint64_t count = round->count(job->codec_out, &job->context);
    size_t bytes = count * wring_dtype_bytes(round->dtype);
    struct wring_source own[MEMBERS_MAX] = {{0}};
    void *all = aligned_alloc(64, (bytes + 63) / 64 * 64);
    struct wring_job reduce = {.kind = WRING_JOB_REDUCE,
                               .dtype = round->dtype,
                               .op = round->op,
                               .elems = count,
                               .sources = own,
                               .n_sources = record->members,
                               .divisor = 1,
                               .dst = all};

    for (uint32_t r = 0; r < record->members; r++) {
        job->kind = WRING_JOB_ROUND_BEGIN;
        job->context.rank = r;
        job->src = guarded_copy(part_of(record->input, record->members, r));
        job->dst = aligned_alloc(64, (bytes + 63) / 64 * 64);
        own[r] = (struct wring_source){job->dst, bytes, NULL, {0}};
        CHECK(run_job(job) == WRING_OK, "%s:%u: round", file_name, line_number);
    }
    CHECK(run_job(&reduce) == WRING_OK, "%s:%u: round", file_name, line_number);
    for (uint32_t r = 0; r < record->members; r++)
        free((void *)(uintptr_t)own[r].data);
    job->kind = WRING_JOB_ROUND_END;
    job->dst = all;
    CHECK(run_job(job) == WRING_OK, "%s:%u: round", file_name, line_number);
    return all;
}

/** Codes of several members, and their sum as an owner makes it. */
static void check_sum(const struct record *record, const struct wring_codec *codec)
{
    const char *tier = wring_codec_info(codec)->tier;
    uint32_t members = record->members;
    uint64_t n = record->input.n / 4 / members;
    struct wring_source sources[MEMBERS_MAX];
    struct wring_job job = {.elems = n, .codec_out = codec, .context = {.ranks = members}};

    REQUIRE(members <= MEMBERS_MAX, "%s:%u: too many", file_name, line_number);
    job.context.elems = n;
    void *statistics = run_round(record, &job);
    const void *of_rounds[] = {statistics};
    job.context.statistics = of_rounds;
    for (uint32_t r = 0; r < members; r++) {
        job.kind = WRING_JOB_ENCODE;
        job.context.rank = r;
        job.src = guarded_copy(part_of(record->input, members, r));
        job.code = wring_test_guarded(wring_codec_bound(codec, n));
        CHECK(run_job(&job) == WRING_OK &&
                  equal(job.code, job.result.code_bytes, part_of(record->code, members, r)),
              "%s:%u: %s by %s: another code of member %u than once", file_name, line_number,
              record->spec, tier, r);
        sources[r] = (struct wring_source){job.code, job.result.code_bytes, codec, {0}};
    }
    job.kind = WRING_JOB_REDUCE;
    job.context.phase = 1;
    job.sources = sources, job.n_sources = members;
    job.sum_codes = true, job.divisor = 1;
    job.code = wring_test_guarded(wring_codec_piece_bytes(codec, n));
    job.dst = wring_test_guarded(n * 4);
    CHECK(run_job(&job) == WRING_OK && equal(job.code, job.result.code_bytes, record->sum) &&
              equal(job.dst, n * 4, record->decoded),
          "%s:%u: %s by %s: another sum than once", file_name, line_number, record->spec, tier);
    free(statistics);
    codes++;
}

static void check_delta(const struct record *record, enum wring_cpu_tier tier)
{
    uint64_t n = record->base.n;
    const void *base = guarded_copy(record->base);
    struct bytes told = record->refused.data != NULL ? record->refused : record->code;
    unsigned char *out = wring_test_guarded(n), *code = wring_test_guarded(wring_delta_bound(n));

    enum wring_status status = wring_delta_apply(tier, out, base, n, guarded_copy(told), told.n);
    if (record->refused.data != NULL) {
        CHECK(status == WRING_ERR_FRAME, "%s:%u: %s: a malformed code is taken", file_name,
              line_number, wring_cpu_tier_name(tier));
        refusals++;
        return;
    }
    CHECK(status == WRING_OK && equal(out, n, record->input), "%s:%u: %s: other bytes than once",
          file_name, line_number, wring_cpu_tier_name(tier));
    size_t bytes = wring_delta_encode(tier, base, guarded_copy(record->input), n, code);
    CHECK(equal(code, bytes, record->code), "%s:%u: %s: another code than once", file_name,
          line_number, wring_cpu_tier_name(tier));
    codes++;
}

static void check_record(const struct record *record)
{
    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        struct wring_codec *codec = NULL;
        char why[200] = "";
        if (!wring_cpu_has((enum wring_cpu_tier)tier))
            continue;
        if (strcmp(record->spec, "delta") == 0) {
            check_delta(record, (enum wring_cpu_tier)tier);
            wring_test_free_guarded();
            continue;
        }
        wring_codec_create(record->spec, wring_cpu_tier_name((enum wring_cpu_tier)tier), NULL, why,
                           sizeof(why), &codec);
        REQUIRE(codec != NULL, "%s:%u: %s", file_name, line_number, why);
        bool refused = record->refused.data != NULL;
        struct wring_codec_context context = {.ranks = 1,
                                              .phase = record->phase,
                                              .elems =
                                                  refused ? record->elems : record->input.n / 4};
        context.rows = record->rows;
        context.columns = record->rows > 0 ? context.elems / record->rows : 0;
        struct wring_solo solo;
        REQUIRE(wring_solo_init(&solo, codec, &context) == WRING_OK, "memory");
        if (record->dtype != WRING_F32) {
            check_16(record, codec);
        } else if (record->members > 0) {
            check_sum(record, codec);
        } else if (refused) {
            check_refusal(record, codec, context);
        } else {
            check_encode(record, codec, &solo, context);
            check_decode(record, codec, context);
        }
        wring_solo_finish(&solo);
        wring_codec_destroy(codec);
        wring_test_free_guarded();
    }
}

static void end_record(struct record *record)
{
    struct bytes *all[] = {&record->input,   &record->residual, &record->code, &record->left,
                           &record->decoded, &record->refused,  &record->base, &record->sum};
    if (record->spec[0] != '\0')
        check_record(record);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]->data);
    *record = (struct record){0};
}

static void check_file(const char *name)
{
    FILE *file = fopen(name, "r");
    struct record record = {0};
    char *line = NULL;
    size_t capacity = 0;

    REQUIRE(file != NULL, "%s: cannot be opened", name);
    file_name = name;
    for (line_number = 1; getline(&line, &capacity, file) > 0; line_number++) {
        line[strcspn(line, "\n")] = '\0';
        char *space = strchr(line, ' ');
        if (line[0] == '\0')
            end_record(&record);
        else if (line[0] != '#' && space != NULL) {
            *space = '\0';
            take_line(&record, line, space + 1);
        }
    }
    end_record(&record);
    free(line);
    fclose(file);
}

/** Each codec of the library has frozen codes among the files. */
static void check_all_are_there(char **files, int n)
{
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        char name[64];
        bool found = false;
        snprintf(name, sizeof(name), "/%s.golden", (*ops)->name);
        for (int i = 0; i < n; i++)
            found |= strstr(files[i], name) != NULL;
        CHECK(found, "codec %s has no frozen codes: add it to tests/golden", (*ops)->name);
    }
}

int main(int argc, char **argv)
{
    uint64_t mode = wring_fp_enter();
    for (int i = 1; i < argc; i++)
        check_file(argv[i]);
    wring_fp_leave(mode);
    check_all_are_there(argv + 1, argc - 1);
    printf("%u codes and %u refusals, each by every tier\n", codes, refusals);
    CHECK(codes > 0 && refusals > 0, "nothing was read");
    return wring_test_failures() > 0;
}
