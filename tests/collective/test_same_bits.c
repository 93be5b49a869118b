/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every codec of the library, by its name and by its name and +ef: the same numbers have the same
 * sums in other shapes, sizes of pieces, tiers, providers, executors and ways of progress, and in
 * buckets that are cut elsewhere between units. A table names what is not so, and why; each line
 * of it is checked, so a line that is no longer true fails as well.
 */
#include <stdlib.h>
#include <string.h>

#include "compress/codec.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define RANKS 3
#define ROWS 9
#define COLUMNS 1201
#define ELEMS (ROWS * COLUMNS)
#define STEPS 3
#define SUBJECTS_MAX 256
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* ---- what is not the same, and why ---- */

enum why {
    SAME,   /* it is */
    DRAWS,  /* it draws random numbers by the bucket's name and the element's place in the bucket:
               the first part of a cut bucket has the same sums under the same name */
    MATRIX, /* it factors the matrix whose shape the bucket names, and the whole of it */
    KEEPS,  /* its codes lose nothing here: nor do they where others' owners keep more */
};

static const struct exemption {
    const char *codec;
    enum why why;
} exemptions[] = {
    {"randk", DRAWS},  /* which elements go */
    {"hashed", DRAWS}, /* which go together */
    {"thc", DRAWS},    /* signs of the rotation */
    {"qsgd", DRAWS},   /* roundings, in this line and the next ones */
    {"natural", DRAWS},   {"terngrad", DRAWS},
    {"powersgd", MATRIX}, {"union", KEEPS}, /* no elements are zeros: it sends all of them */
};

static enum why why_of(const char *spec)
{
    for (size_t i = 0; i < COUNT(exemptions); i++) {
        size_t length = strlen(exemptions[i].codec);
        if (strncmp(spec, exemptions[i].codec, length) == 0 &&
            (spec[length] == '\0' || strchr(":+", spec[length]) != NULL))
            return exemptions[i].why;
    }
    return SAME;
}

/* ---- every codec ---- */

/** A codec in a scheme. */
struct subject {
    char spec[WRING_CODEC_SPEC_MAX];
    enum wring_scheme scheme;
    unsigned flags;
    uint64_t cut; /* elements of the first part of a cut bucket: whole units, or 0 */
};

static struct subject subjects[SUBJECTS_MAX];
static size_t n_subjects, n_specs;

/** In schemes without shards nobody sends a sum back, and shards are whole units. */
static bool is_refused(const struct wring_codec *codec, enum wring_scheme scheme)
{
    const struct wring_codec_info *info = wring_codec_info(codec);
    if (scheme == WRING_SCHEME_INDIVISIBLE)
        return (info->flags & WRING_CODEC_TWO_WAYS) != 0;
    return info->unit == 0;
}

/** With its defaults; if a bucket of this test were no two units, with smaller ones.
 *  @param spec  out, [WRING_CODEC_SPEC_MAX] @return NULL: there is none */
static struct wring_codec *make_codec(const char *name, const char *suffix, char *spec)
{
    static const char *const smaller[] = {"", ":block=1024", ":block=1024:chunk=32"};
    struct wring_codec *codec;

    for (size_t i = 0; i < COUNT(smaller); i++) {
        snprintf(spec, WRING_CODEC_SPEC_MAX, "%s%s%s", name, smaller[i], suffix);
        if (wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) != WRING_OK)
            continue;
        if (wring_codec_info(codec)->unit < ELEMS / RANKS)
            return codec;
        wring_codec_destroy(codec);
    }
    return NULL;
}

static void add_subjects(const char *name, const char *suffix)
{
    static const enum wring_scheme schemes[] = {WRING_SCHEME_DIVISIBLE, WRING_SCHEME_INDIVISIBLE};
    char spec[WRING_CODEC_SPEC_MAX];
    struct wring_codec *codec;

    codec = make_codec(name, suffix, spec);
    if (codec == NULL) {
        CHECK(*suffix != '\0', "%s alone has no units that %d elements hold", name, ELEMS);
        return;
    }
    uint64_t unit = wring_codec_info(codec)->unit;
    unsigned before = (unsigned)n_subjects;
    for (size_t s = 0; s < COUNT(schemes); s++) {
        struct subject *subject = &subjects[n_subjects];
        if (is_refused(codec, schemes[s]))
            continue;
        REQUIRE(n_subjects < SUBJECTS_MAX, "more than %d", SUBJECTS_MAX);
        memcpy(subject->spec, spec, sizeof(spec));
        subject->scheme = schemes[s];
        subject->flags = wring_codec_info(codec)->flags | wring_codec_way(codec, 0)->info.flags;
        subject->cut = unit > 0 ? ELEMS * 2 / 3 / unit * unit : ELEMS * 2 / 3;
        CHECK(subject->cut > 0 && subject->cut < ELEMS, "%s: units of %d elements are not cut",
              spec, (int)unit);
        n_subjects++;
    }
    CHECK(n_subjects > before, "%s is in no scheme", spec);
    n_specs++;
    wring_codec_destroy(codec);
}

