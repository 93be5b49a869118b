/* SPDX-License-Identifier: Apache-2.0 */
/** Pinned cores and sizes of pieces: which are known, what they make of costs, and what plans say.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "planner/files/plan.h"
#include "planner/model/option_work.h"
#include "planner/model/pinned.h"
#include "planner/model/settings.h"
#include "planner/model/shared_cores.h"
#include "planner/search/search.h"
#include "tests/lib/test.h"
#include "tests/planner/made_model.h"
#include "tests/planner/made_trace.h"

#define KIB 1024
#define WAYS_MAX 16

static const char *const allowed[] = {"byte"};
static const uint64_t elems[] = {1 << 20, 1 << 20};
static const double ready[] = {100, 200};

/** A cluster with one codec, that was measured by cores. */
struct made {
    struct wring_profile profile;
    struct wring_profile_codec codec;
    struct wring_profile_way ways[WAYS_MAX];
    struct wring_made_trace trace;
    struct wring_cost_model_params params;
};

static struct wring_profile_curve curve(double fixed, double slope)
{
    return (struct wring_profile_curve){.us = wring_cost_line(fixed, slope)};
}

/** Inline 2 ns an element to encode and 1 to decode; on so many cores that part of it, and 5 us. */
static void add_coder(struct wring_profile_codec *codec, uint32_t cores)
{
    struct wring_profile_coder *coder = &codec->coders[codec->n_coders++];
    double each = cores > 0 ? cores : 1, fixed = cores > 0 ? 5 : 0;

    *coder = (struct wring_profile_coder){.cores = cores,
                                          .tier = "scalar",
                                          .encode = curve(fixed, 0.002 / each),
                                          .decode = curve(fixed, 0.001 / each)};
}

static void set_up(struct made *made, uint32_t nodes, uint32_t ranks_per_node)
{
    memset(made, 0, sizeof(*made));
    made->profile = (struct wring_profile){.name = "made",
                                           .nodes = nodes,
                                           .ranks_per_node = ranks_per_node,
                                           .chunked = true,
                                           .n_codecs = 1,
                                           .codecs = &made->codec,
                                           .ways = made->ways};
    for (int level = 0; level < WRING_LEVELS; level++)
        made->profile.links[level] = (struct wring_profile_link){
            .present = true, .latency_us = 10, .us = wring_cost_line(0, 0.001)};
    made->codec = (struct wring_profile_codec){
        .spec = "byte", .nmse = NAN, .wire_bytes = wring_cost_line(0, 1)};
    made->codec.at[WRING_PLACE_CPU] =
        (struct wring_profile_coding){.present = true,
                                      .encode_us = wring_cost_line(0, 0.004),
                                      .decode_us = wring_cost_line(0, 0.003)};
    for (uint32_t cores = 0; cores <= 4; cores += cores > 0 ? cores : 1)
        add_coder(&made->codec, cores);
    wring_made_trace(2, elems, ready, &made->trace);
    made->params = (struct wring_cost_model_params){
        .trace = &made->trace.trace, .profile = &made->profile, .codecs = allowed, .n_codecs = 1};
}

/** @param slope  us per element of a bucket among others */
static void add_way(struct made *made, const char *codec, const char *run_as, double slope,
                    const struct wring_setting *setting)
{
    struct wring_profile_way *way = &made->ways[made->profile.n_ways++];

    *way = (struct wring_profile_way){.ranks = made->profile.nodes * made->profile.ranks_per_node,
                                      .cores = 8,
                                      .max_elems = 1 << 24,
                                      .solo = curve(20, slope),
                                      .busy = curve(10, slope),
                                      .cpu = curve(10, slope),
                                      .wire_bytes = wring_cost_line(0, 1)};
    snprintf(way->codec, sizeof(way->codec), "%s", codec);
    snprintf(way->run_as, sizeof(way->run_as), "%s", run_as);
    if (setting != NULL) {
        way->coder_cores = setting->cores;
        way->chunk_bytes = setting->chunk_bytes;
    }
}

struct line {
    char text[512];
};

static void take_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct line *line = arg;
    (void)level;
    (void)module;
    snprintf(line->text, sizeof(line->text), "%s", text);
}

