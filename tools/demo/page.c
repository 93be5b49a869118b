/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/page.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "planner/tool/svg.h"
#include "tools/commands.h"
#include "tools/demo/charts.h"
#include "tools/demo/judge.h"
#include "tools/demo/task.h"
#include "tools/output.h"

#define MARK_BYTES 128
#define MINUS "\u2212"

struct page {
    const struct demo_results *results;
    const struct demo_judgement *judgement;
    const char *picture;    /* its name, beside the page */
    const char *head, *end; /* of the file as it was: what stands before the part, and after it */
    size_t head_bytes;
    bool added; /* to a page that had no such part */
    char begin_mark[MARK_BYTES], end_mark[MARK_BYTES];
};

static bool is_timed(const struct demo_results *results)
{
    return results->n > 0 && results->measures[0].step_us > 0;
}

/** A number with a sign of its own: nothing is less than zero that is written as zero. */
static void put_signed(FILE *file, double value, const char *format)
{
    char text[32];

    snprintf(text, sizeof(text), format, value);
    if (text[0] != '-')
        fprintf(file, " %s", text);
    else if (text[1 + strspn(text + 1, "0.")] == '\0')
        fprintf(file, " +%s", text + 1);
    else
        fprintf(file, " %s%s", MINUS, text + 1);
}

static void put_number(FILE *file, double value, const char *format)
{
    if (!isfinite(value)) {
        fputs(" - |", file);
        return;
    }
    put_signed(file, value, format);
    fputs(" |", file);
}

static void put_spread(FILE *file, const struct demo_spread *spread, uint32_t seeds,
                       const char *format)
{
    if (!isfinite(spread->mean)) {
        fputs(" - |", file);
        return;
    }
    put_signed(file, spread->mean, format);
    if (seeds > 1)
        fprintf(file, " ± %.4f", spread->deviation);
    fputs(" |", file);
}

static void put_head(FILE *file, const struct page *page)
{
    bool timed = is_timed(page->results);

    fputs("| codec | rate | loss | to fp32 | to bf16 | wire kB a step |", file);
    if (timed)
        fputs(" step ms | cores |", file);
    for (int t = 0; t < DEMO_TARGETS; t++)
        if (isfinite(page->judgement->targets[t]))
            fprintf(file, " %s to %.3f |", timed ? "s" : "steps", page->judgement->targets[t]);
        else
            fputs(" no target |", file);
    fputs("\n|---|---|---|---|---|---|", file);
    for (int i = 0; i < DEMO_TARGETS + (timed ? 2 : 0); i++)
        fputs("---|", file);
    fputs("\n", file);
}

/** Bytes of the whole run and of the steps after a warm-up; else those on the link, which count
 *  what is uncompressed, too. */
static void put_wire(FILE *file, const struct page *page, const struct demo_measure *m)
{
    double late = m->trainings[0].late_wire_bytes, all = m->trainings[0].wire_bytes;

    if (demo_judge_warms_up(page->results, m))
        fprintf(file, " %.2f, after warm-up %.2f |", all / 1e3, late / 1e3);
    else
        fprintf(file, " %.2f |", (is_timed(page->results) ? m->wire_bytes : all) / 1e3);
}

static void put_row(FILE *file, const struct page *page, uint32_t i)
{
    const struct demo_results *results = page->results;
    const struct demo_measure *m = &results->measures[i];
    const struct demo_verdict *verdict = &page->judgement->verdicts[i];
    uint32_t seeds = results->options->seeds;

    fprintf(file, "| `%s`", m->config->name);
    if (strcmp(m->config->name, m->config->codec) != 0)
        fprintf(file, ", `%s`", m->config->codec);
    fprintf(file, " | %.3g |", m->rate);
    put_spread(file, &verdict->loss, seeds, "%.4f");
    put_spread(file, &verdict->to_fp32, seeds, "%+.4f");
    put_spread(file, &verdict->to_bf16, seeds, "%+.4f");
    put_wire(file, page, m);
    if (is_timed(results)) {
        put_number(file, m->step_us / 1e3, "%.2f");
        put_number(file, m->cores, "%.2f");
    }
    for (int t = 0; t < DEMO_TARGETS; t++)
        put_number(file, is_timed(results) ? verdict->time_to_s[t] : verdict->steps_to[t],
                   is_timed(results) ? "%.1f" : "%.0f");
    fputs("\n", file);
}

