/* SPDX-License-Identifier: Apache-2.0 */
/** Charts: marks are turn, curves stay in the plot, names apart, and texts of others harmless. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/tool/svg.h"
#include "tests/lib/test.h"

/** What is drawn of a chart; freed by the caller. */
static char *drawn(const struct wring_svg_chart *chart)
{
    struct {
        char *text;
        size_t bytes;
    } out = {0};
    FILE *file = open_memstream(&out.text, &out.bytes);

    wring_svg_chart_put(file, chart, 0);
    fclose(file);
    return out.text;
}

static struct wring_svg_chart *new_chart(void)
{
    struct wring_svg_chart *chart = calloc(1, sizeof(*chart));

    if (chart == NULL)
        abort();
    chart->title = "title";
    chart->x_title = "x";
    chart->height = 200;
    chart->y.low = chart->y.high = NAN;
    return chart;
}

static void texts_are_escaped(void)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    wring_svg_begin_file(file, 10, 10, "a \"name\"");
    wring_svg_text(file, "small", 1, 2, "%s", "<b> & \"c\"\n");
    wring_svg_group_begin(file);
    wring_svg_group_end(file, "%s", "</title>");
    wring_svg_end(file);
    fclose(file);
    CHECK(strstr(text, "aria-label=\"a &quot;name&quot;\"") != NULL, "%s", text);
    CHECK(strstr(text, ">&lt;b&gt; &amp; &quot;c&quot; </text>") != NULL, "%s", text);
    CHECK(strstr(text, "<title>&lt;/title&gt;</title>") != NULL, "%s", text);
    free(text);
}

/** A file names its language; a page, which needs nothing else, has no address in it. */
static void only_files_name_their_language(void)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    wring_svg_begin(file, 10, 10, "name");
    fflush(file);
    CHECK(strstr(text, "http") == NULL, "%s", text);
    wring_svg_begin_file(file, 10, 10, "name");
    fclose(file);
    CHECK(strstr(text, "xmlns=\"http://www.w3.org/2000/svg\"") != NULL, "%s", text);
    free(text);
}

static void values_have_their_positions(void)
{
    struct wring_svg_axis even = {.low = 10, .high = 30, .from = 100, .to = 300};
    struct wring_svg_axis powers = {.low = 1, .high = 1000, .from = 300, .to = 0, .base = 10};
    struct wring_svg_axis point = {.low = 5, .high = 5, .from = 0, .to = 100};

    CHECK(fabs(wring_svg_position(&even, 15) - 150) < 1e-9, "%g", wring_svg_position(&even, 15));
    CHECK(wring_svg_position(&even, 9) == 100 && wring_svg_position(&even, 99) == 300,
          "not kept inside");
    CHECK(fabs(wring_svg_position(&powers, 10) - 200) < 1e-9, "%g",
          wring_svg_position(&powers, 10));
    CHECK(wring_svg_position(&powers, 0) == 300, "a logarithm of 0 is at %g",
          wring_svg_position(&powers, 0));
    CHECK(wring_svg_position(&point, 5) == 50, "a single value is at %g",
          wring_svg_position(&point, 5));
}

static void marks_are_round(void)
{
    struct wring_svg_chart *chart = new_chart();

    chart->y.unit = " us";
    chart->x = (struct wring_svg_axis){.low = 1024, .high = 0x1p21, .base = 2, .binary = true};
    chart->n = 1;
    wring_svg_curve_add(&chart->curves[0], 1024, 0.13);
    wring_svg_curve_add(&chart->curves[0], 0x1p21, 0.57);
    char *text = drawn(chart);
    for (const char *const *mark = (const char *const[]){">0.1 us<", ">0.3 us<", ">0.6 us<", ">1k<",
                                                         ">512k<", ">1m<", ">2m<", NULL};
         *mark != NULL; mark++)
        CHECK(strstr(text, *mark) != NULL, "no mark %s in %s", *mark, text);
    CHECK(strstr(text, ">0 us<") == NULL && strstr(text, ">0.7 us<") == NULL, "%s", text);
    free(text);
    chart->y = (struct wring_svg_axis){.low = 0, .high = 1};
    text = drawn(chart);
    CHECK(strstr(text, ">0<") != NULL && strstr(text, ">1<") != NULL, "%s", text);
    CHECK(strstr(text, ">-0<") == NULL, "%s", text);
    free(text);
    free(chart);
}

/** Curves that end at one point: their names do not stand on each other, nor below the plot. */
static void names_are_apart(void)
{
    struct wring_svg_chart *chart = new_chart();
    double at[8], x;
    uint32_t n = 0;

    chart->n = 8;
    for (uint32_t i = 0; i < chart->n; i++) {
        snprintf(chart->curves[i].name, WRING_SVG_NAME_BYTES, "curve %u", i);
        wring_svg_curve_add(&chart->curves[i], 0, i);
        wring_svg_curve_add(&chart->curves[i], 1, i < 6 ? 0 : 7);
    }
    char *text = drawn(chart);
    for (const char *next = text; (next = strstr(next, "\"legend\"")) != NULL; next++)
        if (n < 8 && sscanf(next, "\"legend\" x=\"%lg\" y=\"%lg\"", &x, &at[n]) == 2)
            n++;
    CHECK(n == 8, "%u names in %s", n, text);
    for (uint32_t i = 1; i < n; i++)
        CHECK(at[i] - at[i - 1] >= 16, "names at %g and %g", at[i - 1], at[i]);
    CHECK(n == 8 && at[7] <= 34 + 200 + 5, "a name at %g", at[7]);
    free(text);
    free(chart);
}

/** Of the first curve. */
static uint32_t count_points(const char *text)
{
    uint32_t n = 0;

    for (const char *at = strstr(text, "points="); at != NULL && *at != '>'; at++)
        n += *at == ',';
    return n;
}

static void what_is_no_point_is_left_out(void)
{
    struct wring_svg_chart *chart = new_chart();
    struct wring_svg_curve *curve = &chart->curves[0];

    chart->n = 2; /* the second one has no points, and no name */
    chart->left_out = 3;
    wring_svg_curve_add(curve, 1, 5);
    wring_svg_curve_add(curve, 1, 6);
    wring_svg_curve_add(curve, NAN, 6);
    wring_svg_curve_add(curve, 2, INFINITY);
    char *text = drawn(chart);
    CHECK(curve->n == 1 && strstr(text, "<circle") != NULL, "one point is no dot: %s", text);
    CHECK(strstr(text, "3 more curves are not drawn") != NULL, "%s", text);
    CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL, "%s", text);
    free(text);
    for (uint32_t i = 2; i < 100; i++)
        wring_svg_curve_add(curve, i, 5.0 / i);
    CHECK(curve->n == WRING_SVG_POINTS_MAX, "%u points", curve->n);
    chart->y_cut = 1;
    text = drawn(chart);
    CHECK(count_points(text) == WRING_SVG_POINTS_MAX - 4, "%u points up to the cut",
          count_points(text));
    free(text);
    chart->y_cut = 0.01; /* below all */
    text = drawn(chart);
    CHECK(count_points(text) == WRING_SVG_POINTS_MAX, "%u points", count_points(text));
    free(text);
    free(chart);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"texts_are_escaped", texts_are_escaped},
        {"only_files_name_their_language", only_files_name_their_language},
        {"values_have_their_positions", values_have_their_positions},
        {"marks_are_round", marks_are_round},
        {"names_are_apart", names_are_apart},
        {"what_is_no_point_is_left_out", what_is_no_point_is_left_out},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