static void find_subjects(void)
{
    n_subjects = n_specs = 0;
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        add_subjects((*ops)->name, "");
        add_subjects((*ops)->name, "+ef");
    }
}

/* ---- jobs ---- */

enum cut {
    UNCUT,
    CUT,       /* into two buckets of other names */
    FIRST_PART /* which has the name, and nothing after it */
};

struct form {
    const char *name; /* of what is other than in the first one */
    uint64_t rows;    /* 0: it is no matrix */
    enum cut cut;
    const char *settings[6]; /* NULL-terminated */
};

/** The first one is what the others are compared with. */
static const struct form forms[] = {
    {"the first", ROWS, UNCUT, {"WRING_PROVIDER=shm", "WRING_CPU=scalar"}},
    {"columns for rows", COLUMNS, UNCUT, {"WRING_PROVIDER=shm"}},
    {"no matrix", 0, UNCUT, {"WRING_PROVIDER=shm"}},
    {"pieces of 4 KiB", ROWS, UNCUT, {"WRING_PROVIDER=shm", "WRING_CHUNK_BYTES=4k"}},
    {"pieces of 16 KiB", ROWS, UNCUT, {"WRING_PROVIDER=tcp", "WRING_CHUNK_BYTES=16k"}},
    {"tier avx2", ROWS, UNCUT, {"WRING_PROVIDER=shm", "WRING_CPU=avx2"}},
    {"the best tier", ROWS, UNCUT, {"WRING_PROVIDER=shm", "WRING_CPU=best"}},
    {"provider tcp", ROWS, UNCUT, {"WRING_PROVIDER=tcp"}},
    {"a pool", ROWS, UNCUT, {"WRING_PROVIDER=shm", "WRING_EXECUTOR=pool:2"}},
    {"a pool and small pieces",
     ROWS,
     UNCUT,
     {"WRING_PROVIDER=tcp", "WRING_EXECUTOR=pool:2", "WRING_CHUNK_BYTES=4k"}},
    {"progress by the caller", ROWS, UNCUT, {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller"}},
    {"once more", ROWS, UNCUT, {"WRING_PROVIDER=shm", "WRING_CPU=scalar"}},
    {"two buckets", 0, CUT, {"WRING_PROVIDER=shm"}},
    {"its first part", 0, FIRST_PART, {"WRING_PROVIDER=shm"}},
};

struct job {
    const struct form *form;
    float *results[RANKS]; /* [n_subjects][ELEMS] */
};

/** Other magnitudes in each block, as gradients have. */
static void fill(float *data, uint32_t rank, unsigned step)
{
    uint32_t random = 1 + rank * 7919 + step * 104729;

    for (uint64_t i = 0; i < ELEMS; i++)
        data[i] = wring_test_random_float(&random) * (1 + (float)(i / 700 % 5));
}

static void register_part(struct wring_session *session, const struct job *job, size_t i,
                          const char *suffix, float *data, uint64_t elems,
                          struct wring_bucket **bucket)
{
    char name[32];

    snprintf(name, sizeof(name), "bucket %zu%s", i, suffix);
    struct wring_bucket_params params = {.name = name,
                                         .data = data,
                                         .elems = elems,
                                         .codec = subjects[i].spec,
                                         .scheme = subjects[i].scheme,
                                         .op = i % 2 == 0 ? WRING_SUM : WRING_AVG};
    if (job->form->rows > 0) {
        params.shape.rows = job->form->rows;
        params.shape.columns = elems / job->form->rows;
    }
    CHECK(wring_bucket_register(session, &params, bucket) == WRING_OK, "%s", subjects[i].spec);
}

static void register_all(struct wring_session *session, const struct job *job, size_t i,
                         float *data, struct wring_bucket **buckets)
{
    uint64_t cut = subjects[i].cut;

    if (job->form->cut == UNCUT) {
        register_part(session, job, i, "", data, ELEMS, &buckets[0]);
        return;
    }
    register_part(session, job, i, job->form->cut == CUT ? " a" : "", data, cut, &buckets[0]);
    if (job->form->cut == CUT)
        register_part(session, job, i, " b", data + cut, ELEMS - cut, &buckets[1]);
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    static _Thread_local struct wring_bucket *buckets[SUBJECTS_MAX][2];
    static _Thread_local float *data[SUBJECTS_MAX];
    const struct job *job = arg;

    memset(buckets, 0, sizeof(buckets));
    for (size_t i = 0; i < n_subjects; i++) {
        REQUIRE(wring_buffer_alloc(session, ELEMS * sizeof(float), (void **)&data[i]) == WRING_OK,
                "alloc");
        register_all(session, job, i, data[i], buckets[i]);
    }
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (unsigned step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < n_subjects; i++) {
            fill(data[i], rank, step);
            for (int part = 0; part < 2 && buckets[i][part] != NULL; part++)
                CHECK(wring_bucket_post(buckets[i][part]) == WRING_OK, "post");
        }
        for (size_t i = 0; i < n_subjects; i++)
            for (int part = 0; part < 2 && buckets[i][part] != NULL; part++)
                CHECK(wring_bucket_wait(buckets[i][part], WAIT_NS, NULL) == WRING_OK, "%s",
                      subjects[i].spec);
    }
    for (size_t i = 0; i < n_subjects; i++)
        memcpy(job->results[rank] + i * ELEMS, data[i], ELEMS * sizeof(float));
}

static void check_ranks(const struct job *job)
{
    for (size_t i = 0; i < n_subjects; i++) {
        size_t bytes = (job->form->cut == FIRST_PART ? subjects[i].cut : ELEMS) * sizeof(float);
        for (uint32_t r = 1; r < RANKS; r++)
            CHECK(memcmp(job->results[0] + i * ELEMS, job->results[r] + i * ELEMS, bytes) == 0,
                  "%s, scheme %d, %s: ranks 0 and %u differ", subjects[i].spec,
                  (int)subjects[i].scheme, job->form->name, r);
    }
}

static void run_job(struct job *job)
{
    for (uint32_t r = 0; r < RANKS; r++)
        job->results[r] = calloc(n_subjects * ELEMS, sizeof(float));
    wring_test_run_ranks(&(struct wring_test_job){
        .ranks = RANKS, .settings = job->form->settings, .run = run_rank, .arg = job});
    check_ranks(job);
}

static void end_job(struct job *job)
{
    for (uint32_t r = 0; r < RANKS; r++)
        free(job->results[r]);
}

/* ---- comparing ---- */

/** Where sums come back in shards, an owner takes its own part as it is, unless the codec says
 *  otherwise: in a bucket cut elsewhere other ranks own an element. Integer sums, and codecs that
 *  lose nothing, do not mind. */
static bool depends_on_owner(const struct subject *subject)
{
    unsigned alike =
        WRING_CODEC_OWN | WRING_CODEC_ALTERS | WRING_CODEC_SUMMABLE | WRING_CODEC_EXACT;
    return subject->scheme == WRING_SCHEME_DIVISIBLE && (subject->flags & alike) == 0 &&
           why_of(subject->spec) != KEEPS;
}

/** Has a subject to have the same bits in that form? */
static bool is_to_be_same(const struct subject *subject, const struct form *form)
{
    enum why why = why_of(subject->spec);

    if (why == MATRIX)
        return form->rows == ROWS;
    if (form->cut == UNCUT)
        return true;
    return !depends_on_owner(subject) && (why != DRAWS || form->cut == FIRST_PART);
}

/** What the table says differs has to. @return whether it is the same */
static bool compare(const struct job *first, const struct job *job, size_t i)
{
    const struct subject *subject = &subjects[i];
    uint64_t elems = job->form->cut == FIRST_PART ? subject->cut : ELEMS;
    bool same = memcmp(first->results[0] + i * ELEMS, job->results[0] + i * ELEMS,
                       elems * sizeof(float)) == 0;

    CHECK(same == is_to_be_same(subject, job->form), "%s, scheme %d, %s: %s", subject->spec,
          (int)subject->scheme, job->form->name,
          same ? "the same bits, so it needs no exemption" : "other bits");
    return same;
}

/** Sums that had to be the same, and those that the table says are not. */
struct count {
    unsigned same, other;
};

static void compare_all(const struct job *first, const struct form *form, struct count *count)
{
    struct job job = {.form = form};

    run_job(&job);
    for (size_t i = 0; i < n_subjects; i++)
        if (compare(first, &job, i))
            count->same++;
        else
            count->other++;
    end_job(&job);
}

/* with sanitizers: another shape, a tier in vectors, a pool with small pieces over tcp, a part */
#define FORMS_STEP (WRING_TEST_STRIDE > 1 ? 4 : 1)

static void every_codec(void)
{
    struct job first = {.form = &forms[0]};
    struct count uncut = {0}, cut = {0};
    size_t jobs = 1;

    find_subjects();
    run_job(&first);
    for (size_t f = 1; f < COUNT(forms); f += FORMS_STEP, jobs++)
        compare_all(&first, &forms[f], forms[f].cut == UNCUT ? &uncut : &cut);
    end_job(&first);
    printf(
        "%zu specs of all codecs, %zu with a scheme, in %zu jobs of other shapes, sizes of pieces, "
        "tiers, providers and executors: %u sums have the same bits, %u (powersgd, another shape) "
        "have others\n",
        n_specs, n_subjects, jobs, uncut.same, uncut.other);
    printf("%u sums of buckets cut between other units have the same bits; %u have others: random "
           "numbers by place, matrices, and an owner's part that is not coded\n",
           cut.same, cut.other);
}

/** A line for a codec that is no more would hide a new one of that name. */
static void exemptions_name_codecs(void)
{
    for (size_t i = 0; i < COUNT(exemptions); i++) {
        struct wring_codec *codec;
        CHECK(wring_codec_create(exemptions[i].codec, NULL, NULL, NULL, 0, &codec) == WRING_OK,
              "%s is no codec", exemptions[i].codec);
        wring_codec_destroy(codec);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"exemptions_name_codecs", exemptions_name_codecs},
        {"every_codec", every_codec},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
