/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The tree. A tensor makes its stops, one communication step at each, and arrives there raw or as
 * codes:
 *
 *     arrive raw     send raw, or encode and send codes
 *     arrive coded   send the codes on, or decode and do as one that arrived raw
 *     arrive home    decode what is still coded
 *
 * With c sites to encode and d to decode, the paths home that are left are
 *
 *     before the last step       T1 = 1 + c·d           raw     T2 = d + d·T1            coded
 *     before a collective's 2nd   T5 = T1 + c·T2         raw     T2 + d·T5                coded
 *     its first step             T3 = T1 + 2·T5         raw     T4 = T2 + 2(T2 + d·T5)   coded
 *
 * and, flat being a collective alone, hierarchical one inside the two steps of another:
 *
 *     flat          1 + 2·T1 + c(d + 2·T2)                              63 for c = d = 2
 *     hierarchical  2(T3 + c·T4) + 2c(d(T3 + c·T4) + T4)                4278
 */
#include "planner/core/model/option.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "planner/core/model/option_work.h"
#include <wring/codec.h>

/** How a collective is made: by one step, or by two of which the first fixes the second. */
struct scheme {
    enum wring_routine raw, coded; /* the first step */
    bool two_steps;
    enum wring_routine second; /* raw or coded */
};

static const struct scheme schemes[] = {
    {WRING_ROUTINE_ALLREDUCE, WRING_ROUTINE_ALLGATHER, false, WRING_ROUTINE_ALLGATHER},
    {WRING_ROUTINE_REDUCE_SCATTER, WRING_ROUTINE_ALLTOALL, true, WRING_ROUTINE_ALLGATHER},
    {WRING_ROUTINE_REDUCE, WRING_ROUTINE_GATHER, true, WRING_ROUTINE_BROADCAST},
};
#define N_SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

/** A stop on the way: the first or the second step of a collective. */
struct stop {
    enum wring_phase phase;
    uint32_t collective;
    bool first;
    bool divisible; /* first: its collective takes two steps */
};

static const struct stop flat_stops[] = {
    {WRING_PHASE_FLAT, 0, true, false},
    {WRING_PHASE_FLAT, 0, false, false},
};

static const struct stop hierarchical[] = {
    {WRING_PHASE_INTRA_IN, 0, true, true}, /* the node keeps its sum: something must go back */
    {WRING_PHASE_INTER, 1, true, false},
    {WRING_PHASE_INTER, 1, false, false},
    {WRING_PHASE_INTRA_OUT, 0, false, false},
};

struct walk {
    const struct wring_options_params *params;
    wring_option_fn each;
    void *arg;
    size_t leaves;
    const struct stop *stops;
    uint32_t n_stops;
    const struct scheme *chosen[2]; /* by collective */
    struct wring_option option;     /* so far */
};

static void arrive_at_stop(struct walk *walk, uint32_t stop, bool coded);

static void push_step(struct walk *walk, struct wring_step step)
{
    assert(walk->option.n < WRING_OPTION_STEPS_MAX);
    walk->option.steps[walk->option.n++] = step;
}

static void pop_step(struct walk *walk)
{
    walk->option.n--;
}

static void report_option(struct walk *walk)
{
    walk->leaves++;
    if (walk->each != NULL)
        walk->each(walk->arg, &walk->option);
}

static void walk_comm_step(struct walk *walk, uint32_t stop, enum wring_routine routine, bool coded,
                           uint32_t next)
{
    push_step(walk, (struct wring_step){.kind = WRING_STEP_COMM,
                                        .phase = walk->stops[stop].phase,
                                        .routine = routine,
                                        .coded = coded});
    arrive_at_stop(walk, next, coded);
    pop_step(walk);
}

static void begin_collective(struct walk *walk, uint32_t stop, bool coded)
{
    for (size_t i = 0; i < N_SCHEMES; i++) {
        const struct scheme *scheme = &schemes[i];
        uint32_t next = scheme->two_steps ? stop + 1 : stop + 2;

        if (walk->stops[stop].divisible && !scheme->two_steps)
            continue;
        walk->chosen[walk->stops[stop].collective] = scheme;
        walk_comm_step(walk, stop, coded ? scheme->coded : scheme->raw, coded, next);
        if (coded && walk->params->summable)
            walk_comm_step(walk, stop, scheme->raw, coded, next);
    }
}