/** The settings as text, "cores:KiB cores:KiB"; what is refused, in its words. */
static const char *list(const struct made *made, const struct wring_settings_wanted *wanted)
{
    static struct line line;
    struct wring_log log = {take_line, &line, WRING_LOG_WARN};
    struct wring_settings settings;
    size_t used = 0;

    line.text[0] = '\0';
    if (wring_settings_list(&made->params, wanted, &log, &settings) != WRING_OK)
        return line.text;
    for (uint32_t i = 0; i < settings.n; i++)
        used += (size_t)snprintf(line.text + used, sizeof(line.text) - used, "%s%u:%u",
                                 i > 0 ? " " : "", settings.list[i].cores,
                                 (unsigned)(settings.list[i].chunk_bytes / KIB));
    return line.text;
}

static void check_list(const struct made *made, const struct wring_settings_wanted *wanted,
                       const char *want)
{
    const char *got = list(made, wanted);
    bool is_list = want[0] == '\0' || (want[0] >= '0' && want[0] <= '9');
    CHECK(is_list ? strcmp(got, want) == 0 : strstr(got, want) != NULL, "'%s', not '%s'", got,
          want);
}

static void coders_say_which_cores_there_are(void)
{
    struct made made;

    set_up(&made, 2, 1);
    check_list(&made, NULL, "0:256 1:256 2:256 4:256");
    check_list(&made, &(struct wring_settings_wanted){.n_cores = 2, .cores = {4, 1}},
               "1:256 4:256");
    check_list(&made,
               &(struct wring_settings_wanted){.n_chunks = 2, .chunk_bytes = {65536, 262144}},
               "0:256 1:256 2:256 4:256 0:64 1:64 2:64 4:64");
    check_list(
        &made, &(struct wring_settings_wanted){.n_cores = 1, .cores = {3}},
        "cannot tell what these codecs take on 3 cores pinned in each of a node's 1 ranks; it "
        "can tell for 0, 1, 2, 4, where 0 is inline");
    made.params.places = 1u << WRING_PLACE_DEVICE;
    check_list(&made, NULL, "0:256");
    set_up(&made, 2, 2);
    check_list(&made, NULL, "0:256 1:256 2:256"); /* twice four are more than a node has */
    made.codec.n_coders = 0;
    check_list(&made, NULL, ""); /* nothing is known: all is left to the job */
    check_list(&made, &(struct wring_settings_wanted){.n_cores = 1, .cores = {1}},
               "can tell for 0");
    set_up(&made, 2, 1);
    made.params.timeline = WRING_TIMELINE_PHASES;
    check_list(&made, NULL, "");
    check_list(&made, &(struct wring_settings_wanted){.n_cores = 1}, "but in timeline full");
}

/** What a lane takes of 2^20 elements at once, everything coded between the nodes in two steps. */
static double code_us(struct made *made, const struct wring_setting *setting, uint64_t *chunk)
{
    made->params.setting = setting;
    made->params.keep_dominated = true;
    struct wring_cost_model *model = wring_made_model(&made->params);
    double us = NAN;

    if (model == NULL)
        return us;
    for (uint32_t i = 0; i < model->problem.n_options; i++)
        if (wring_option_known(&model->options[i].option, true) == WRING_KNOWN_INTER_ONLY) {
            us = wring_made_model_lane(model, i, "cpu", 1 << 20);
            *chunk = model->options[i].chunk_elems;
            CHECK(model->options[i].cores == (setting != NULL ? setting->cores : 0), "%u cores",
                  model->options[i].cores);
        }
    wring_cost_model_destroy(model);
    return us;
}

