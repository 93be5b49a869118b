/* SPDX-License-Identifier: Apache-2.0 */
/* Up to four charts of a profile, one below the other: exchanges, coding, encoding by cores and
 * kernels, and links. Each pair of codec and tuning has a colour. A pair's first curve is solid
 * and the others are dashed; in the third chart the dashes become shorter with each curve.
 */
#include <math.h>
#include <string.h>

#include "base/xml.h"
#include "tools/calibrate/calibrate.h"
#include "tools/values.h"

#define WIDTH 960
#define LEFT 80
#define PLOT 560 /* the rest is names */
#define TOP 60
#define HEIGHT 380
#define GAP 90
#define CURVES_MAX 20 /* as many names as fit beside a chart */
#define CHARTS 4
#define WHAT_BYTES 48
#define X_LOW 1024.0
#define X_HIGH 16777216.0
#define STEPS 56

static const char style[] =
    "<style>:root{--fg:#1c2733;--dim:#5b6b7b;--line:#dde3ea;--bg:#fff}"
    "@media(prefers-color-scheme:dark){:root{--fg:#e2e8ef;--dim:#93a1b0;--line:#2a3542;"
    "--bg:#0f151c}}text{fill:var(--fg)}.dim{fill:var(--dim);font-size:11px}"
    ".grid{stroke:var(--line)}polyline{fill:none;stroke-width:2}</style>\n";
static const char *const colours[] = {"#1f6feb", "#8250df", "#0a7d6c", "#bf8700", "#cf222e",
                                      "#57606a", "#3fa0d8", "#d070c8", "#5ba03a", "#e07b39"};
#define COLOURS (sizeof(colours) / sizeof(colours[0]))

struct curve {
    const struct wring_cost *cost;
    const char *codec;
    char tuning[WHAT_BYTES], what[WHAT_BYTES];
    uint32_t colour, before; /* curves of the same codec and tuning */
};

struct chart {
    const char *title, *by; /* what runs to the right */
    struct curve curves[CURVES_MAX];
    uint32_t n, left_out;
    double low, high; /* powers of ten */
};