static void send_from_stop(struct walk *walk, uint32_t stop, bool coded)
{
    const struct stop *at = &walk->stops[stop];

    if (at->first)
        begin_collective(walk, stop, coded);
    else
        walk_comm_step(walk, stop, walk->chosen[at->collective]->second, coded, stop + 1);
}

static bool may_code(const struct walk *walk, uint32_t site)
{
    return walk->params->sites >> site & 1;
}

/** The phase in which a stop's codec work is named; what is done at home belongs to the last. */
static enum wring_phase phase_of(const struct walk *walk, uint32_t stop)
{
    return walk->stops[stop < walk->n_stops ? stop : walk->n_stops - 1].phase;
}

static void arrive_raw(struct walk *walk, uint32_t stop)
{
    if (stop == walk->n_stops) {
        report_option(walk);
        return;
    }
    send_from_stop(walk, stop, false);
    for (uint32_t site = 0; site < WRING_SITES; site++) {
        if (!may_code(walk, site))
            continue;
        push_step(walk, (struct wring_step){.kind = WRING_STEP_ENCODE,
                                            .phase = phase_of(walk, stop),
                                            .site = (enum wring_site)site});
        send_from_stop(walk, stop, true);
        pop_step(walk);
    }
}

static void arrive_at_stop(struct walk *walk, uint32_t stop, bool coded)
{
    if (!coded) {
        arrive_raw(walk, stop);
        return;
    }
    if (stop < walk->n_stops)
        send_from_stop(walk, stop, true);
    for (uint32_t site = 0; site < WRING_SITES; site++) {
        if (!may_code(walk, site))
            continue;
        push_step(walk, (struct wring_step){.kind = WRING_STEP_DECODE,
                                            .phase = phase_of(walk, stop),
                                            .site = (enum wring_site)site});
        arrive_raw(walk, stop);
        pop_step(walk);
    }
}

size_t wring_options_walk(const struct wring_options_params *params, wring_option_fn each,
                          void *arg)
{
    struct walk walk = {.params = params, .each = each, .arg = arg};

    if (params->flat) {
        walk.stops = flat_stops;
        walk.n_stops = sizeof(flat_stops) / sizeof(flat_stops[0]);
        arrive_at_stop(&walk, 0, false);
    }
    if (params->hierarchical) {
        walk.stops = hierarchical;
        walk.n_stops = sizeof(hierarchical) / sizeof(hierarchical[0]);
        arrive_at_stop(&walk, 0, false);
    }
    return walk.leaves;
}

bool wring_option_sums_codes(const struct wring_option *option)
{
    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].coded && (option->steps[i].routine == WRING_ROUTINE_ALLREDUCE ||
                                       option->steps[i].routine == WRING_ROUTINE_REDUCE_SCATTER ||
                                       option->steps[i].routine == WRING_ROUTINE_REDUCE))
            return true;
    return false;
}

bool wring_option_is_flat(const struct wring_option *option)
{
    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].kind == WRING_STEP_COMM && option->steps[i].phase != WRING_PHASE_FLAT)
            return false;
    return true;
}

bool wring_option_is_divisible(const struct wring_option *option)
{
    uint32_t steps = 0;

    for (uint32_t i = 0; i < option->n; i++)
        steps += option->steps[i].kind == WRING_STEP_COMM &&
                 (option->steps[i].phase == WRING_PHASE_FLAT ||
                  option->steps[i].phase == WRING_PHASE_INTER);
    return steps > 1;
}

/* ---- known ---- */

/* Options that have a name of their own. */

#define ENCODE                    \
    {                             \
        .kind = WRING_STEP_ENCODE \
    }
#define DECODE                    \
    {                             \
        .kind = WRING_STEP_DECODE \
    }
#define RAW(at, how)                                                                       \
    {                                                                                      \
        .kind = WRING_STEP_COMM, .phase = WRING_PHASE_##at, .routine = WRING_ROUTINE_##how \
    }
#define CODED(at, how)                                                                      \
    {                                                                                       \
        .kind = WRING_STEP_COMM, .phase = WRING_PHASE_##at, .routine = WRING_ROUTINE_##how, \
        .coded = true                                                                       \
    }