static void coders_say_what_they_take(void)
{
    const struct wring_setting two = {2, 256 * KIB}, small = {0, 64 * KIB};
    const double x = 1 << 20;
    struct made made;
    uint64_t chunk = 0;

    /* all and half of it again is encoded, and twice all decoded: with what one core was measured
       to take, inline, and on two */
    set_up(&made, 2, 1);
    CHECK(wring_near(code_us(&made, NULL, &chunk), (1.5 * 0.004 + 2 * 0.003) * x), "as measured");
    CHECK(chunk == 256 * KIB, "%llu", (unsigned long long)chunk);
    CHECK(wring_near(code_us(&made, &small, &chunk), (1.5 * 0.002 + 2 * 0.001) * x), "inline");
    CHECK(chunk == 64 * KIB, "%llu", (unsigned long long)chunk);
    CHECK(wring_near(code_us(&made, &two, &chunk), 30 + (1.5 * 0.001 + 2 * 0.0005) * x), "on two");
    /* each rank of a node codes what is its own; eight of them share four cores */
    set_up(&made, 1, 2);
    CHECK(wring_near(code_us(&made, NULL, &chunk), 2 * (1.5 * 0.004 + 2 * 0.003) * x),
          "one core for both");
    CHECK(wring_near(code_us(&made, &two, &chunk), 30 + (1.5 * 0.001 + 2 * 0.0005) * x),
          "two cores each");
    set_up(&made, 1, 8);
    CHECK(wring_near(code_us(&made, &small, &chunk), 2 * (1.125 * 0.002 + 2 * 0.001) * x),
          "shared");
}

static void add_ways_of(struct made *made, double factor, const struct wring_setting *setting)
{
    add_way(made, "none", "auto", 0.02 * factor, setting);
    add_way(made, "byte", "divisible", 0.008 * factor, setting);
}

/** What a further bucket of 2^20 elements takes with the codec. */
static double busy_us(struct made *made, const struct wring_setting *setting)
{
    made->params.setting = setting;
    struct wring_cost_model *model = wring_made_model(&made->params);
    double us = NAN;

    if (model == NULL)
        return us;
    for (uint32_t i = 0; i < model->problem.n_options; i++)
        if (model->options[i].codec == 1)
            us = wring_made_model_lane(model, i, "exchange", 1 << 20);
    wring_cost_model_destroy(model);
    return us;
}

static void ways_are_those_of_the_setting(void)
{
    const struct wring_setting large = {0, 1024 * KIB}, pinned = {8, 256 * KIB},
                               usual = {0, 256 * KIB}, none = {3, 256 * KIB};
    const double x = 1 << 20;
    struct made made;

    set_up(&made, 2, 1);
    made.codec.n_coders = 0;
    add_ways_of(&made, 1, NULL);
    check_list(&made, NULL, ""); /* as it comes */
    add_ways_of(&made, 0.5, &large);
    add_ways_of(&made, 2, &pinned);
    check_list(&made, NULL, "0:256 8:256 0:1024");
    CHECK(wring_near(busy_us(&made, NULL), 10 + 0.008 * x), "as it comes");
    CHECK(wring_near(busy_us(&made, &usual), 10 + 0.008 * x), "the default");
    CHECK(wring_near(busy_us(&made, &large), 10 + 0.004 * x), "large pieces");
    CHECK(wring_near(busy_us(&made, &pinned), 10 + 0.016 * x), "pinned");
    check_list(&made, &(struct wring_settings_wanted){.n_chunks = 1, .chunk_bytes = {4096}},
               "no exchanges in pieces of 4096 bytes; it has those of 262144, 1048576");
    made.params.setting = &none;
    struct wring_pinned asked = {
        .profile = &made.profile, .nodes = 2, .ranks_per_node = 1, .setting = &none};
    struct wring_way_cost cost;
    CHECK(wring_pinned_way(&asked, "byte", "divisible", &cost) == NULL, "from nowhere");
    /* a codec that was measured otherwise only has no figures there */
    made.params.setting = NULL;
    add_way(&made, "none", "auto", 1, &(struct wring_setting){0, 128 * KIB});
    check_list(&made, NULL, "0:256 8:256 0:1024");
}

