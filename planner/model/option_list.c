/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/model/option_list.h"

/** One of the two parts of the tree. */
static size_t count(const struct wring_options_params *params, bool flat)
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
            count(params, true), count(params, false));
    return fflush(file) == 0 && !ferror(file) ? WRING_OK : WRING_ERR_SYSTEM;
}

/* ---- as JSON ---- */

static json_t *step_json(const struct wring_step *step)
{
    if (step->kind != WRING_STEP_COMM)
        return json_pack("{s:s, s:s}", "step", wring_step_kind_name(step->kind), "place",
                         wring_place_name(step->place));
    return json_pack("{s:s, s:s, s:s, s:b}", "step", wring_step_kind_name(step->kind), "phase",
                     wring_phase_name(step->phase), "routine", wring_routine_name(step->routine),
                     "coded", step->coded);
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
        list = json_pack("{s:I, s:I, s:I, s:O}", "flat", (json_int_t)count(params, true),
                         "hierarchical", (json_int_t)count(params, false), "leaves",
                         (json_int_t)leaves, "options", listing.options);
    json_decref(listing.options);
    if (list == NULL)
        return WRING_ERR_NO_MEMORY;
    *out = list;
    return WRING_OK;
}