static const struct known {
    enum wring_known_option name;
    bool one_level;
    struct wring_option option;
} knowns[] = {
    /* clang-format off */
    {WRING_KNOWN_RAW, false, {3, {
        RAW(INTRA_IN, REDUCE_SCATTER), RAW(INTER, ALLREDUCE), RAW(INTRA_OUT, ALLGATHER)}}},
    {WRING_KNOWN_SUMMED, false, {5, {
        ENCODE, CODED(INTRA_IN, REDUCE_SCATTER), CODED(INTER, ALLREDUCE),
        CODED(INTRA_OUT, ALLGATHER), DECODE}}},
    {WRING_KNOWN_INTER_ONLY, false, {8, {
        RAW(INTRA_IN, REDUCE_SCATTER),
        ENCODE, CODED(INTER, ALLTOALL), DECODE, ENCODE, CODED(INTER, ALLGATHER), DECODE,
        RAW(INTRA_OUT, ALLGATHER)}}},
    {WRING_KNOWN_TWO_LEVEL, false, {12, {
        ENCODE, CODED(INTRA_IN, ALLTOALL), DECODE,
        ENCODE, CODED(INTER, ALLTOALL), DECODE, ENCODE, CODED(INTER, ALLGATHER), DECODE,
        ENCODE, CODED(INTRA_OUT, ALLGATHER), DECODE}}},
    {WRING_KNOWN_RAW, true, {1, {RAW(FLAT, ALLREDUCE)}}},
    {WRING_KNOWN_SUMMED, true, {3, {ENCODE, CODED(FLAT, ALLREDUCE), DECODE}}},
    {WRING_KNOWN_INTER_ONLY, true, {6, {
        ENCODE, CODED(FLAT, ALLTOALL), DECODE, ENCODE, CODED(FLAT, ALLGATHER), DECODE}}},
    /* clang-format on */
};

static bool is_same_step(const struct wring_step *a, const struct wring_step *b)
{
    if (a->kind != b->kind)
        return false;
    return a->kind != WRING_STEP_COMM ||
           (a->phase == b->phase && a->routine == b->routine && a->coded == b->coded);
}

/** One site codes it all. */
static bool has_one_site(const struct wring_option *option)
{
    const struct wring_step *first = NULL;

    for (uint32_t i = 0; i < option->n; i++) {
        const struct wring_step *step = &option->steps[i];
        if (step->kind == WRING_STEP_COMM)
            continue;
        if (first != NULL && first->site != step->site)
            return false;
        first = step;
    }
    return true;
}

static bool is_same_option(const struct wring_option *a, const struct wring_option *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!is_same_step(&a->steps[i], &b->steps[i]))
            return false;
    return true;
}

bool wring_option_has_steps_of(const struct wring_option *option, const struct wring_option *other)
{
    bool same = is_same_option(option, other);

    for (uint32_t i = 0; i < option->n && same; i++)
        same = option->steps[i].kind == WRING_STEP_COMM ||
               option->steps[i].site == other->steps[i].site;
    return same;
}

enum wring_known_option wring_option_known(const struct wring_option *option, bool one_level)
{
    for (size_t i = 0; i < sizeof(knowns) / sizeof(knowns[0]); i++)
        if (knowns[i].one_level == one_level && is_same_option(&knowns[i].option, option))
            return has_one_site(option) ? knowns[i].name : WRING_KNOWN_NONE;
    return WRING_KNOWN_NONE;
}

struct wring_encodings wring_option_encodings(const struct wring_option *option)
{
    struct wring_encodings encodings = {0};
    bool sent[WRING_PHASE_INTRA_OUT + 1] = {false};

    for (uint32_t i = 0; i < option->n; i++) {
        const struct wring_step *step = &option->steps[i];
        if (step->kind == WRING_STEP_COMM)
            sent[step->phase] = true;
        else if (step->kind == WRING_STEP_ENCODE)
            *(step->phase == WRING_PHASE_INTRA_OUT || sent[step->phase] ? &encodings.back
                                                                        : &encodings.in) += 1;
    }
    return encodings;
}

/* ---- text ---- */

/* Options in words. */

const char *wring_step_kind_name(enum wring_step_kind kind)
{
    switch (kind) {
    case WRING_STEP_ENCODE:
        return "encode";
    case WRING_STEP_DECODE:
        return "decode";
    case WRING_STEP_COMM:
        return "comm";
    }
    return "?";
}