static void put_bytes_row(FILE *file, const struct page *page, const struct demo_measure *m,
                          bool late)
{
    const struct demo_results *results = page->results;
    struct demo_bytes bytes = demo_judge_bytes(results, m, late);

    if (late)
        fprintf(file, "| | %u after warm-up |", results->options->steps - m->warmup);
    else
        fprintf(file, "| `%s` | all %u |", m->config->name, results->options->steps);
    put_number(file, bytes.wire / 1e3, "%.2f");
    put_number(file, bytes.coded / 1e3, "%.2f");
    put_number(file, bytes.fewer, "%.1f");
    put_number(file, bytes.a_value, "%.4f");
    fputs("\n", file);
}

/** A table of codecs that warm up: a whole run's bytes, and those after it. */
static void put_warmed(FILE *file, const struct page *page)
{
    const struct demo_results *results = page->results;
    uint32_t rows = 0;

    for (uint32_t i = 0; i < results->n; i++) {
        const struct demo_measure *m = &results->measures[i];
        if (!demo_judge_warms_up(results, m))
            continue;
        if (rows++ == 0)
            fputs(
                "\n| codec | steps | wire kB a step | compressed kB | times fewer than fp16 of the "
                "same values | bits a value each way |\n|---|---|---|---|---|---|\n",
                file);
        put_bytes_row(file, page, m, false);
        put_bytes_row(file, page, m, true);
    }
}

/** Whether the table tells codecs apart, and why. */
static void put_resolution(FILE *file, const struct page *page)
{
    const struct demo_judgement *j = page->judgement;

    if (isfinite(j->fp32_range) && isfinite(j->control_loses))
        fprintf(file,
                "**%s.** fp32's seeds lie %.4f apart, and the negative control `%s` loses %.4f.\n",
                j->resolved ? "Resolved" : "Not resolved", j->fp32_range, DEMO_CONTROL,
                j->control_loses);
    else
        fputs("**Not resolved.** That needs fp32 and the negative control, each with two seeds or "
              "more.\n",
              file);
}

static void put_part(FILE *file, const struct page *page)
{
    const struct demo_results *results = page->results;
    const struct demo_options *o = results->options;

    fprintf(file,
            "Task %s: %s of %.2f M parameters.\n%u ranks with %u samples each make %u steps of %s, "
            "for %u seed%s from %llu on.\nData: %s.\nLoss is held out, in %s.",
            o->task->name, o->task->what, (double)results->parameters / 1e6, o->ranks, o->batch,
            o->steps, o->optimizer_text, o->seeds, o->seeds > 1 ? "s" : "",
            (unsigned long long)o->seed, results->data, o->task->loss_unit);
    if (is_timed(results))
        fprintf(file, " Times are those of an emulated link of %s each way.", o->link);
    fputs("\n\n", file);
    put_resolution(file, page);
    fputs("\n", file);
    put_head(file, page);
    for (uint32_t i = 0; i < results->n; i++)
        put_row(file, page, i);
    put_warmed(file, page);
    fprintf(file, "\n![Held-out loss of each codec](%s)\n", page->picture);
}

static bool write_page(FILE *file, void *arg)
{
    const struct page *page = arg;

    fwrite(page->head, 1, page->head_bytes, file);
    fprintf(file, "%s%s\n", page->added && page->head_bytes > 0 ? "\n" : "", page->begin_mark);
    put_part(file, page);
    fprintf(file, "%s\n", page->end_mark);
    fputs(page->end, file);
    return ferror(file) == 0;
}

static bool write_picture(FILE *file, void *arg)
{
    const struct page *page = arg;
    const struct demo_results *results = page->results;
    bool timed = is_timed(results);
    char title[DEMO_CHARTS_TITLE_BYTES];

    demo_charts_title(title, sizeof(title), results, timed);
    wring_svg_begin_file(file, WRING_SVG_CHART_WIDTH, demo_charts_height(results), title);
    bool well = demo_charts_put(file, results, page->judgement, timed, title);
    wring_svg_end(file);
    return well && ferror(file) == 0;
}

