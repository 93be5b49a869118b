/* SPDX-License-Identifier: Apache-2.0 */
/** What `wring bench allreduce` prints of a case: an object in JSON, a row in a table. */
#include <math.h>
#include <string.h>

#include "tools/bench/bench_allreduce.h"
#include "tools/table.h"
#include "tools/values.h"

static double algbw_gb_per_s(const struct wring_allreduce_result *result)
{
    return (double)result->bytes / result->time_us.median / 1e3;
}

static double busbw_gb_per_s(const struct wring_allreduce_result *result, uint32_t ranks)
{
    return algbw_gb_per_s(result) * 2 * (ranks - 1) / ranks;
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/** What the buckets' stats add. */
static void add_stats(json_t *object, uint32_t ranks, const struct wring_allreduce_result *result)
{
    json_t *cores = json_array();
    for (uint32_t rank = 0; rank < ranks; rank++)
        json_array_append_new(cores, json_string(result->cores[rank]));
    json_object_set_new(object, "scheme", json_string(result->scheme));
    json_object_set_new(object, "ran", json_string(result->ran));
    if (result->with_us > 0)
        json_object_set_new(
            object, "predicted_us",
            json_pack("{s:f, s:f}", "with", result->with_us, "without", result->without_us));
    json_object_set_new(object, "error", number_or_null(result->error));
    json_object_set_new(object, "error_back", number_or_null(result->error_back));
    json_object_set_new(object, "cores", cores);
}

static void add_turns(json_t *object, const struct wring_allreduce_result *result)
{
    json_t *turns = json_array();
    for (uint32_t turn = 0; turn < result->turns; turn++)
        json_array_append_new(turns, json_real(result->turn_us[turn]));
    json_object_set_new(object, "turns_us", turns);
}

json_t *wring_allreduce_json(const char *provider, uint32_t ranks,
                             const struct wring_allreduce_result *result)
{
    json_t *object =
        json_pack("{s:I, s:s, s:s, s:I, s:{s:f, s:f, s:f}, s:f, s:f, s:f, s:I, s:o, s:I}", "ranks",
                  (json_int_t)ranks, "provider", provider, "codec", result->codec, "bytes",
                  (json_int_t)result->bytes, "time_us", "min", result->time_us.min, "median",
                  result->time_us.median, "p99", result->time_us.p99, "algbw_gb_per_s",
                  algbw_gb_per_s(result), "busbw_gb_per_s", busbw_gb_per_s(result, ranks),
                  "wire_bytes", result->wire_bytes, "wrong", (json_int_t)result->wrong, "nmse",
                  number_or_null(result->nmse), "iterations", (json_int_t)result->iterations);
    if (result->turns > 1)
        add_turns(object, result);
    if (result->has_stats)
        add_stats(object, ranks, result);
    return object;
}

static double number(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/** "int8", or "int8 -> none" where another than the one asked for ran. */
static void show_codec(struct wring_table *table, json_t *result)
{
    const char *codec = json_string_value(json_object_get(result, "codec"));
    const char *ran = json_string_value(json_object_get(result, "ran"));

    if (ran != NULL && strcmp(ran, "none") == 0 && strcmp(codec, "none") != 0)
        wring_table_cell(table, "%s -> none", codec);
    else
        wring_table_cell(table, "%s", codec);
}

void wring_allreduce_show(json_t *results)
{
    static const struct wring_table_column columns[] = {
        {"codec", WRING_ALIGN_LEFT},       {"bytes", WRING_ALIGN_RIGHT},
        {"min us", WRING_ALIGN_RIGHT},     {"median us", WRING_ALIGN_RIGHT},
        {"p99 us", WRING_ALIGN_RIGHT},     {"algbw GB/s", WRING_ALIGN_RIGHT},
        {"busbw GB/s", WRING_ALIGN_RIGHT}, {"wire bytes", WRING_ALIGN_RIGHT},
        {"wrong", WRING_ALIGN_RIGHT},      {"nmse", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, 10);
    json_t *result;
    size_t i;

    json_array_foreach(results, i, result)
    {
        json_t *time = json_object_get(result, "time_us");
        char bytes[32];
        wring_value_show_bytes((uint64_t)number(result, "bytes"), bytes, sizeof(bytes));
        show_codec(table, result);
        wring_table_cell(table, "%s", bytes);
        wring_table_cell(table, "%.1f", number(time, "min"));
        wring_table_cell(table, "%.1f", number(time, "median"));
        wring_table_cell(table, "%.1f", number(time, "p99"));
        wring_table_cell(table, "%.2f", number(result, "algbw_gb_per_s"));
        wring_table_cell(table, "%.2f", number(result, "busbw_gb_per_s"));
        wring_table_cell(table, "%.0f", number(result, "wire_bytes"));
        wring_table_cell(table, "%.0f", number(result, "wrong"));
        if (json_is_real(json_object_get(result, "nmse")))
            wring_table_cell(table, "%.3g", number(result, "nmse"));
        else
            wring_table_cell(table, "nan");
    }
    wring_table_finish(table, stdout);
}