/** What has no exchanges of its own stands beside what has, and a line says so. */
static void exchanges_are_put_together(void)
{
    const struct wring_setting one = {1, 256 * KIB};
    const double x = 1 << 20;
    struct line line = {""};
    struct wring_log log = {.fn = take_line, .arg = &line, .level = WRING_LOG_WARN};
    struct wring_cost_model *model = NULL;
    struct made made;

    set_up(&made, 2, 1);
    add_way(&made, "none", "auto", 0.02, NULL);
    /* whole: encoded once, two codes added up, one on the link */
    CHECK(wring_near(busy_us(&made, NULL), (0.002 + 2 * 0.001 + 0.001) * x), "inline: %g",
          busy_us(&made, NULL));
    CHECK(wring_near(busy_us(&made, &one), 5 + 2 * 5 + 0.005 * x), "on one core: %g",
          busy_us(&made, &one));
    made.params.setting = NULL;
    CHECK(wring_cost_model_create(&made.params, &log, &model) == WRING_OK, "no model");
    CHECK(strstr(line.text, "no whole exchanges of byte: ") != NULL, "%s", line.text);
    wring_cost_model_destroy(model);
    line.text[0] = '\0';
    add_way(&made, "byte", "divisible", 0.008, NULL);
    CHECK(wring_cost_model_create(&made.params, &log, &model) == WRING_OK, "no model");
    CHECK(line.text[0] == '\0', "%s", line.text);
    wring_cost_model_destroy(model);
    CHECK(wring_near(busy_us(&made, NULL), 10 + 0.008 * x), "as measured");
}

/** Gradients that lie apart are copied together and back. */
static void copies_are_counted(void)
{
    const double x = 1 << 20;
    struct made made;

    set_up(&made, 2, 1);
    made.params.scattered = true;
    struct wring_cost_model *model = NULL;
    struct wring_log quiet = {.level = WRING_LOG_ERROR, .fn = take_line, .arg = &(struct line){""}};
    CHECK(wring_cost_model_create(&made.params, &quiet, &model) == WRING_ERR_INVALID,
          "nobody measured copies");
    made.profile.copy_us = wring_cost_line(3, 0.0001);
    uint64_t chunk;
    CHECK(wring_near(code_us(&made, NULL, &chunk),
                     (1.5 * 0.004 + 2 * 0.003) * x + 2 * (3 + 0.0004 * x)),
          "%g", code_us(&made, NULL, &chunk));
    add_ways_of(&made, 1, NULL);
    CHECK(wring_near(busy_us(&made, NULL), 10 + 0.008 * x + 2 * (3 + 0.0004 * x)), "%g",
          busy_us(&made, NULL));
}

static void codec_work_moves_where_there_is_room(void)
{
    const struct wring_setting two = {2, 256 * KIB};
    const double x = 1 << 20;
    struct made made;

    set_up(&made, 2, 1);
    add_ways_of(&made, 1, NULL);
    check_list(&made, NULL, "0:256 1:256 2:256 4:256"); /* of eight cores */
    /* 0.008 in all, 0.003 of it codec work: 0.005 remains, the link has 0.001 */
    CHECK(wring_near(busy_us(&made, &two), 10 + 0.005 * x), "the rest: %g", busy_us(&made, &two));
    /* half of what is decoded is added up, the other half goes into place */
    made.codec.coders[0].decode_add = curve(0, 0.002);
    CHECK(wring_near(busy_us(&made, &two), 10 + 0.0045 * x), "adding: %g", busy_us(&made, &two));
    made.profile.links[WRING_LEVEL_INTER].us = wring_cost_line(0, 0.006);
    CHECK(wring_near(busy_us(&made, &two), 0.006 * x), "the link: %g", busy_us(&made, &two));
    made.profile.links[WRING_LEVEL_INTER].us = wring_cost_line(0, 0.05);
    CHECK(wring_near(busy_us(&made, &two), 10 + 0.008 * x), "no worse: %g", busy_us(&made, &two));
    made.profile.links[WRING_LEVEL_INTER].us = wring_cost_line(0, 0.001);
    made.ways[1].cpu = curve(9, 0.007);
    CHECK(wring_near(busy_us(&made, &two), 10 + 0.008 * x), "who waits: %g", busy_us(&made, &two));
    made.codec.coders[2].encode = curve(0, 0.02);
    made.codec.coders[2].decode = curve(0, 1e-4);
    CHECK(busy_us(&made, &two) > 0.02 * x, "slow cores: %g", busy_us(&made, &two));
    made.params.computing = WRING_COMPUTING_PROCESSOR;
    made.ways[0].cores = made.ways[1].cores = 4;
    check_list(&made, NULL, "0:256 1:256 2:256"); /* one computes, one makes progress */
    made.params.setting = NULL;
    set_up(&made, 2, 2);
    add_ways_of(&made, 1, NULL);
    check_list(&made, NULL, ""); /* two kinds of links */
    set_up(&made, 1, 4);
    add_ways_of(&made, 1, NULL);
    check_list(&made, NULL, "0:256 1:256"); /* eight cores for four ranks */
}

