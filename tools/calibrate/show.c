/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/files/profile_traits.h"
#include "planner/tool/svg.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/values.h"

#define SMALL 1024.0
#define MIDDLE 65536.0
#define LARGE 4194304.0

/** A few digits, whatever the size. */
static void put_us(struct wring_table *table, const struct wring_cost *cost, double x)
{
    double us = wring_cost_at(cost, x);
    wring_table_cell(table, us < 10 ? "%.2f" : us < 1000 ? "%.1f" : "%.0f", us);
}

/** Four cells: how far the curve can be trusted. */
static void put_trust(struct wring_table *table, const struct wring_profile_trust *trust)
{
    if (trust->samples == 0) { /* nobody has said */
        for (int i = 0; i < 4; i++)
            wring_table_cell(table, "-");
        return;
    }
    wring_table_cell(table, "%.0f %%", trust->error * 100);
    wring_table_cell(table, "%.0f %%", trust->spread * 100);
    wring_table_cell(table, "%.0f %%", trust->doubt * 100);
    wring_table_cell(table, "%u of %u", trust->noisy, trust->points);
}

/** What is shown of a put, or of a collective. */
struct line {
    double latency_us;
    const struct wring_cost *us;
    const struct wring_profile_trust *trust;
};

static void put_link(struct wring_table *table, const struct wring_profile *profile,
                     enum wring_level level, const char *what, const struct line *line)
{
    wring_table_cell(table, "%s", wring_level_name(level));
    wring_table_cell(table, "%s", what);
    wring_table_cell(table, "%s", profile->links[level].provider);
    wring_table_cell(table, "%.1f", line->latency_us);
    put_us(table, line->us, 4096);
    put_us(table, line->us, 16777216);
    wring_table_cell(table, "%.2f", 16777216 / wring_cost_at(line->us, 16777216) / 1e3);
    put_trust(table, line->trust);
}