static const char *phase_name(enum wring_phase phase)
{
    switch (phase) {
    case WRING_PHASE_FLAT:
        return "flat";
    case WRING_PHASE_INTRA_IN:
        return "intra-in";
    case WRING_PHASE_INTER:
        return "inter";
    case WRING_PHASE_INTRA_OUT:
        return "intra-out";
    }
    return "?";
}

const char *wring_routine_name(enum wring_routine routine)
{
    switch (routine) {
    case WRING_ROUTINE_ALLREDUCE:
        return "allreduce";
    case WRING_ROUTINE_REDUCE_SCATTER:
        return "reduce-scatter";
    case WRING_ROUTINE_ALLGATHER:
        return "allgather";
    case WRING_ROUTINE_REDUCE:
        return "reduce";
    case WRING_ROUTINE_BROADCAST:
        return "broadcast";
    case WRING_ROUTINE_ALLTOALL:
        return "alltoall";
    case WRING_ROUTINE_GATHER:
        return "gather";
    }
    return "?";
}

/** Where it communicates, in one word; which of the two intra phases, its routine says. */
static const char *level_name(enum wring_phase phase)
{
    switch (phase) {
    case WRING_PHASE_FLAT:
        return "flat";
    case WRING_PHASE_INTER:
        return "inter";
    case WRING_PHASE_INTRA_IN:
    case WRING_PHASE_INTRA_OUT:
        return "intra";
    }
    return "?";
}

static int step_text(const struct wring_step *step, const char *before, char *text, size_t bytes)
{
    if (step->kind == WRING_STEP_COMM)
        return snprintf(text, bytes, "%s%s %s%s", before, level_name(step->phase),
                        wring_routine_name(step->routine), step->coded ? "*" : "");
    return snprintf(text, bytes, "%s%s %s", before, wring_step_kind_name(step->kind),
                    wring_site_name(step->site));
}

void wring_option_text(const struct wring_option *option, char *text, size_t bytes)
{
    size_t at = 0;

    if (bytes > 0)
        text[0] = '\0';
    for (uint32_t i = 0; i < option->n && at < bytes; i++)
        at += (size_t)step_text(&option->steps[i], i > 0 ? ", " : "", text + at, bytes - at);
}

/* ---- list ---- */

/** One of the two parts of the tree. */
static size_t count_part_options(const struct wring_options_params *params, bool flat)
{
    struct wring_options_params part = *params;

    part.flat = params->flat && flat;
    part.hierarchical = params->hierarchical && !flat;
    return wring_options_walk(&part, NULL, NULL);
}

/* ---- for people ---- */

struct printing {
    FILE *file;
    size_t number;
};

static void print_leaf(void *arg, const struct wring_option *option)
{
    struct printing *printing = arg;
    char text[WRING_OPTION_TEXT_MAX];

    wring_option_text(option, text, sizeof(text));
    fprintf(printing->file, "%6zu  %s\n", printing->number++, text);
}

enum wring_status wring_options_print(const struct wring_options_params *params, FILE *file)
{
    struct printing printing = {file, 0};
    size_t leaves = wring_options_walk(params, print_leaf, &printing);

    fprintf(file, "%zu options: %zu flat, %zu hierarchical (*: codes travel)\n", leaves,
            count_part_options(params, true), count_part_options(params, false));
    return fflush(file) == 0 && !ferror(file) ? WRING_OK : WRING_ERR_SYSTEM;
}

/* ---- as JSON ---- */

static json_t *step_json(const struct wring_step *step)
{
    if (step->kind != WRING_STEP_COMM)
        return json_pack("{s:s, s:s}", "step", wring_step_kind_name(step->kind), "place",
                         wring_site_name(step->site));
    return json_pack("{s:s, s:s, s:s, s:b}", "step", wring_step_kind_name(step->kind), "phase",
                     phase_name(step->phase), "routine", wring_routine_name(step->routine), "coded",
                     step->coded);
}