static enum wring_cost_source source_of(const struct made *made)
{
    struct wring_cost_model *model = wring_made_model(&made->params);
    enum wring_cost_source source = model != NULL ? model->source : WRING_COSTS_NOTHING;

    wring_cost_model_destroy(model);
    return source;
}

/** Ranks alone say little: two on a node have no link between nodes. */
static void ways_are_those_of_the_nodes(void)
{
    struct made made;

    set_up(&made, 1, 2);
    add_ways_of(&made, 1, NULL);
    CHECK(source_of(&made) == WRING_COSTS_MEASURED, "its own cluster: %d", source_of(&made));
    made.params.link_scale = 4; /* of links that it has not */
    CHECK(source_of(&made) == WRING_COSTS_MEASURED, "no links: %d", source_of(&made));
    made.params.nodes = 2;
    made.params.ranks_per_node = 1;
    made.params.link_scale = 1;
    CHECK(source_of(&made) == WRING_COSTS_PARTS, "two nodes: %d", source_of(&made));
    check_list(&made, NULL, "0:256 1:256 2:256 4:256"); /* as coders say, not ways */
    made.params.nodes = made.params.ranks_per_node = 1;
    CHECK(source_of(&made) == WRING_COSTS_NOTHING, "one rank: %d", source_of(&made));
}

/** What a model of ways runs an option of the codec as; "" where it has none. */
static void list_run_as(const struct made *made, uint32_t codec, char *text, size_t bytes)
{
    struct wring_cost_model *model = wring_made_model(&made->params);
    const char *spec = codec > 0 ? "byte" : "none";
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; model != NULL && i < model->problem.n_options; i++)
        if (model->options[i].codec == codec)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? " " : "",
                                     model->options[i].way->run_as);
    CHECK(model != NULL, "no model of %s", spec);
    wring_cost_model_destroy(model);
}

/** What was measured of nodes is offered, and is what codecs are compared with where it is faster.
 */
static void ways_in_nodes_are_options(void)
{
    struct made made;
    char text[128];

    set_up(&made, 2, 2);
    add_way(&made, "none", "auto", 0.004, NULL);
    add_way(&made, "none", "hierarchical", 0.002, NULL);
    list_run_as(&made, 0, text, sizeof(text));
    CHECK(strcmp(text, "hierarchical") == 0, "raw: %s", text); /* the baseline, too */
    add_way(&made, "byte", "divisible", 0.002, NULL);
    add_way(&made, "byte", "hierarchical-indivisible", 0.001, NULL);
    list_run_as(&made, 1, text, sizeof(text));
    CHECK(strcmp(text, "hierarchical-indivisible") == 0, "coded: %s", text);
}

/** A further bucket's time and what one alone takes longer, of 2^20 elements, on such links. */
static void check_links(struct made *made, double scale, double busy, double rest)
{
    made->params.link_scale = scale;
    struct wring_cost_model *model = wring_made_model(&made->params);

    REQUIRE(model != NULL, "no model");
    CHECK(model->source == (scale == 1 ? WRING_COSTS_MEASURED : WRING_COSTS_RESCALED), "%d",
          model->source);
    for (uint32_t i = 0; i < model->problem.n_options; i++) {
        if (model->options[i].codec != 1)
            continue;
        double us[] = {wring_made_model_lane(model, i, "exchange", 1 << 20),
                       wring_made_model_lane(model, i, "rest of it", 1 << 20)};
        CHECK(wring_near(us[0], busy) && wring_near(us[1], rest), "%g: %g and %g, not %g and %g",
              scale, us[0], us[1], busy, rest);
    }
    wring_cost_model_destroy(model);
}

