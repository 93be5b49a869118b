/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/made_tunings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "planner/core/model/option_work.h"
#include "tests/lib/test.h"
#include "tests/planner/made_model.h"

static const char *const allowed[] = {"byte"};
static const uint64_t elems[] = {1 << 20, 1 << 20};
static const double ready[] = {100, 200};

struct wring_profile_curve made_curve(double fixed, double slope)
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
                                          .encode = made_curve(fixed, 0.002 / each),
                                          .decode = made_curve(fixed, 0.001 / each)};
}

void made_tunings_set_up(struct made_tunings *made, uint32_t nodes, uint32_t ranks_per_node)
{
    memset(made, 0, sizeof(*made));
    made->profile = (struct wring_profile){.name = "made",
                                           .nodes = nodes,
                                           .ranks_per_node = ranks_per_node,
                                           .chunked = true,
                                           .n_codecs = 1,
                                           .codecs = &made->codec,
                                           .collectives = made->collectives};
    for (int level = 0; level < WRING_LEVELS; level++)
        made->profile.links[level] = (struct wring_profile_link){
            .present = true, .latency_us = 10, .us = wring_cost_line(0, 0.001)};
    made->codec = (struct wring_profile_codec){
        .spec = "byte", .nmse = NAN, .wire_bytes = wring_cost_line(0, 1)};
    made->codec.at[WRING_SITE_CPU] =
        (struct wring_profile_coding){.present = true,
                                      .encode_us = wring_cost_line(0, 0.004),
                                      .decode_us = wring_cost_line(0, 0.003)};
    for (uint32_t cores = 0; cores <= 4; cores += cores > 0 ? cores : 1)
        add_coder(&made->codec, cores);
    wring_made_trace(2, elems, ready, &made->trace);
    made->params = (struct wring_cost_model_params){
        .trace = &made->trace.trace, .profile = &made->profile, .codecs = allowed, .n_codecs = 1};
}

void made_tunings_add_collective(struct made_tunings *made, const char *codec, const char *run_as,
                                 double slope, const struct wring_tuning *tuning)
{
    struct wring_measured_collective *collective =
        &made->collectives[made->profile.n_collectives++];

    *collective = (struct wring_measured_collective){.ranks = made->profile.nodes *
                                                              made->profile.ranks_per_node,
                                                     .cores = 8,
                                                     .max_elems = 1 << 24,
                                                     .solo = made_curve(20, slope),
                                                     .busy = made_curve(10, slope),
                                                     .cpu = made_curve(10, slope),
                                                     .wire_bytes = wring_cost_line(0, 1)};
    snprintf(collective->codec, sizeof(collective->codec), "%s", codec);
    snprintf(collective->run_as, sizeof(collective->run_as), "%s", run_as);
    if (tuning != NULL) {
        collective->coder_cores = tuning->cores;
        collective->chunk_bytes = tuning->chunk_bytes;
    }
}

void made_tunings_add_collectives(struct made_tunings *made, double factor,
                                  const struct wring_tuning *tuning)
{
    made_tunings_add_collective(made, "none", "auto", 0.02 * factor, tuning);
    made_tunings_add_collective(made, "byte", "divisible", 0.008 * factor, tuning);
}

double made_tunings_busy_us(struct made_tunings *made, const struct wring_tuning *tuning)
{
    made->params.tuning = tuning;
    struct wring_cost_model *model = wring_made_model(&made->params);
    double us = NAN;

    if (model == NULL)
        return us;
    for (uint32_t i = 0; i < model->problem.n_options; i++)
        if (model->options[i].codec == 1)
            us = wring_made_model_lane(model, i, "collective", 1 << 20);
    wring_cost_model_destroy(model);
    return us;
}

void made_tunings_take_line(void *arg, enum wring_log_level level, const char *module,
                            const char *text)
{
    struct made_line *line = arg;
    (void)level;
    (void)module;
    snprintf(line->text, sizeof(line->text), "%s", text);
}

/** The tunings as text, "cores:KiB cores:KiB"; what is refused, in its words. */
static const char *list(const struct made_tunings *made, const struct wring_tunings_wanted *wanted)
{
    static struct made_line line;
    struct wring_log log = {made_tunings_take_line, &line, WRING_LOG_WARN};
    struct wring_tunings tunings;
    size_t used = 0;

    line.text[0] = '\0';
    if (wring_tunings_list(&made->params, wanted, &log, &tunings) != WRING_OK)
        return line.text;
    for (uint32_t i = 0; i < tunings.n; i++)
        used += (size_t)snprintf(line.text + used, sizeof(line.text) - used, "%s%u:%u",
                                 i > 0 ? " " : "", tunings.list[i].cores,
                                 (unsigned)(tunings.list[i].chunk_bytes / KIB));
    return line.text;
}

void made_tunings_check_list(const struct made_tunings *made,
                             const struct wring_tunings_wanted *wanted, const char *want)
{
    const char *got = list(made, wanted);
    bool is_list = want[0] == '\0' || (want[0] >= '0' && want[0] <= '9');
    CHECK(is_list ? strcmp(got, want) == 0 : strstr(got, want) != NULL, "'%s', not '%s'", got,
          want);
}