/** @param cost  borrowed, as is the codec */
static void add(struct chart *chart, const struct wring_cost *cost, const char *codec,
                const char *tuning, const char *what)
{
    struct curve curve = {.cost = cost, .codec = codec};

    if (chart->n == CURVES_MAX) {
        chart->left_out++;
        return;
    }
    snprintf(curve.tuning, sizeof(curve.tuning), "%s", tuning);
    snprintf(curve.what, sizeof(curve.what), "%s", what);
    for (uint32_t i = 0; i < chart->n; i++) {
        const struct curve *before = &chart->curves[i];
        bool same = strcmp(before->codec, codec) == 0 && strcmp(before->tuning, tuning) == 0;
        curve.before += same;
        if (same)
            curve.colour = before->colour;
        else if (curve.before == 0)
            curve.colour = (before->colour + 1) % COLOURS;
    }
    chart->curves[chart->n++] = curve;
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

static void collect(const struct wring_profile *profile, struct chart *collectives,
                    struct chart *coding)
{
    char tuning[WHAT_BYTES];

    collectives->title = "whole exchanges, alone (dashed: each of several at once)";
    coding->title = "coding (dashed: decoding)";
    for (uint32_t i = 0; i < profile->n_collectives; i++)
        if (strcmp(profile->collectives[i].run_as, "auto") == 0) {
            name_tuning(&profile->collectives[i], tuning, sizeof(tuning));
            add(collectives, &profile->collectives[i].solo.us, profile->collectives[i].codec,
                tuning, "");
            add(collectives, &profile->collectives[i].busy.us, profile->collectives[i].codec,
                tuning, ", busy");
        }
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        for (int place = 0; place < WRING_PLACES; place++) {
            const struct wring_profile_codec *codec = &profile->codecs[i];
            if (!codec->at[place].present)
                continue;
            add(coding, &codec->at[place].encode_us, codec->spec, "", ", encode");
            add(coding, &codec->at[place].decode_us, codec->spec, "", ", decode");
        }
}

/** Puts, and what a step takes beyond its latency; those of a pair are measured with allgathers. */
static void collect_links(const struct wring_profile *profile, struct chart *links)
{
    char what[WHAT_BYTES];

    links->title = "puts of many under way (dashed: of one alone), and steps without their latency";
    links->by = "bytes on the link";
    for (int level = 0; level < WRING_LEVELS; level++) {
        const struct wring_profile_link *link = &profile->links[level];
        const char *name = wring_level_name((enum wring_level)level);
        if (link->put.latency.us.n > 0) {
            add(links, &link->put.each.us, name, ", put", "");
            add(links, &link->put.latency.us, name, ", put", ", alone");
        }
        if (link->present)
            add(links, &link->us, name, ", allgather", "");
        for (uint32_t i = 0; i < link->n_routines; i++) {
            snprintf(what, sizeof(what), ", %s", link->routines[i].name);
            add(links, &link->routines[i].us, name, what, "");
        }
    }
}

/** Collect each codec's encoding curves, to compare cores and kernels. */
static void collect_coders(const struct wring_profile *profile, struct chart *coders)
{
    char what[WHAT_BYTES];

    coders->title = "encoding by cores and kernels";
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        for (uint32_t j = 0; j < profile->codecs[i].n_coders; j++) {
            const struct wring_profile_coder *coder = &profile->codecs[i].coders[j];
            if (coder->cores > 0)
                snprintf(what, sizeof(what), ", %u pinned, %s", coder->cores, coder->tier);
            else
                snprintf(what, sizeof(what), ", inline, %s", coder->tier);
            add(coders, &coder->encode.us, profile->codecs[i].spec, "", what);
        }
}

static double x_at(int step)
{
    return X_LOW * pow(X_HIGH / X_LOW, (double)step / STEPS);
}

static void find_range(struct chart *chart)
{
    chart->low = 5;
    chart->high = 0;
    for (uint32_t i = 0; i < chart->n; i++)
        for (int step = 0; step <= STEPS; step++) {
            double y = wring_cost_at(chart->curves[i].cost, x_at(step));
            if (y > 0) {
                chart->low = fmin(chart->low, fmax(floor(log10(y)), -2));
                chart->high = fmax(chart->high, ceil(log10(y)));
            }
        }
}

static double place_y(const struct chart *chart, double top, double us)
{
    double share = (log10(fmax(us, 1e-9)) - chart->low) / (chart->high - chart->low);
    return top + HEIGHT * (1 - fmin(fmax(share, 0), 1));
}

static void put_axes(FILE *file, const struct chart *chart, double top)
{
    static const char *const names[] = {"1k", "4k", "16k", "64k", "256k", "1m", "4m", "16m"};

    fprintf(file, "<text x=\"%d\" y=\"%.0f\" font-weight=\"600\">%s</text>\n", LEFT, top - 14,
            chart->title);
    for (double power = chart->low; power <= chart->high; power++) {
        double y = place_y(chart, top, pow(10, power));
        fprintf(file,
                "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text "
                "class=\"dim\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g us</text>\n",
                LEFT, LEFT + PLOT, y, y, LEFT - 8, y + 4, pow(10, power));
    }
    for (int i = 0; i < 8; i++)
        fprintf(file,
                "<text class=\"dim\" x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n",
                LEFT + PLOT * i / 7.0, top + HEIGHT + 18, names[i]);
    fprintf(file, "<text class=\"dim\" x=\"%d\" y=\"%.0f\">%s</text>\n", LEFT + PLOT + 30,
            top + HEIGHT + 18, chart->by != NULL ? chart->by : "float32 elements");
}

static void put_curve(FILE *file, const struct chart *chart, uint32_t i, double top)
{
    const struct curve *curve = &chart->curves[i];
    char dash[40] = "";
    double at = top + 8 + 17 * i;

    if (curve->before > 0)
        snprintf(dash, sizeof(dash), " stroke-dasharray=\"%g 4\"", 5.0 / curve->before);
    fprintf(file, "<polyline stroke=\"%s\"%s points=\"", colours[curve->colour], dash);
    for (int step = 0; step <= STEPS; step++)
        fprintf(file, "%.1f,%.1f ", LEFT + PLOT * (double)step / STEPS,
                place_y(chart, top, wring_cost_at(curve->cost, x_at(step))));
    fprintf(file,
            "\"/>\n<line stroke=\"%s\"%s stroke-width=\"2\" x1=\"%d\" x2=\"%d\" y1=\"%.0f\" "
            "y2=\"%.0f\"/><text class=\"dim\" x=\"%d\" y=\"%.0f\">",
            colours[curve->colour], dash, LEFT + PLOT + 16, LEFT + PLOT + 38, at, at,
            LEFT + PLOT + 46, at + 4);
    wring_xml_put(file, curve->codec);
    fprintf(file, "%s%s</text>\n", curve->tuning, curve->what);
}

static void put_chart(FILE *file, struct chart *chart, double top)
{
    find_range(chart);
    put_axes(file, chart, top);
    for (uint32_t i = 0; i < chart->n; i++)
        put_curve(file, chart, i, top);
    if (chart->left_out > 0)
        fprintf(file,
                "<text class=\"dim\" x=\"%d\" y=\"%.0f\">%u more are in the file only</text>\n",
                LEFT, top + HEIGHT + 40, chart->left_out);
}

enum wring_status wring_profile_write_svg(const struct wring_profile *profile, FILE *file)
{
    struct chart charts[CHARTS] = {0};
    int shown = 0;
    double top = TOP;

    collect(profile, &charts[0], &charts[1]);
    collect_coders(profile, &charts[2]);
    collect_links(profile, &charts[3]);
    for (int i = 0; i < CHARTS; i++)
        shown += charts[i].n > 0;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"system-ui,sans-serif\" font-size=\"13\">\n%s"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"var(--bg)\"/>\n",
            WIDTH, TOP + shown * (HEIGHT + GAP), style);
    for (int i = 0; i < CHARTS; i++)
        if (charts[i].n > 0) {
            put_chart(file, &charts[i], top);
            top += HEIGHT + GAP;
        }
    fputs("</svg>\n", file);
    return ferror(file) ? WRING_ERR_SYSTEM : WRING_OK;
}