static void ways_have_links_as_fast_as_asked_for(void)
{
    const double x = 1 << 20, piece = 256 * KIB; /* a byte for each element */
    struct made made;

    set_up(&made, 2, 1);
    made.profile.links[WRING_LEVEL_INTER].us = wring_cost_line(0, 0.006);
    add_ways_of(&made, 1, NULL);
    made.ways[1].cpu = curve(0, 0.002);
    made.ways[1].solo = curve(10, 0.009); /* 0.001 longer than a further one */
    check_links(&made, 1, 10 + 0.008 * x, 0.001 * x);
    /* the link decides: 0.012, and what was neither the link's nor the processor's stays */
    check_links(&made, 0.5, 10 + 0.014 * x, 0.001 * x);
    check_links(&made, 2, 10 + 0.005 * x, 0.001 * x);
    /* the processor decides, and the first piece's way over the link is shorter */
    check_links(&made, 6, 10 + 0.004 * x, 0.001 * x - 0.001 * piece);
    made.ways[1].cpu = curve(10, 0.008); /* all of the time: a faster link gains nothing */
    check_links(&made, 2, 10 + 0.008 * x, 0.001 * x - 0.003 * piece);
    set_up(&made, 2, 2); /* two kinds of links: nobody knows whose time is which */
    add_ways_of(&made, 1, NULL);
    CHECK(source_of(&made) == WRING_COSTS_MEASURED, "as they were: %d", source_of(&made));
    made.params.link_scale = 2;
    CHECK(source_of(&made) == WRING_COSTS_PARTS, "faster ones: %d", source_of(&made));
}

/** Two ranks on two processors were measured, of 0.02 us and 4 bytes on the link for each element.
 */
static void set_up_two(struct made *made)
{
    set_up(made, 1, 2);
    made->codec.n_coders = 1;
    add_ways_of(made, 1, NULL);
    made->ways[0].cores = made->ways[1].cores = 2;
}

static void coding_and_progress_are_on_the_same_cores(void)
{
    const double x = 1 << 20;
    const struct wring_setting is_inline = {0, 256 * KIB};
    struct made made;

    set_up_two(&made);
    struct wring_cost_model *two = wring_made_model(&made.params);
    made.params.ranks_per_node = 4;
    made.params.setting = &is_inline;
    struct wring_cost_model *four = wring_made_model(&made.params);
    REQUIRE(two != NULL && four != NULL, "no model");
    double raw = wring_made_model_time(four, four->uncompressed);
    CHECK(four->source == WRING_COSTS_PARTS, "%d", four->source);
    /* half again as many bytes, and half of a processor */
    CHECK(raw > 2.9 * wring_made_model_time(two, two->uncompressed), "four ranks take %g", raw);
    CHECK(wring_near(wring_made_model_lane(four, four->uncompressed, "cpu", x), 20 + 0.06 * x),
          "raw: %g", wring_made_model_lane(four, four->uncompressed, "cpu", x));
    for (uint32_t i = 0; i < four->problem.n_options; i++)
        if (four->options[i].codec == 1 &&
            wring_option_known(&four->options[i].option, true) == WRING_KNOWN_INTER_ONLY) {
            /* encodes all and a quarter, decodes twice all, and passes on three quarters twice */
            double us = wring_made_model_lane(four, i, "cpu", x);
            double want = 2 * (1.25 * 0.002 + 2 * 0.001) * x + 2 * (20 + 1.5 * 0.005 * x);
            CHECK(wring_near(us, want), "coded: %g, not %g", us, want);
        }
    wring_cost_model_destroy(two);
    wring_cost_model_destroy(four);
}

static void progress_has_what_codecs_leave(void)
{
    static const struct {
        uint32_t processors, ranks, cores;
        double share;
    } cases[] = {{8, 4, 0, 1},   {2, 4, 0, 2}, {8, 4, 1, 0},
                 {6, 4, 1, 0.5}, {4, 4, 1, 1}, {2, 4, 1, 1}};
    struct made made;

    set_up_two(&made);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct wring_setting setting = {cases[i].cores, 256 * KIB};
        const struct wring_pinned pinned = {.profile = &made.profile,
                                            .nodes = 1,
                                            .ranks_per_node = cases[i].ranks,
                                            .setting = &setting};
        struct wring_cost us = {0};
        made.ways[0].cores = made.ways[1].cores = cases[i].processors;
        CHECK(wring_shared_cores_progress(&pinned, &us) == (cases[i].share > 0), "%zu", i);
        CHECK(wring_near(wring_cost_at(&us, 4e6), cases[i].share * (10 + 0.02e6)), "%zu: %g", i,
              wring_cost_at(&us, 4e6));
    }
}

