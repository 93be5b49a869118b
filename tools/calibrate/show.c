/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

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
        {"adding 4m us", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, 11);

    for (uint32_t i = 0; i < profile->n_codecs; i++)
        for (int place = 0; place < WRING_PLACES; place++) {
            const struct wring_profile_codec *codec = &profile->codecs[i];
            const struct wring_profile_coding *coding = &codec->at[place];
            if (!coding->present)
                continue;
            wring_table_cell(table, "%s", codec->spec);
            wring_table_cell(table, "%s", wring_place_name((enum wring_place)place));
            wring_table_cell(table, "%.3f", wring_cost_at(&codec->wire_bytes, LARGE) / LARGE);
            put_error(table, codec->nmse);
            put_error(table, wring_profile_error(profile, codec->spec, NULL));
            put_coding(table, &coding->encode_us, &coding->decode_us, &coding->decode_add_us,
                       MIDDLE);
            put_coding(table, &coding->encode_us, &coding->decode_us, &coding->decode_add_us,
                       LARGE);
        }
    wring_table_finish(table, file);
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
        {"exchange", WRING_ALIGN_LEFT},  {"as", WRING_ALIGN_LEFT},
        {"ranks", WRING_ALIGN_RIGHT},    {"pinned", WRING_ALIGN_RIGHT},
        {"pieces", WRING_ALIGN_RIGHT},   {"1k us", WRING_ALIGN_RIGHT},
        {"64k us", WRING_ALIGN_RIGHT},   {"4m us", WRING_ALIGN_RIGHT},
        {"busy 64k", WRING_ALIGN_RIGHT}, {"busy 4m", WRING_ALIGN_RIGHT},
        {"cpu 4m", WRING_ALIGN_RIGHT},   {"off", WRING_ALIGN_RIGHT},
        {"spread", WRING_ALIGN_RIGHT},   {"doubt", WRING_ALIGN_RIGHT},
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
            "rank has %.0f %%; exchanges lose %.0f %% of their pace where it computes\n",
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
    if (has_coders(profile)) {
        fputc('\n', file);
        show_coders(file, profile);
    }
    if (profile->n_collectives > 0) {
        fputc('\n', file);
        show_collectives(file, profile);
    }
}

static void say(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)level;
    (void)module;
    wring_fail(arg, "%s", text);
}

static bool draw(FILE *file, void *arg)
{
    return wring_profile_write_svg(arg, file) == WRING_OK;
}

int wring_profile_info(const char *name, const char *path, const char *svg, int json)
{
    struct wring_log log = {say, (char *)(uintptr_t)name, WRING_LOG_WARN};
    struct wring_profile *profile;
    int code = WRING_EXIT_OK;

    if (wring_profile_load(path, &log, &profile) != WRING_OK)
        return WRING_EXIT_FAILURE; /* which was said */
    if (svg != NULL)
        code = wring_output_file(name, svg, draw, profile);
    if (code == WRING_EXIT_OK && json)
        code =
            wring_profile_save(profile, stdout) == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
    else if (code == WRING_EXIT_OK)
        wring_profile_show(stdout, profile);
    wring_profile_destroy(profile);
    return code;
}