static void show_links(FILE *file, const struct wring_profile *profile)
{
    static const struct wring_table_column columns[] = {
        {"links", WRING_ALIGN_LEFT},     {"of", WRING_ALIGN_LEFT},
        {"provider", WRING_ALIGN_LEFT},  {"latency us", WRING_ALIGN_RIGHT},
        {"4 KiB us", WRING_ALIGN_RIGHT}, {"16 MiB us", WRING_ALIGN_RIGHT},
        {"GB/s", WRING_ALIGN_RIGHT},     {"off", WRING_ALIGN_RIGHT},
        {"spread", WRING_ALIGN_RIGHT},   {"doubt", WRING_ALIGN_RIGHT},
        {"noisy", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, 11);

    for (int level = 0; level < WRING_LEVELS; level++) {
        const struct wring_profile_link *link = &profile->links[level];
        if (!link->present)
            continue;
        if (link->put.latency.us.n > 0)
            put_link(table, profile, (enum wring_level)level, "put",
                     &(struct line){wring_cost_at(&link->put.latency.us, 0), &link->put.each.us,
                                    &link->put.each.trust});
        put_link(table, profile, (enum wring_level)level, "a pair of steps",
                 &(struct line){link->latency_us, &link->us, &link->trust});
        for (uint32_t i = 0; i < link->n_routines; i++)
            put_link(table, profile, (enum wring_level)level, link->routines[i].name,
                     &(struct line){link->routines[i].latency_us, &link->routines[i].us,
                                    &link->routines[i].trust});
    }
    wring_table_finish(table, file);
}

static void put_error(struct wring_table *table, double error)
{
    wring_table_cell(table, isnan(error) ? "-" : "%.3g", error);
}

/** Three cells: encoding, decoding into place, and decoding that adds. */
static void put_coding(struct wring_table *table, const struct wring_cost *encode_us,
                       const struct wring_cost *decode_us, const struct wring_cost *decode_add_us,
                       double elems)
{
    put_us(table, encode_us, elems);
    put_us(table, decode_us, elems);
    put_us(table, wring_profile_decoding(decode_us, decode_add_us, true), elems);
}

static void show_codecs(FILE *file, const struct wring_profile *profile)
{
    static const struct wring_table_column columns[] = {
        {"codec", WRING_ALIGN_LEFT},          {"at", WRING_ALIGN_LEFT},
        {"bytes of 4", WRING_ALIGN_RIGHT},    {"nmse", WRING_ALIGN_RIGHT},
        {"on gradients", WRING_ALIGN_RIGHT},  {"encode 64k us", WRING_ALIGN_RIGHT},
        {"decode 64k us", WRING_ALIGN_RIGHT}, {"adding 64k us", WRING_ALIGN_RIGHT},
        {"encode 4m us", WRING_ALIGN_RIGHT},  {"decode 4m us", WRING_ALIGN_RIGHT},
        {"adding 4m us", WRING_ALIGN_RIGHT},  {"from", WRING_ALIGN_LEFT},
    };
    struct wring_table *table = wring_table_create(columns, 12);

    for (uint32_t i = 0; i < profile->n_codecs; i++)
        for (int site = 0; site < WRING_SITES; site++) {
            const struct wring_profile_codec *codec = &profile->codecs[i];
            const struct wring_profile_coding *coding = &codec->at[site];
            if (!coding->present)
                continue;
            wring_table_cell(table, "%s", codec->spec);
            wring_table_cell(table, "%s", wring_site_name((enum wring_site)site));
            wring_table_cell(table, "%.3f", wring_cost_at(&codec->wire_bytes, LARGE) / LARGE);
            put_error(table, codec->nmse);
            put_error(table, wring_profile_error(profile, codec->spec, NULL));
            put_coding(table, &coding->encode_us, &coding->decode_us, &coding->decode_add_us,
                       MIDDLE);
            put_coding(table, &coding->encode_us, &coding->decode_us, &coding->decode_add_us,
                       LARGE);
            wring_table_cell(table, "%s", coding->source);
        }
    wring_table_finish(table, file);
}

static bool has_traits(const struct wring_profile_codec *codec)
{
    return wring_profile_traits_record.is_set(&codec->traits) ||
           codec->at[WRING_SITE_CPU].sum_us.n > 0;
}

static void put_bytes(struct wring_table *table, const struct wring_cost *bytes)
{
    if (bytes->n > 0)
        wring_table_cell(table, "%.3f", wring_cost_at(bytes, LARGE) / LARGE);
    else
        wring_table_cell(table, "-");
}

/** What codecs are beside their times, where there is anything to say. */
static void show_traits(FILE *file, const struct wring_profile *profile)
{
    static const struct wring_table_column columns[] = {
        {"codec", WRING_ALIGN_LEFT},
        {"alters training", WRING_ALIGN_LEFT},
        {"rounds", WRING_ALIGN_RIGHT},
        {"their bytes of 4", WRING_ALIGN_RIGHT},
        {"state bytes of 4", WRING_ALIGN_RIGHT},
        {"back, bytes of 4", WRING_ALIGN_RIGHT},
        {"at most", WRING_ALIGN_RIGHT},
        {"adding codes 4m us", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, 8);

    for (uint32_t i = 0; i < profile->n_codecs; i++) {
        const struct wring_profile_codec *codec = &profile->codecs[i];
        if (!has_traits(codec))
            continue;
        wring_table_cell(table, "%s", codec->spec);
        wring_table_cell(table, "%s", codec->traits.alters ? "yes" : "no");
        wring_table_cell(table, "%" PRIu32, codec->traits.rounds);
        put_bytes(table, &codec->traits.round_bytes);
        wring_table_cell(table, "%.3g", codec->traits.state_bytes);
        put_bytes(table, &codec->traits.way_back.bytes);
        put_bytes(table, &codec->traits.way_back.most_bytes);
        if (codec->at[WRING_SITE_CPU].sum_us.n > 0)
            put_us(table, &codec->at[WRING_SITE_CPU].sum_us, LARGE);
        else
            wring_table_cell(table, "-");
    }
    wring_table_finish(table, file);
}

static bool has_any_traits(const struct wring_profile *profile)
{
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (has_traits(&profile->codecs[i]))
            return true;
    return false;
}

/** The same by executor; the kernels' names tell which are the best. */
static void show_coders(FILE *file, const struct wring_profile *profile)
{
    static const struct wring_table_column columns[] = {
        {"codec", WRING_ALIGN_LEFT},          {"pinned cores", WRING_ALIGN_RIGHT},
        {"kernels", WRING_ALIGN_LEFT},        {"encode 64k us", WRING_ALIGN_RIGHT},
        {"decode 64k us", WRING_ALIGN_RIGHT}, {"adding 64k us", WRING_ALIGN_RIGHT},
        {"encode 4m us", WRING_ALIGN_RIGHT},  {"decode 4m us", WRING_ALIGN_RIGHT},
        {"adding 4m us", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, 9);

    for (uint32_t i = 0; i < profile->n_codecs; i++)
        for (uint32_t j = 0; j < profile->codecs[i].n_coders; j++) {
            const struct wring_profile_coder *coder = &profile->codecs[i].coders[j];
            wring_table_cell(table, "%s", profile->codecs[i].spec);
            if (coder->cores > 0)
                wring_table_cell(table, "%" PRIu32, coder->cores);
            else
                wring_table_cell(table, "inline");
            wring_table_cell(table, "%s", coder->tier);
            put_coding(table, &coder->encode.us, &coder->decode.us, &coder->decode_add.us, MIDDLE);
            put_coding(table, &coder->encode.us, &coder->decode.us, &coder->decode_add.us, LARGE);
        }
    wring_table_finish(table, file);
}

static bool has_coders(const struct wring_profile *profile)
{
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (profile->codecs[i].n_coders > 0)
            return true;
    return false;
}

static void show_collectives(FILE *file, const struct wring_profile *profile)
{
    static const struct wring_table_column columns[] = {
        {"collective", WRING_ALIGN_LEFT}, {"as", WRING_ALIGN_LEFT},
        {"ranks", WRING_ALIGN_RIGHT},     {"pinned", WRING_ALIGN_RIGHT},
        {"pieces", WRING_ALIGN_RIGHT},    {"1k us", WRING_ALIGN_RIGHT},
        {"64k us", WRING_ALIGN_RIGHT},    {"4m us", WRING_ALIGN_RIGHT},
        {"busy 64k", WRING_ALIGN_RIGHT},  {"busy 4m", WRING_ALIGN_RIGHT},
        {"cpu 4m", WRING_ALIGN_RIGHT},    {"off", WRING_ALIGN_RIGHT},
        {"spread", WRING_ALIGN_RIGHT},    {"doubt", WRING_ALIGN_RIGHT},
        {"noisy", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, 15);

    for (uint32_t i = 0; i < profile->n_collectives; i++) {
        const struct wring_measured_collective *collective = &profile->collectives[i];
        char bytes[32];
        wring_table_cell(table, "%s", collective->codec);
        wring_table_cell(table, "%s", collective->run_as);
        wring_table_cell(table, "%" PRIu32, collective->ranks);
        wring_table_cell(table, "%" PRIu32, collective->coder_cores);
        wring_table_cell(
            table, "%s",
            collective->chunk_bytes == 0
                ? "-"
                : wring_value_show_bytes(collective->chunk_bytes, bytes, sizeof(bytes)));
        put_us(table, &collective->solo.us, SMALL);
        put_us(table, &collective->solo.us, MIDDLE);
        put_us(table, &collective->solo.us, LARGE);
        put_us(table, &collective->busy.us, MIDDLE);
        put_us(table, &collective->busy.us, LARGE);
        put_us(table, &collective->cpu.us, LARGE);
        put_trust(table, &collective->solo.trust);
    }
    wring_table_finish(table, file);
}

static void show_copies(FILE *file, const struct wring_profile *profile)
{
    const struct wring_profile_trust *trust = &profile->copy_trust;

    fprintf(file, "  copies: %.1f GB/s of 16 KiB, %.1f GB/s of 16 MiB",
            16384 / wring_cost_at(&profile->copy_us, 16384) / 1e3,
            16777216 / wring_cost_at(&profile->copy_us, 16777216) / 1e3);
    if (trust->samples > 0)
        fprintf(file, "; off %.0f %%, spread %.0f %%, doubt %.0f %%, noisy %u of %u",
                trust->error * 100, trust->spread * 100, trust->doubt * 100, trust->noisy,
                trust->points);
    fputc('\n', file);
}

void wring_profile_show(FILE *file, const struct wring_profile *profile)
{
    fprintf(file, "%s, %016" PRIx64 ": %u node%s of %u rank%s\n", profile->name, profile->hash,
            profile->nodes, profile->nodes == 1 ? "" : "s", profile->ranks_per_node,
            profile->ranks_per_node == 1 ? "" : "s");
    if (profile->machine[0] != '\0')
        fprintf(file, "  %s\n", profile->machine);
    if (profile->source[0] != '\0')
        fprintf(file, "  %s\n", profile->source);
    if (profile->copy_us.n > 0)
        show_copies(file, profile);
    if (profile->errors.n_codecs > 0)
        fprintf(file, "  errors on gradients, after feedback: %u steps of %u tensors; %s\n",
                profile->errors.n_steps, profile->errors.n_tensors, profile->errors.source);
    if (profile->computing.present)
        fprintf(
            file,
            "  each gradient that wakes the application takes %.1f us of the processor, of which a "
            "rank has %.0f %%; collectives lose %.0f %% of their pace where it computes\n",
            profile->computing.wake_us,
            (profile->computing.core_share > 0 ? profile->computing.core_share : 1) * 100,
            profile->computing.spin_lost * 100);
    if (profile->computing.spin_codec[0] != '\0')
        fprintf(file, "  those with %s lose %.0f %% of it\n", profile->computing.spin_codec,
                profile->computing.spin_coded_lost * 100);
    fputc('\n', file);
    show_links(file, profile);
    if (profile->n_codecs > 0) {
        fputc('\n', file);
        show_codecs(file, profile);
    }
    if (has_any_traits(profile)) {
        fputc('\n', file);
        show_traits(file, profile);
    }
    if (has_coders(profile)) {
        fputc('\n', file);
        show_coders(file, profile);
    }
    if (profile->n_collectives > 0) {
        fputc('\n', file);
        show_collectives(file, profile);
    }
}

/* ---- picture ---- */

/* Up to four charts of a profile, one below the other: collectives, coding, encoding by cores and
 * kernels, and links. Each pair of codec and tuning has a colour. A pair's first curve is solid
 * and the others are dashed; in the third chart the dashes become shorter with each curve.
 */

#define TOP 20
#define HEIGHT 380
#define WHAT_BYTES 48
#define X_LOW 1024.0
#define X_HIGH 16777216.0
#define STEPS 56
#define LEAST_US 0.01 /* curves go no lower */

/** A chart while it is filled. */
struct chart {
    struct wring_svg_chart *svg;
    struct curve {
        const char *codec;
        char tuning[WHAT_BYTES];
    } curves[WRING_SVG_CURVES_MAX];
};

/** The colour of its pair of codec and tuning; dashed if the pair has a curve. */
static void choose_look(const struct chart *chart, struct wring_svg_curve *curve, uint32_t i)
{
    uint32_t before = 0; /* curves of the same pair */

    for (uint32_t j = 0; j < i; j++) {
        uint32_t colour = chart->svg->curves[j].colour;
        bool same = strcmp(chart->curves[j].codec, chart->curves[i].codec) == 0 &&
                    strcmp(chart->curves[j].tuning, chart->curves[i].tuning) == 0;
        before += same;
        if (same || before == 0)
            curve->colour = (colour + !same) % WRING_SVG_COLOURS;
    }
    curve->dash = before > 0 ? 5.0 / before : 0;
}

/** @param codec  borrowed */
static void add_curve(struct chart *chart, const struct wring_cost *cost, const char *codec,
                      const char *tuning, const char *what)
{
    uint32_t i = chart->svg->n;

    if (i == WRING_SVG_CURVES_MAX) {
        chart->svg->left_out++;
        return;
    }
    struct wring_svg_curve *curve = &chart->svg->curves[i];
    chart->curves[i].codec = codec;
    snprintf(chart->curves[i].tuning, WHAT_BYTES, "%s", tuning);
    snprintf(curve->name, sizeof(curve->name), "%s%s%s", codec, tuning, what);
    choose_look(chart, curve, i);
    for (int step = 0; step <= STEPS; step++) {
        double x = X_LOW * pow(X_HIGH / X_LOW, (double)step / STEPS);
        wring_svg_curve_add(curve, x, fmax(wring_cost_at(cost, x), LEAST_US));
    }
    chart->svg->n++;
}

/** Name the tuning that the collective was measured with, where it is not the default. */
static void name_tuning(const struct wring_measured_collective *collective, char *text,
                        size_t bytes)
{
    struct wring_tuning tuning = wring_profile_collective_tuning(collective);
    char pinned[24] = "", pieces[24] = "", size[32];

    if (tuning.cores > 0)
        snprintf(pinned, sizeof(pinned), ", %u pinned", tuning.cores);
    if (tuning.chunk_bytes != WRING_TUNING_CHUNK_BYTES)
        snprintf(pieces, sizeof(pieces), ", by %.12s",
                 wring_value_show_bytes(tuning.chunk_bytes, size, sizeof(size)));
    snprintf(text, bytes, "%s%s", pinned, pieces);
}

static void collect_collectives(const struct wring_profile *profile, struct chart *chart)
{
    char tuning[WHAT_BYTES];

    chart->svg->title = "whole collectives, alone (dashed: each of several at once)";
    for (uint32_t i = 0; i < profile->n_collectives; i++) {
        const struct wring_measured_collective *collective = &profile->collectives[i];
        if (strcmp(collective->run_as, "auto") != 0)
            continue;
        name_tuning(collective, tuning, sizeof(tuning));
        add_curve(chart, &collective->solo.us, collective->codec, tuning, "");
        add_curve(chart, &collective->busy.us, collective->codec, tuning, ", busy");
    }
}

static void collect_coding(const struct wring_profile *profile, struct chart *chart)
{
    chart->svg->title = "coding (dashed: decoding)";
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        for (int site = 0; site < WRING_SITES; site++) {
            const struct wring_profile_codec *codec = &profile->codecs[i];
            if (!codec->at[site].present)
                continue;
            add_curve(chart, &codec->at[site].encode_us, codec->spec, "", ", encode");
            add_curve(chart, &codec->at[site].decode_us, codec->spec, "", ", decode");
        }
}

/** Puts, and what a step takes beyond its latency; those of a pair are measured with allgathers. */
static void collect_links(const struct wring_profile *profile, struct chart *links)
{
    char what[WHAT_BYTES];

    links->svg->title =
        "puts of many under way (dashed: of one alone), and steps without their latency";
    links->svg->x_title = "bytes on the link";
    for (int level = 0; level < WRING_LEVELS; level++) {
        const struct wring_profile_link *link = &profile->links[level];
        const char *name = wring_level_name((enum wring_level)level);
        if (link->put.latency.us.n > 0) {
            add_curve(links, &link->put.each.us, name, ", put", "");
            add_curve(links, &link->put.latency.us, name, ", put", ", alone");
        }
        if (link->present)
            add_curve(links, &link->us, name, ", allgather", "");
        for (uint32_t i = 0; i < link->n_routines; i++) {
            snprintf(what, sizeof(what), ", %s", link->routines[i].name);
            add_curve(links, &link->routines[i].us, name, what, "");
        }
    }
}

/** Collect each codec's encoding curves, to compare cores and kernels. */
static void collect_coders(const struct wring_profile *profile, struct chart *coders)
{
    char what[WHAT_BYTES];

    coders->svg->title = "encoding by cores and kernels";
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        for (uint32_t j = 0; j < profile->codecs[i].n_coders; j++) {
            const struct wring_profile_coder *coder = &profile->codecs[i].coders[j];
            if (coder->cores > 0)
                snprintf(what, sizeof(what), ", %u pinned, %s", coder->cores, coder->tier);
            else
                snprintf(what, sizeof(what), ", inline, %s", coder->tier);
            add_curve(coders, &coder->encode.us, profile->codecs[i].spec, "", what);
        }
}

static void (*const collects[])(const struct wring_profile *profile, struct chart *chart) = {
    collect_collectives,
    collect_coding,
    collect_coders,
    collect_links,
};

#define CHARTS (sizeof(collects) / sizeof(collects[0]))

static void fill_chart(const struct wring_profile *profile, size_t i, struct wring_svg_chart *svg)
{
    struct chart chart = {.svg = svg};

    *svg = (struct wring_svg_chart){
        .x_title = "float32 elements",
        .height = HEIGHT,
        .x = {.low = X_LOW, .high = X_HIGH, .base = 4, .binary = true},
        .y = {.low = NAN, .high = NAN, .base = 10, .unit = " us"},
    };
    collects[i](profile, &chart);
}

static bool draw_profile(FILE *file, void *arg)
{
    const struct wring_profile *profile = arg;
    struct wring_svg_chart *chart = malloc(sizeof(*chart));
    double shown = 0, top = TOP;

    if (chart == NULL)
        return false;
    for (size_t i = 0; i < CHARTS; i++) {
        fill_chart(profile, i, chart);
        shown += chart->n > 0;
    }
    wring_svg_begin_file(file, WRING_SVG_CHART_WIDTH, TOP + shown * (HEIGHT + WRING_SVG_CHART_ROOM),
                         profile->name);
    for (size_t i = 0; i < CHARTS; i++) {
        fill_chart(profile, i, chart);
        if (chart->n == 0)
            continue;
        wring_svg_chart_put(file, chart, top);
        top += HEIGHT + WRING_SVG_CHART_ROOM;
    }
    wring_svg_end(file);
    free(chart);
    return ferror(file) == 0;
}

static void say_log_line(void *arg, enum wring_log_level level, const char *module,
                         const char *text)
{
    (void)level;
    (void)module;
    wring_fail(arg, "%s", text);
}

int wring_profile_info(const char *name, const char *path, const char *svg, int json)
{
    struct wring_log log = {say_log_line, (char *)(uintptr_t)name, WRING_LOG_WARN};
    struct wring_profile *profile;
    int code = WRING_EXIT_OK;

    if (wring_profile_load(path, &log, &profile) != WRING_OK)
        return WRING_EXIT_FAILURE; /* which was said */
    if (svg != NULL)
        code = wring_output_file(name, svg, draw_profile, profile);
    if (code == WRING_EXIT_OK && json)
        code =
            wring_profile_save(profile, stdout) == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
    else if (code == WRING_EXIT_OK)
        wring_profile_show(stdout, profile);
    wring_profile_destroy(profile);
    return code;
}