json_t *wring_option_json(const struct wring_option *option)
{
    json_t *steps = json_array();
    char text[WRING_OPTION_TEXT_MAX];

    for (uint32_t i = 0; i < option->n && steps != NULL; i++)
        if (json_array_append_new(steps, step_json(&option->steps[i])) != 0) {
            json_decref(steps);
            steps = NULL;
        }
    wring_option_text(option, text, sizeof(text));
    return steps != NULL ? json_pack("{s:s, s:o}", "text", text, "steps", steps) : NULL;
}

struct listing {
    json_t *options;
    bool failed;
};

static void list_leaf(void *arg, const struct wring_option *option)
{
    struct listing *listing = arg;
    json_t *leaf = listing->failed ? NULL : wring_option_json(option);
    json_t *number = json_integer((json_int_t)json_array_size(listing->options));

    /* these take their last argument whatever comes, and refuse NULL */
    if (json_object_set_new(leaf, "option", number) != 0) {
        json_decref(leaf);
        listing->failed = true;
        return;
    }
    listing->failed = json_array_append_new(listing->options, leaf) != 0;
}

enum wring_status wring_options_json(const struct wring_options_params *params, json_t **out)
{
    struct listing listing = {json_array(), false};

    if (listing.options == NULL)
        return WRING_ERR_NO_MEMORY;
    size_t leaves = wring_options_walk(params, list_leaf, &listing);
    json_t *list = NULL;
    if (!listing.failed)
        list =
            json_pack("{s:I, s:I, s:I, s:O}", "flat", (json_int_t)count_part_options(params, true),
                      "hierarchical", (json_int_t)count_part_options(params, false), "leaves",
                      (json_int_t)leaves, "options", listing.options);
    json_decref(listing.options);
    if (list == NULL)
        return WRING_ERR_NO_MEMORY;
    *out = list;
    return WRING_OK;
}

/* ---- run as ---- */

#define STEPS_MAX 6

struct pattern {
    uint32_t n;
    struct {
        enum wring_step_kind kind;
        enum wring_routine routine;
    } steps[STEPS_MAX];
};

#define CODE(kind)                                 \
    {                                              \
        WRING_STEP_##kind, WRING_ROUTINE_ALLREDUCE \
    }
#define COMM(routine)                            \
    {                                            \
        WRING_STEP_COMM, WRING_ROUTINE_##routine \
    }

static const struct pattern raw[] = {
    {1, {COMM(ALLREDUCE)}},
    {2, {COMM(REDUCE_SCATTER), COMM(ALLGATHER)}},
};
static const struct pattern indivisible = {3, {CODE(ENCODE), COMM(ALLGATHER), CODE(DECODE)}};
/* owners decode, add and encode again; or they add the codes themselves, if these add up */
static const struct pattern recoded = {
    6, {CODE(ENCODE), COMM(ALLTOALL), CODE(DECODE), CODE(ENCODE), COMM(ALLGATHER), CODE(DECODE)}};
static const struct pattern summed[] = {
    {3, {CODE(ENCODE), COMM(ALLREDUCE), CODE(DECODE)}},
    {4, {CODE(ENCODE), COMM(REDUCE_SCATTER), COMM(ALLGATHER), CODE(DECODE)}},
};

static bool is_between_all(enum wring_phase phase, uint32_t ranks_per_node)
{
    return phase == WRING_PHASE_FLAT || (phase == WRING_PHASE_INTER && ranks_per_node == 1);
}

static bool is_raw_step(const struct wring_step *step, enum wring_phase phase,
                        enum wring_routine routine)
{
    return step->kind == WRING_STEP_COMM && !step->coded && step->phase == phase &&
           step->routine == routine;
}

/** A collective between nodes inside raw ones within them. */
static bool is_in_nodes(const struct wring_option *option, uint32_t ranks_per_node)
{
    return ranks_per_node > 1 && option->n > 2 &&
           is_raw_step(&option->steps[0], WRING_PHASE_INTRA_IN, WRING_ROUTINE_REDUCE_SCATTER) &&
           is_raw_step(&option->steps[option->n - 1], WRING_PHASE_INTRA_OUT,
                       WRING_ROUTINE_ALLGATHER);
}

/** The steps of an option in which whole contributions become sums: all of them, or those between
 *  nodes. */
struct collective {
    const struct wring_step *steps;
    uint32_t n;
    uint32_t ranks_per_node; /* of those that it is between */
};