static void computing_takes_its_part_of_the_cores(void)
{
    static const struct {
        uint32_t processors, ranks;
        double lost;
    } cases[] = {{2, 2, 0.5}, {8, 2, 0.2}, {1, 1, 0.5}, {8, 1, 0}, {3, 2, 0.25}, {2, 8, 0.5}};
    struct made made;

    set_up_two(&made);
    made.profile.computing.spin_lost = 0.2; /* of two ranks */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct wring_pinned pinned = {
            .profile = &made.profile, .nodes = 1, .ranks_per_node = cases[i].ranks};
        made.ways[0].cores = made.ways[1].cores = cases[i].processors;
        CHECK(wring_near(wring_shared_cores_spin_lost(&pinned), cases[i].lost), "%zu: %g", i,
              wring_shared_cores_spin_lost(&pinned));
    }
}

/** The best of a model's plans; @return its time. */
static double plan_with(struct made *made, const struct wring_setting *setting,
                        struct wring_plan **plan)
{
    made->params.setting = setting;
    struct wring_cost_model *model = wring_made_model(&made->params);
    struct wring_search_params search = {.uncompressed = 0};
    struct wring_found found;

    *plan = NULL;
    if (model == NULL)
        return NAN;
    search.uncompressed = model->uncompressed;
    CHECK(wring_search_run(&model->problem, &search, &found) == WRING_OK, "no plan");
    CHECK(wring_plan_create(model, &made->trace.trace, &made->profile, &found.grouping, plan) ==
              WRING_OK,
          "no plan");
    wring_grouping_finish(&found.grouping);
    wring_cost_model_destroy(model);
    return found.time_us;
}

static void plans_say_their_setting(void)
{
    const struct wring_setting four = {4, 64 * KIB}, is_inline = {0, 256 * KIB};
    struct wring_plan *plan;
    struct made made;

    set_up(&made, 2, 1);
    double as_measured = plan_with(&made, NULL, &plan);
    REQUIRE(plan != NULL, "no plan");
    CHECK(plan->executor[0] == '\0' && plan->chunk_bytes == 0 && plan->groups[0].cores == 0,
          "%s, %llu", plan->executor, (unsigned long long)plan->chunk_bytes);
    wring_plan_destroy(plan);
    double alone = plan_with(&made, &is_inline, &plan);
    REQUIRE(plan != NULL, "no plan");
    CHECK(strcmp(plan->executor, "inline") == 0 && plan->chunk_bytes == 262144 &&
              plan->groups[0].cores == 0,
          "%s, %llu", plan->executor, (unsigned long long)plan->chunk_bytes);
    wring_plan_destroy(plan);
    double pinned = plan_with(&made, &four, &plan);
    REQUIRE(plan != NULL, "no plan");
    CHECK(strcmp(plan->executor, "pool:4") == 0 && plan->chunk_bytes == 65536 &&
              plan->groups[0].cores == 4,
          "%s, %llu, %u", plan->executor, (unsigned long long)plan->chunk_bytes,
          plan->groups[0].cores);
    wring_plan_destroy(plan);
    CHECK(pinned < alone && alone < as_measured, "%g, %g, %g", pinned, alone, as_measured);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"coders_say_which_cores_there_are", coders_say_which_cores_there_are},
        {"coders_say_what_they_take", coders_say_what_they_take},
        {"ways_are_those_of_the_setting", ways_are_those_of_the_setting},
        {"exchanges_are_put_together", exchanges_are_put_together},
        {"copies_are_counted", copies_are_counted},
        {"codec_work_moves_where_there_is_room", codec_work_moves_where_there_is_room},
        {"ways_are_those_of_the_nodes", ways_are_those_of_the_nodes},
        {"ways_in_nodes_are_options", ways_in_nodes_are_options},
        {"ways_have_links_as_fast_as_asked_for", ways_have_links_as_fast_as_asked_for},
        {"coding_and_progress_are_on_the_same_cores", coding_and_progress_are_on_the_same_cores},
        {"progress_has_what_codecs_leave", progress_has_what_codecs_leave},
        {"computing_takes_its_part_of_the_cores", computing_takes_its_part_of_the_cores},
        {"plans_say_their_setting", plans_say_their_setting},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