/** Read a page to keep what others wrote there. @param text out, empty without a file; the caller
 *  frees it @return false with errno */
static bool read_page(const char *path, char **text)
{
    struct stat there;
    size_t bytes = stat(path, &there) == 0 && S_ISREG(there.st_mode) ? (size_t)there.st_size : 0;
    FILE *file = bytes > 0 ? fopen(path, "re") : NULL;
    bool well = bytes == 0 || file != NULL;

    *text = well ? malloc(bytes + 1) : NULL;
    if (*text != NULL)
        (*text)[file != NULL ? fread(*text, 1, bytes, file) : 0] = '\0';
    well = *text != NULL && (file == NULL || ferror(file) == 0);
    if (file != NULL)
        fclose(file);
    if (!well)
        free(*text);
    return well;
}

/** Where the part is, which may be nowhere: then it comes last. @return false where its end is
 *  missing */
static bool find_part(struct page *page, const struct demo_options *o, const char *text)
{
    snprintf(page->begin_mark, sizeof(page->begin_mark),
             "<!-- begin: wring demo --task %s --optimizer %s -->", o->task->name,
             o->optimizer_text);
    snprintf(page->end_mark, sizeof(page->end_mark),
             "<!-- end: wring demo --task %s --optimizer %s -->", o->task->name, o->optimizer_text);
    const char *begin = strstr(text, page->begin_mark);
    const char *end = begin != NULL ? strstr(begin, page->end_mark) : NULL;
    page->added = begin == NULL;
    page->head = text;
    page->head_bytes = begin != NULL ? (size_t)(begin - text) : strlen(text);
    page->end = end != NULL ? end + strlen(page->end_mark) : "";
    page->end += page->end[0] == '\n';
    return begin == NULL || end != NULL;
}

/** The page's name, the task's and the optimizer's: a page has several pictures.
 *  @return NULL without memory; the caller frees it */
static char *name_picture(const struct demo_options *o, const char *path)
{
    char *name = NULL;
    int stem = (int)(strlen(path) - strlen(".md"));

    if (asprintf(&name, "%.*s-%s-%s.svg", stem, path, o->task->name, o->optimizer_text) < 0)
        return NULL;
    for (char *at = name + stem; *at != '\0'; at++)
        if (*at == ':' || *at == '=')
            *at = '-';
    return name;
}

static bool write_both(struct page *page, const char *path, const char *picture)
{
    static struct demo_judgement judgement;
    const char *slash = strrchr(picture, '/');

    demo_judge(page->results, &judgement);
    page->judgement = &judgement;
    page->picture = slash != NULL ? slash + 1 : picture;
    return wring_output_file("wring demo", path, write_page, page) == WRING_EXIT_OK &&
           wring_output_file("wring demo", picture, write_picture, page) == WRING_EXIT_OK;
}

static bool check_both(struct page *page, const char *path, const char *picture)
{
    (void)page;
    return wring_output_check("wring demo", path) == WRING_EXIT_OK &&
           wring_output_check("wring demo", picture) == WRING_EXIT_OK;
}

/** Find the page's part and the picture's name, and go on with both. */
static bool with_page(struct page *page, const struct demo_options *options, const char *path,
                      bool (*go_on)(struct page *page, const char *path, const char *picture))
{
    char *text, *picture = name_picture(options, path);
    bool well = false;

    if (picture == NULL) {
        wring_fail("wring demo", "out of memory");
    } else if (!read_page(path, &text)) {
        wring_fail("wring demo", "%s: %s", path, strerror(errno));
    } else {
        if (find_part(page, options, text))
            well = go_on(page, path, picture);
        else
            wring_fail("wring demo", "%s: the line %s is missing", path, page->end_mark);
        free(text);
    }
    free(picture);
    return well;
}

bool demo_page_check(const struct demo_options *options, const char *path)
{
    struct page page = {0};

    return with_page(&page, options, path, check_both);
}

bool demo_page_write(const struct demo_results *results, const char *path)
{
    struct page page = {.results = results};

    return with_page(&page, results->options, path, write_both);
}