static bool can_step_run(const struct collective *collective, const struct wring_step *step,
                         bool is_coded)
{
    if (step->kind == WRING_STEP_COMM)
        return is_between_all(step->phase, collective->ranks_per_node) && step->coded == is_coded;
    return step->site == WRING_SITE_CPU;
}

static bool matches_pattern(const struct collective *collective, const struct pattern *pattern)
{
    if (collective->n != pattern->n)
        return false;
    for (uint32_t i = 0; i < collective->n; i++) {
        const struct wring_step *step = &collective->steps[i];
        if (step->kind != pattern->steps[i].kind ||
            (step->kind == WRING_STEP_COMM && step->routine != pattern->steps[i].routine))
            return false;
    }
    return true;
}

/** What a session makes of a codec in plans. */
struct abilities {
    bool runs;        /* not what keeps an array beside its residual, which belongs to one bucket */
    bool indivisible; /* not a sum that must come back */
    bool divisible;   /* not a whole bucket, which is never cut */
    bool in_nodes;    /* not votes, which are those of ranks */
    bool adds_codes;  /* owners add codes, and decode none before they send the sum */
};

static struct abilities abilities_of(const char *spec)
{
    struct wring_codec *codec = NULL;
    char why[100];

    if (wring_codec_create(spec, "best", NULL, why, sizeof(why), &codec) != WRING_OK)
        return (struct abilities){.runs = false};
    const struct wring_codec_info *info = wring_codec_info(codec);
    struct abilities abilities = {.runs = info->states == 0,
                                  .indivisible = (info->flags & WRING_CODEC_TWO_WAYS) == 0,
                                  .divisible = info->unit != 0,
                                  .in_nodes = (info->flags & WRING_CODEC_VOTES) == 0,
                                  .adds_codes = (info->flags & WRING_CODEC_SUMMABLE) != 0};
    wring_codec_destroy(codec);
    return abilities;
}

bool wring_option_adds_codes(const char *codec)
{
    return strcmp(codec, "none") != 0 && abilities_of(codec).adds_codes;
}

static enum wring_scheme find_raw_scheme(const struct collective *collective)
{
    return matches_pattern(collective, &raw[0]) || matches_pattern(collective, &raw[1])
               ? WRING_SCHEME_AUTO
               : WRING_SCHEMES;
}

static enum wring_scheme find_coded_scheme(const struct collective *collective, const char *codec,
                                           bool in_nodes)
{
    bool whole = matches_pattern(collective, &indivisible);
    bool again = matches_pattern(collective, &recoded);
    bool added = matches_pattern(collective, &summed[0]) || matches_pattern(collective, &summed[1]);

    if (!whole && !again && !added)
        return WRING_SCHEMES; /* the most, and found out in no time */
    struct abilities abilities = abilities_of(codec);
    if (!abilities.runs || (in_nodes && !abilities.in_nodes))
        return WRING_SCHEMES;
    if (whole)
        return abilities.indivisible ? WRING_SCHEME_INDIVISIBLE : WRING_SCHEMES;
    return abilities.divisible && abilities.adds_codes == added ? WRING_SCHEME_DIVISIBLE
                                                                : WRING_SCHEMES;
}

/** WRING_SCHEMES: there is none. */
static enum wring_scheme find_scheme(const struct collective *collective, const char *codec,
                                     bool in_nodes)
{
    bool is_raw = strcmp(codec, "none") == 0;

    for (uint32_t i = 0; i < collective->n; i++)
        if (!can_step_run(collective, &collective->steps[i], !is_raw))
            return WRING_SCHEMES;
    return is_raw ? find_raw_scheme(collective) : find_coded_scheme(collective, codec, in_nodes);
}

const char *wring_option_run_as(const struct wring_option *option, const char *codec,
                                uint32_t ranks_per_node)
{
    bool in_nodes = is_in_nodes(option, ranks_per_node);
    struct collective collective = {option->steps, option->n, ranks_per_node};

    if (in_nodes)
        collective = (struct collective){option->steps + 1, option->n - 2, 1};
    enum wring_scheme scheme = find_scheme(&collective, codec, in_nodes);
    if (scheme == WRING_SCHEMES)
        return "";
    return wring_scheme_name(
        (enum wring_scheme)(scheme + (in_nodes ? WRING_SCHEME_HIERARCHICAL : 0)));
}
